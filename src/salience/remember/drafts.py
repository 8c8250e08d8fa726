"""From call arguments to memories: drafts and conversation turns are validated, completed and read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from salience.batch import Tokens, Vectors32
from salience.errors import InputError, wrong_type
from salience.extract.distinctions import distinguish
from salience.extract.facts import TEAM, slug
from salience.extract.subjects import index_terms
from salience.lines import as_draft, message_text, moment
from salience.ports import Extract, Services, Stored
from salience.records import Draft, Memory, Scope, checks
from salience.records.checks import NAME_LIMIT
from salience.text import content_hash, split


def drafts(items: Iterable[object], scope: Scope) -> list[Draft]:
    """Return one draft for each item: a `Draft`, or a mapping of its fields.

    Raises:
        InputError: an invalid item; the error names its position.
    """
    made: list[Draft] = []
    for position, item in enumerate(items):
        try:
            made.append(as_draft(item, scope))
        except InputError as error:
            raise error.at(f"drafts[{position}].{error.field}") from None
    return made


def turns(messages: Iterable[object], scope: Scope) -> list[Draft]:
    """Return one draft for each message of a conversation, with the content verbatim.

    A message is a mapping, or an object with these attributes: `content` or `text` (text, or a list of parts);
    `speaker`, `name` or `role`; and optionally `timestamp` (what `checks.instant` reads, or seconds
    since 1970), `metadata` and `key`. Messages that only call tools are left out.

    Raises:
        InputError: no session, or an invalid message; the error names its position.
    """
    if scope.session_id is None:
        raise InputError("session_id", None, "Name the session that the messages belong to.")
    if isinstance(messages, (str, bytes, Mapping)):
        raise wrong_type("messages", messages, "Give a list of messages.")
    found = (_turn(f"messages[{position}]", message, scope) for position, message in enumerate(messages))
    return [draft for draft in found if draft is not None]


def _turn(path: str, message: object, scope: Scope) -> Draft | None:
    def get(*names: str) -> Any:
        found = (message.get(name) if isinstance(message, Mapping) else getattr(message, name, None) for name in names)
        return next((value for value in found if value is not None), None)

    if not isinstance(message, Mapping) and not (hasattr(message, "content") or hasattr(message, "text")):
        raise wrong_type(path, message, "Give a mapping with a content, and a role or speaker.")
    try:
        content = message_text(get("content", "text"))
        if not content and get("tool_calls", "function_call") is not None:
            return None
        return Draft(
            content=content,
            scope=scope,
            kind="turn",
            speaker=get("speaker", "name", "role"),
            created_at=moment(get("timestamp")),
            metadata=get("metadata") or {},
            key=get("key"),
        )
    except InputError as error:
        raise error.at(f"{path}.{error.field}") from None


def split_turns(drafts: Iterable[Draft], limit: int) -> Iterator[tuple[Draft, str | None]]:
    """Yield each turn of at most `limit` bytes with None, and the parts of each longer turn with a warning.

    Every part is a turn of its own. Its metadata holds `part`, `parts` and `message`, a hash of the whole text. The
    key of a part ends with the part's number, so a retry stores no part twice.
    """
    for draft in drafts:
        if len(draft.content.encode()) <= limit:
            yield draft, None
            continue
        texts = split(draft.content, limit)
        whole = content_hash(draft.content)
        for number, text in enumerate(texts, 1):
            metadata = {"part": number, "parts": len(texts), "message": whole[:32], **draft.metadata}
            key = None
            if draft.key is not None:
                key = f"{draft.key}#{number}"
                key = key if len(key) <= NAME_LIMIT else f"{content_hash(draft.key)}#{number}"
            warning = f"Part {number} of {len(texts)} of a message over {limit:,} bytes, which was split."
            yield replace(draft, content=text, metadata=metadata, key=key), warning


def clean(services: Services, draft: Draft, now: datetime, caller: Scope | None = None) -> Memory:
    """Return the memory for a draft, with omitted fields extracted from the text or set to their defaults.

    `caller` is the scope of the call: home of a draft without a scope, and author of the version.

    Raises:
        InputError: the content is too long, the scope is no home, or the time to live ends after the year 9999.
    """
    checks.text("content", draft.content, services.content_limit)
    home = (draft.scope or caller or Scope()).as_home()
    if home.tenant != services.tenant:
        home = replace(home, tenant=services.tenant)
    states_fact = draft.fact_key is None and draft.kind != "turn"  # people say more than they mean to be remembered
    found = Extract(draft.importance or 0.0, ())
    if draft.importance is None or draft.entities is None or states_fact:
        found = services.extractor.extract(draft.content, speaker=draft.speaker, user_id=user_of(home))
    entities = draft.entities
    if entities is None:
        speaker = (draft.speaker,) if draft.speaker else ()
        entities = checks.first_labels(dict.fromkeys((*speaker, *found.entities)))
    created = draft.created_at or now
    try:
        expires = None if draft.ttl is None else created + draft.ttl
    except OverflowError:
        raise InputError("ttl", str(draft.ttl), "Give one that ends before the year 10000, or none.") from None
    return Memory(
        id=services.new_id(now),
        scope=home,
        content=draft.content,
        content_hash=content_hash(draft.content),
        kind=draft.kind,
        importance=found.importance if draft.importance is None else draft.importance,
        weight=draft.weight,
        tier=draft.tier,
        tags=tuple(draft.tags),
        entities=tuple(entities),
        fact_key=project_fact_key(found.fact_key, home) if states_fact else draft.fact_key,
        supersedes=draft.supersedes,
        metadata=draft.metadata,
        key=draft.key,
        speaker=draft.speaker,
        created_at=created,
        updated_at=created,
        tier_since=created,
        changed_at=now,
        changed_by=None if caller is None else caller.who,
        expires_at=expires,
    )


def user_of(scope: Scope) -> str | None:
    """Return the user of a scope; None for no user or `ANY`."""
    return scope.user_id if isinstance(scope.user_id, str) else None


def project_fact_key(key: str | None, home: Scope) -> str | None:
    """Return an extracted fact key with the name of the project instead of the team: projects differ in such facts."""
    if key is None or home.project is None or not key.startswith(f"{TEAM}."):
        return key
    return f"{slug(str(home.project)) or 'project'}{key.removeprefix(TEAM)}"


def derive(
    services: Services,
    memory: Memory,
    vector: Vectors32 | None = None,
    activations: Mapping[str, int] | None = None,
    tokens: Tokens | None = None,
) -> Stored:
    """Return a memory with the terms and distinctions of its text, and the time that it states."""
    terms = index_terms(services.tokeniser, memory)
    found, event = distinguish(memory.content, memory.speaker, memory.created_at)
    return Stored(memory, vector, terms, activations or {}, found, tokens, event)
