"""Text files kept as memories, for frameworks whose memory is a tree of files. Needs no framework.

A file is one memory of the kind `file` with its path in a tag and in the metadata. A text over the content limit is
split at lines: the file's memory then names further memories of the kind `file-part`. Edits make versions, and a
deleted file is a forgotten memory.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Unpack

from salience import keywords
from salience.errors import ConflictError, NotFoundError, StaleError
from salience.integrations import Memory, belongs, scan
from salience.keywords import CallerKeywords
from salience.records import Draft, checks
from salience.records import Memory as Record
from salience.text import content_hash

KIND: Final = "file"
PART: Final = "file-part"
EMPTY: Final = "(empty file)"
"""Content of the memory of a blank file, since a memory has some text; the metadata holds the white space."""
PART_SIZE: Final = 65_536
"""Maximum bytes of one part: the default content limit."""
PAGE: Final = 100
ATTEMPTS: Final = 16
"""Attempts at an operation while other writers change the file."""
NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True)
class File:
    """A stored file: its path, its text, and the memory that stands for it."""

    path: str
    text: str
    memory: Record

    @property
    def version(self) -> str:
        """Identity of this state of the file; never used again, even for a later file of the same path."""
        return f"{self.memory.id}:{self.memory.version}"


class Files:
    """The text files of one place (environment, project, user and agent), and of no other.

    Args:
        memory: a connected memory.
        part_size: maximum bytes of one memory; the content limit of the server, if that is lower than the default.
        **where: the scope keywords of the files.
    """

    def __init__(self, memory: Memory, part_size: int = PART_SIZE, **where: Unpack[CallerKeywords]) -> None:
        self.memory, self.part_size, self.where = memory, checks.whole("part_size", part_size, 4, 1 << 30), where
        keywords.home("default", where)  # refuses ANY

    def heads(self, *tags: str) -> Iterator[Record]:
        """Iterate over the memories of files that have all `tags`, in the order of storing, without reading parts."""
        return filter(self.owns, scan(self.memory, self.where, kinds=(KIND,), tags=tags))

    def owns(self, memory: Record) -> bool:
        """Return whether `memory` is a file of this very place."""
        path = memory.metadata.get("path")
        is_file = memory.kind == KIND and isinstance(path, str) and path_tag(path) in memory.tags
        return is_file and belongs(memory, self.where)

    def read(self, path: str) -> File | None:
        """Return the file at `path`, or None."""
        for attempt in range(ATTEMPTS):
            head = next(self.heads(path_tag(path)), None)
            if head is None:
                return None
            try:
                parts = [self.memory.get(part, **self.where) for part in head.metadata.get("parts", ())]
            except NotFoundError:  # another writer replaced them meanwhile
                if attempt == ATTEMPTS - 1:
                    raise
                continue
            return File(path, _own_text(head) + "".join(part.content for part in parts), head)
        return None

    def create(self, path: str, text: str, *, metadata: Mapping[str, Any] = NOTHING, tags: Sequence[str] = ()) -> File:
        """Store a new file, with further metadata and tags, and return it.

        Raises:
            FileExistsError: there is a file at `path`.
        """
        number = 0
        while True:
            if self.exists(path):
                raise FileExistsError(path)
            content, parts, fields = self._store(path, text, metadata, tags, ())
            try:  # the key makes one of several concurrent calls win
                key = f"{path_tag(path)}#{number}"
                receipt = self.memory.remember(content, key=key, kind=KIND, **fields, **self.where)
            except ConflictError:
                receipt = None
            if receipt is not None and receipt.status != "unchanged":
                return File(path, text, receipt.memory)
            self._forget(parts)
            number = max(number, self._last_deleted(path)) + 1

    def exists(self, path: str) -> bool:
        """Return whether there is a file at `path`."""
        return next(self.heads(path_tag(path)), None) is not None

    def _last_deleted(self, path: str) -> int:
        """Return the highest number in the keys of recently deleted files of `path`; 0 for none."""
        changes = self.memory.changes(change="forget", limit=PAGE, **self.where).changes
        keys = [str(version.memory.key).rpartition("#") for version in changes if self.owns(version.memory)]
        return max((int(number) for tag, _, number in keys if tag == path_tag(path)), default=0)

    def write(
        self,
        file: File,
        text: str,
        *,
        metadata: Mapping[str, Any] = NOTHING,
        tags: Sequence[str] = (),
        reason: str | None = None,
    ) -> File:
        """Replace the text of `file`, with its further metadata and tags, and return the new state.

        Raises:
            StaleError: the file changed or was deleted since it was read; nothing was written.
        """
        old = list(file.memory.metadata.get("parts", ()))
        content, parts, fields = self._store(file.path, text, metadata, tags, old)
        try:
            receipt = self._update(file.memory, content=content, reason=reason, **fields)
        except StaleError:
            self._forget(set(parts) - set(old))
            raise
        self._forget(set(old) - set(parts))
        return File(file.path, text, receipt.memory)

    def rename(self, head: Record, path: str, *, reason: str | None = None) -> None:
        """Move the file of the memory `head` to `path`, where there must be none."""
        kept = [tag for tag in head.tags if not tag.startswith(("path:", "dir:"))]
        fields = {"tags": [*place_tags(path), *kept], "fact_key": path_tag(path)}
        self._update(head, metadata={**head.metadata, "path": path}, reason=reason, **fields)
        for part in head.metadata.get("parts", ()):
            self.memory.update(part, tags=place_tags(path), **self.where)

    def delete(self, head: Record, *, reason: str | None = None) -> None:
        """Forget the file of the memory `head`, with its parts.

        Raises:
            StaleError: the file changed or was deleted since it was read.
        """
        try:
            self.memory.forget(head.id, if_version=head.version, reason=reason, **self.where)
        except NotFoundError:
            raise StaleError(f"id: memory {head.short_id} was forgotten meanwhile.") from None
        self._forget(head.metadata.get("parts", ()))

    def _update(self, head: Record, **changes: Any) -> Any:
        try:
            return self.memory.update(head.id, if_version=head.version, **changes, **self.where)
        except NotFoundError:
            raise StaleError(f"id: memory {head.short_id} was forgotten meanwhile.") from None

    def _store(
        self, path: str, text: str, metadata: Mapping[str, Any], tags: Sequence[str], old: Sequence[str]
    ) -> tuple[str, list[str], dict[str, Any]]:
        """Store the parts of a long text; return the content of its file, the ids of the parts and other fields.

        Parts among `old` that did not change are kept.
        """
        if text.strip():
            checks.text("text", text)
        own, *rest = split(text, self.part_size)
        kept = [self._part(part) for part in old] if rest else []
        known = {part.content_hash: part.id for part in kept if part is not None}
        new = [piece for piece in dict.fromkeys(rest) if content_hash(piece) not in known]
        drafts = [Draft(content=piece, kind=PART, tags=place_tags(path), duplicate=True) for piece in new]
        if drafts:
            for receipt in self.memory.remember_many(drafts, **self.where):
                known[receipt.memory.content_hash] = receipt.memory.id
        parts = [known[content_hash(piece)] for piece in rest]
        stored = {**metadata, "path": path, **({"parts": parts, "size": len(text.encode())} if parts else {})}
        if not own.strip():
            own, stored["blank"] = EMPTY, own
        fields = {"metadata": stored, "tags": [*place_tags(path), *tags], "fact_key": path_tag(path)}
        return own, parts, fields

    def _part(self, id: str) -> Record | None:
        try:
            return self.memory.get(id, **self.where)
        except NotFoundError:
            return None

    def _forget(self, parts: Iterable[str]) -> None:
        for part in set(parts):
            if self._part(part) is not None:
                self.memory.forget(part, reason="part of an old version of a file", **self.where)


def path_tag(path: str) -> str:
    """Return the tag of the file at `path`: the path itself, or its hash if it is no valid tag."""
    return _tag("path", path)


def directory_tag(path: str) -> str:
    """Return the tag of the files that are directly in the directory at `path`."""
    return _tag("dir", path)


def place_tags(path: str) -> list[str]:
    """Return the tags of a file by its place: its path and its directory."""
    return [path_tag(path), directory_tag(posixpath.dirname(path))]


def _tag(name: str, path: str) -> str:
    return f"{name}:{path}" if len(path) <= 200 and path.isprintable() else f"{name}:sha256:{content_hash(path)}"


def _own_text(head: Record) -> str:
    """Return the text that is in the memory of a file itself."""
    return str(head.metadata["blank"]) if head.content == EMPTY and "blank" in head.metadata else head.content


def size(head: Record) -> int:
    """Return the bytes of a file."""
    return int(head.metadata["size"]) if "parts" in head.metadata else len(_own_text(head).encode())


def split(text: str, limit: int) -> list[str]:
    """Return `text` as consecutive parts of at most `limit` bytes in UTF-8, each ending at a line if it can."""
    data, parts, start = text.encode(), [], 0
    while len(data) - start > limit:
        end = data.rfind(b"\n", start + limit // 2, start + limit) + 1
        if not end:
            end = start + limit
            while data[end] & 0xC0 == 0x80:  # never inside a character
                end -= 1
        parts.append(data[start:end].decode())
        start = end
    return [*parts, data[start:].decode()]
