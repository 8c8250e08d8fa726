"""LangGraph: `SalienceStore`, a store of items for graphs, kept as memories.

```python
store = SalienceStore(salience.connect("agent.db"), user_at=0)
graph = builder.compile(store=store)
```
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Unpack
from urllib.parse import quote

from salience.errors import ForbiddenError, InputError, MissingExtraError, NotFoundError
from salience.integrations import PAGE, Memory, belongs, in_thread, scan
from salience.keywords import CallerKeywords
from salience.rank.profile import LIMIT, parse
from salience.rank.profiles import ProfileLike
from salience.records import ANY, Hit, checks
from salience.records import Memory as Stored
from salience.text import content_hash

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
        validate_op_namespace,
    )
except ImportError as error:
    raise MissingExtraError("salience.integrations.langgraph", "langgraph") from error

COSINE: Final = parse(
    """
name = "cosine"
summary = "The cosine alone, as LangGraph's own stores rank."
combine = "sum"
stages = ["expired", "score", "trim"]
signal.similarity = {}
""",
    "langgraph",
)
"""The profile of searches that name none: a score is the cosine of query and item, or 0 if that is negative."""
ROOT: Final = "langgraph"
"""Tag of every item, key of its metadata, and the project of items unless the caller names one."""
INDEXED, UNINDEXED, PART = "fact", "record", "part"
"""Kinds: an item, with the first of its texts; an item that no query finds; a further text of an item."""
SLACK: Final = 1.1
"""A refreshed time to live is longer by this factor, so that frequent reads write few versions."""
KEYS: Final = 50
"""Facts to look up in one request."""
Name = tuple[tuple[str, ...], str]
"""Namespace and key of an item."""

_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": operator.eq, "$ne": operator.ne, "$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt,
    "$lte": operator.le,
}  # fmt: skip


class SalienceStore(BaseStore):
    """Store of LangGraph over a memory; every item is a memory, and every replaced value a version of it.

    Args:
        memory: the connection. Its embedder embeds the items, and its tenant owns them.
        fields: paths of the texts to search by, such as `text` or `context[*].content`; None: all text of the value.
        ttl: LangGraph's defaults of the time to live. Expired items are never returned.
        profile: ranks searches with a query; None: by the cosine alone.
        user_at: position of the label that is the user id, such as 0 for `(user_id, "memories")`. An item then belongs
            to that user: `recall` and `erase` with this `user_id` include it. None: items belong to `user_id`, or to
            no user.
        **where: other scope keywords of all items. The project is `langgraph` by default, so that recalls that name no
            project leave items out; with `project=None` they find them.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memory,
        *,
        fields: Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
        profile: ProfileLike | None = None,
        user_at: int | None = None,
        **where: Unpack[CallerKeywords],
    ) -> None:
        self.ttl_config = ttl
        self._memory = memory
        self._fields = ["$"] if fields is None else list(fields)
        self._profile = COSINE if profile is None else profile
        self._user_at = None if user_at is None else checks.whole("user_at", user_at, 0, 100)
        self._where: dict[str, Any] = {"project": ROOT, **where}
        self._writing = threading.Lock()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Return the results of operations, in order; reads see the store as it was before the writes."""
        listed = list(ops)
        for op in listed:
            validate_op_namespace(op)
        gets = [op for op in listed if isinstance(op, GetOp)]
        items = self._get(gets) if gets else {}
        results: list[Result] = []
        puts: dict[Name, PutOp] = {}
        for op in listed:
            if isinstance(op, GetOp):
                results.append(items.get((tuple(op.namespace), op.key)))
            elif isinstance(op, SearchOp):
                results.append(self._search(op))
            elif isinstance(op, ListNamespacesOp):
                results.append(self._namespaces(op))
            elif isinstance(op, PutOp):
                puts[tuple(op.namespace), op.key] = op
                results.append(None)
            else:
                raise TypeError(f"unknown operation: {type(op).__name__}")
        if puts:
            with self._writing:
                self._put(puts)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Return what `batch` returns, which runs in a worker thread."""
        return await in_thread(self.batch, list(ops))

    # Where items are

    def _home(self, namespace: Sequence[str]) -> dict[str, Any]:
        """Return the scope keywords of the items of a namespace."""
        if self._user_at is None or len(namespace) <= self._user_at:
            return self._where
        return {**self._where, "user_id": namespace[self._user_at]}

    def _view(self, prefix: Sequence[str]) -> dict[str, Any]:
        """Return the scope keywords of a read of the namespaces below a prefix; the tag of the prefix filters them."""
        home = self._home(prefix)
        is_above = self._user_at is not None and len(prefix) <= self._user_at  # the users are below the prefix
        return {**home, "user_id": ANY} if is_above else home

    def _record(self, memory: Stored) -> _Record | None:
        """Return the item of a memory; None for a memory that is none, or was stored in another scope."""
        record = _record(memory)
        return record if record and belongs(memory, self._home(record.name[0])) else None

    def _scan(self, prefix: Sequence[str], *kinds: str) -> Iterator[_Record]:
        """Yield the items below a prefix, in the order of storing."""
        seen = set[Name]()
        for record in map(self._record, scan(self._memory, self._view(prefix), tags=[_tag(prefix)], kinds=kinds)):
            if record is not None and record.name not in seen and not record.has_expired:
                seen.add(record.name)
                yield record

    def _stored(self, names: Iterable[Name], part: int = 0) -> dict[Name, list[_Record]]:
        """Return the memories of items, the current one last; with `part`, those of their further texts."""
        by_user: dict[Any, list[Name]] = {}
        for name in names:
            by_user.setdefault(self._home(name[0]).get("user_id"), []).append(name)
        found: dict[Name, list[_Record]] = {}
        for group in by_user.values():
            home = self._home(group[0][0])
            for start in range(0, len(group), KEYS):
                wanted = [_fact_key(name, part) for name in group[start : start + KEYS]]
                page = self._memory.list(**home, tags=[ROOT], fact_keys=wanted, limit=1000)
                for record in filter(None, map(self._record, page.memories)):
                    found.setdefault(record.name, []).append(record)
        for records in found.values():
            records.sort(key=lambda record: (record.memory.updated_at, record.memory.id))
        return found

    # Read

    def _get(self, ops: Sequence[GetOp]) -> dict[Name, Item]:
        names = {(tuple(op.namespace), op.key): op.refresh_ttl for op in ops}
        found = {name: records[-1] for name, records in self._stored(names).items() if not records[-1].has_expired}
        self._refresh(record for name, record in found.items() if names[name])
        return {name: Item(**record.fields) for name, record in found.items()}

    def _search(self, op: SearchOp) -> list[SearchItem]:
        end = op.offset + op.limit
        found: list[tuple[_Record, float | None]] = []
        if query := (op.query or "").strip():
            found += self._ranked(op, query, end)
        if not query or (self._profile is COSINE and len(found) < end):
            for record in self._scan(op.namespace_prefix, *([UNINDEXED] if query else [INDEXED, UNINDEXED])):
                if len(found) >= end:
                    break
                if accepts(op.filter, record.value):
                    found.append((record, None))
        found = found[op.offset : end]
        if op.refresh_ttl:
            self._refresh(record for record, _ in found)
        return [SearchItem(**record.fields, score=score) for record, score in found]

    def _ranked(self, op: SearchOp, query: str, end: int) -> list[tuple[_Record, float | None]]:
        """Return the best items for a query: of the best texts, more of them until enough items pass the filter."""
        where = {**self._view(op.namespace_prefix), "tags": [_tag(op.namespace_prefix)], "kinds": [INDEXED, PART]}
        size = min(max(end, 1) * (4 if op.filter else 1), LIMIT)
        while True:
            hits = self._memory.recall(query, **where, profile=self._profile, limit=size).hits
            found = [pair for pair in self._items(hits) if accepts(op.filter, pair[0].value)]
            if len(found) >= end or len(hits) < size or size == LIMIT:
                return found
            size = min(4 * size, LIMIT)

    def _items(self, hits: Sequence[Hit]) -> list[tuple[_Record, float | None]]:
        """Return the items of hits, each with the score of its best text."""
        best: dict[Name, float] = {}
        items: dict[Name, _Record] = {}
        for hit in hits:
            if record := self._record(hit.memory):
                best.setdefault(record.name, hit.score)
                if hit.memory.kind != PART:
                    items.setdefault(record.name, record)
        missing = self._stored(best.keys() - items.keys())
        items |= {name: records[-1] for name, records in missing.items() if not records[-1].has_expired}
        return [(items[name], score) for name, score in best.items() if name in items]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        prefix: list[str] = []
        for label in next((one.path for one in conditions if one.match_type == "prefix"), ()):
            if label == "*":
                break
            prefix.append(label)
        found = {record.name[0] for record in self._scan(prefix, INDEXED, UNINDEXED)}
        matching = {space for space in found if all(_matches(condition, space) for condition in conditions)}
        cut = sorted({space[: op.max_depth] for space in matching})
        return cut[op.offset : op.offset + op.limit]

    # Write

    def _put(self, puts: Mapping[Name, PutOp]) -> None:
        stored = {(name, 0): records for name, records in self._stored(puts).items()}
        parts = {name: max(record.parts for record in records) for (name, _), records in stored.items()}
        for part in range(1, max(parts.values(), default=1)):
            several = self._stored((name for name, count in parts.items() if count > part), part)
            stored |= {(name, part): records for name, records in several.items()}
        new: list[dict[str, Any]] = []
        changes: list[tuple[str, dict[str, Any], dict[str, Any]]] = []  # id, changed fields (none: forget), scope
        for name, op in puts.items():
            home = self._home(name[0])
            drafts = [] if op.value is None else self._drafts(name, op)
            for part in range(max(len(drafts), parts.get(name, 0))):
                old = [record.memory for record in stored.get((name, part), ())]
                if part < len(drafts) and not old:
                    new.append({**drafts[part], **home})
                elif part < len(drafts):
                    current = old.pop()
                    if changed := _changed(current, drafts[part]):
                        changes.append((current.id, changed, home))
                changes += [(one.id, {}, home) for one in old]
        for start in range(0, len(new), PAGE):
            self._memory.remember_many(new[start : start + PAGE])
        for memory_id, fields, home in changes:
            with suppress(NotFoundError):  # forgotten meanwhile
                self._memory.update(memory_id, **fields, **home) if fields else self._memory.forget(memory_id, **home)

    def _drafts(self, name: Name, op: PutOp) -> list[dict[str, Any]]:
        """Return the fields of the memories of an item: one for each of its texts, or one for none."""
        namespace, key = name
        value = plain(op.value)
        paths = self._fields if op.index is None else op.index or []
        found = [text for path in paths for text in (_whole(value) if path == "$" else get_text_at_path(value, path))]
        texts = [text for text in dict.fromkeys(found) if text.strip()]
        data: dict[str, Any] = {"namespace": list(namespace), "key": key}
        main = {"value": value} | ({"parts": len(texts)} if len(texts) > 1 else {})
        if op.ttl is not None:
            main |= {"ttl": op.ttl, "put_at": datetime.now(UTC).isoformat()}
        drafts = []
        for part, text in enumerate(texts or [f"{' / '.join(namespace)}: {key}"]):
            drafts.append({
                "content": text.encode()[: checks.METADATA_LIMIT].decode(errors="ignore"),
                "kind": PART if part else INDEXED if texts else UNINDEXED,
                "tags": [_tag(namespace[:depth]) for depth in range(len(namespace) + 1)],
                "fact_key": _fact_key(name, part),
                "metadata": {ROOT: data | ({"part": part} if part else main)},
                "ttl": None if op.ttl is None or part else op.ttl * 60,
                "duplicate": True,
            })  # fmt: skip
        return drafts

    def _refresh(self, records: Iterable[_Record]) -> None:
        """Start the time to live of items anew."""
        for record in records:
            expires, ttl = record.memory.expires_at, record.data.get("ttl")
            if ttl and expires and expires < datetime.now(UTC) + timedelta(minutes=ttl):
                with suppress(NotFoundError, ForbiddenError):  # forgotten meanwhile; a key that may only read
                    self._memory.update(record.memory.id, ttl=ttl * 60 * SLACK, **self._home(record.name[0]))


@dataclass(frozen=True)
class _Record:
    """A memory of an item, and the part of its metadata that is the item."""

    memory: Stored
    data: Mapping[str, Any]

    @property
    def name(self) -> Name:
        return tuple(self.data["namespace"]), self.data["key"]

    @property
    def value(self) -> dict[str, Any]:
        return dict(plain(self.data["value"]))

    @property
    def parts(self) -> int:
        return int(self.data.get("parts", 1))

    @property
    def has_expired(self) -> bool:
        return self.memory.expires_at is not None and self.memory.expires_at <= datetime.now(UTC)

    @property
    def fields(self) -> dict[str, Any]:
        """The arguments of `Item`."""
        return {
            "namespace": self.name[0],
            "key": self.name[1],
            "value": self.value,
            "created_at": self.memory.created_at,
            "updated_at": self.data.get("put_at") or self.memory.updated_at,
        }


def _record(memory: Stored) -> _Record | None:
    """Return the item of a memory; None if it has none."""
    data = memory.metadata.get(ROOT)
    if not isinstance(data, Mapping) or not {"key", "namespace"} <= data.keys():
        return None
    return _Record(memory, data) if "value" in data or memory.kind == PART else None


def _changed(old: Stored, draft: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields in which a memory differs from a draft; all, if the draft or the memory expires."""
    data = {ROOT: draft["metadata"][ROOT]}
    same_text = (old.content, old.kind) == (draft["content"], draft["kind"])
    if same_text and plain(old.metadata.get(ROOT)) == data[ROOT] and old.expires_at is None and draft["ttl"] is None:
        return {}
    text = {} if same_text else {name: draft[name] for name in ("content", "kind", "fact_key")}
    return {"metadata": {**old.metadata, **data}, "ttl": draft["ttl"], **text}


def _path(labels: Iterable[str]) -> str:
    return "/".join(quote(label, safe="") for label in labels)


def _tag(prefix: Sequence[str]) -> str:
    """Return the tag of every item at or below a namespace; two namespaces never share it."""
    tag = f"{ROOT}/{_path(prefix)}" if prefix else ROOT
    return tag if len(tag) <= checks.NAME_LIMIT else f"{ROOT}/#{content_hash(tag)}"


def _fact_key(name: Name, part: int) -> str:
    """Return the fact that only this text of this item states, by which it is found."""
    namespace, key = name
    whole = f"{ROOT}/{_path(namespace)}:{quote(key, safe='')}"
    short = whole if len(whole) <= checks.NAME_LIMIT - 10 else f"{ROOT}/#{content_hash(whole)}"
    return f"{short}#{part}" if part else short


def plain(value: Any) -> Any:
    """Return a JSON value made of dicts and lists."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _whole(value: Any) -> list[str]:
    """Return the text of a value: its only leaf, or a line `path: leaf` for each."""
    leaves = list(_leaves(value))
    lines = [leaf for _, leaf in leaves] if len(leaves) == 1 else [f"{path}: {leaf}" for path, leaf in leaves]
    return ["\n".join(lines)]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, path)
    elif value is not None:
        yield path, str(value)


def _matches(condition: MatchCondition, namespace: Sequence[str]) -> bool:
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise InputError("match_type", condition.match_type, "Choose one of: prefix, suffix.")
    if len(path) > len(namespace):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, labels, strict=True))


def accepts(filter: Mapping[str, Any] | None, value: Mapping[str, Any]) -> bool:
    """Return whether a value passes a filter; a key with periods that the value has not is a path."""
    return all(_passes(_at(value, key), wanted) for key, wanted in (filter or {}).items())


def _at(value: Any, key: str) -> Any:
    if isinstance(value, Mapping) and key not in value and "." in key:
        first, _, rest = key.partition(".")
        return _at(value.get(first), rest)
    return value.get(key) if isinstance(value, Mapping) else None


def _passes(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and any(str(name).startswith("$") for name in wanted):
        return all(_compares(found, name, other) for name, other in wanted.items())
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(_passes(found.get(name), other) for name, other in wanted.items())
    return bool(found == plain(wanted))


def _compares(found: Any, name: str, wanted: Any) -> bool:
    if name not in _COMPARE:
        raise InputError("filter", name, f"Choose one of: {', '.join(_COMPARE)}.")
    try:
        return bool(_COMPARE[name](found, plain(wanted)))
    except TypeError:  # a text and a number have no order
        return False
