"""Random requests of somebody with a key: on what is theirs, on what is another's, and on what is not there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from bench.torture_postgres.deeds import ABOUT, PROFILES, WORDS
from bench.torture_server.asking import TOOLS, Asked
from bench.torture_server.cast import COORDINATES, Holder, Home

KEYS: Final = 20
"""Idempotency keys; the same in every home."""
FOREIGN: Final = 0.35
"""Chance that coordinates, or a draft's, are those of a home that the key must not reach."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: whose it is, by which choices, and among which homes and ids.

    Attributes:
        holder: whose.
        choose: makes every choice.
        homes: of all tenants.
        ids: home's number -> ids of its memories, as receipts told of them.
        at: the home that is written to, where that is settled; None: any.
    """

    holder: Holder
    choose: Random
    homes: Sequence[Home]
    ids: dict[int, list[str]]
    at: Home | None = None

    def text(self, home: Home) -> str:
        """Return a text as it belongs to a home, in the hand of the holder."""
        words = " ".join(self.choose.choices(WORDS, k=4))
        return f"{home.mark} {self.holder.sign} {words}{ABOUT}{self.choose.choice(WORDS)}"

    def own(self) -> Home:
        """Return a home that the holder may write to; of one who may not write, one that they see."""
        if self.at is not None:
            return self.at
        own = [home for home in self.holder.homes if self.holder.owns(home)]
        return self.choose.choice(own or list(self.holder.homes))

    def foreign(self) -> Home:
        """Return a home that the holder must not see: another tenant's, or beyond the bound."""
        near = [home for home in self.homes if home.tenant == self.holder.grant.tenant and not self.holder.sees(home)]
        far = [home for home in self.homes if home.tenant != self.holder.grant.tenant]
        return self.choose.choice(near if near and self.choose.random() < 0.6 else far)

    def where(self, home: Home) -> dict[str, Any]:
        """Return coordinates of a home, some of them as `*`, or left out where the key is bound to them."""
        given: dict[str, Any] = dict(home.where)
        for name in COORDINATES:
            chance = self.choose.random()
            if chance < 0.2:
                given[name] = "*"
            elif chance < 0.4 and name in self.holder.grant.bound:
                given.pop(name, None)
        return given

    def asking(self) -> dict[str, Any]:
        """Return coordinates to ask with: of a home that is seen, or of one that must not be reached."""
        return self.where(self.foreign() if self.choose.random() < FOREIGN else self.choose.choice(self.holder.homes))

    def beyond(self, home: Home) -> dict[str, Any]:
        """Return coordinates of a home with one that the key is bound to changed to another's, or to none at all."""
        given: dict[str, Any] = dict(home.where)
        for name in self.choose.sample(sorted(self.holder.grant.bound), min(1, len(self.holder.grant.bound))):
            given[name] = self.choose.choice((None, self.holder.sign))
        return given

    def known(self, home: Home) -> str:
        """Return the id of a memory of a home, or of none."""
        ids = self.ids.get(home.number)
        return self.choose.choice(ids) if ids else "0" * 32

    def nobodys(self) -> str:
        """Return an id that no memory has."""
        return f"{self.choose.getrandbits(128):032x}"


Deed = Callable[[Turn], Asked]
OnId = Callable[[Turn, str, dict[str, Any]], Asked]
"""From a turn, the id of a memory, and coordinates to a request about it."""


def _draft(turn: Turn, home: Home) -> dict[str, Any]:
    key = turn.choose.choice((None, f"key {turn.choose.randrange(KEYS)}"))
    kind = "bootstrap" if turn.choose.random() < 0.1 else "fact"
    fact = turn.choose.choice((None, "user.theme"))
    said = {"content": turn.text(home), "kind": kind, "fact_key": fact, "key": key}
    return {**said, "tags": [home.mark, "shared"], "entities": [home.mark, "Alice"], "metadata": {"of": home.mark}}


def _remember(turn: Turn) -> Asked:
    home = turn.own()
    asks_beyond = turn.choose.random() < FOREIGN / 2
    return Asked("remember", {**_draft(turn, home), **(turn.beyond(home) if asks_beyond else home.where)})


def _remember_many(turn: Turn) -> Asked:
    """Drafts name their own coordinates, which may be those of a home beyond the bound, or null."""
    drafts = []
    for _ in range(3):
        home, asks_beyond = turn.own(), turn.choose.random() < FOREIGN / 3
        drafts.append({**_draft(turn, home), **(turn.beyond(home) if asks_beyond else home.where)})
    return Asked("remember_many", {"drafts": drafts})


def _ingest(turn: Turn) -> Asked:
    home = turn.own()
    beyond = turn.foreign().where if turn.choose.random() < FOREIGN else {}
    turns = [{"role": role, "content": turn.text(home), **beyond} for role in ("user", "assistant")]
    return Asked("ingest", {"messages": turns, "session_id": turn.choose.choice(("monday", "tuesday")), **home.where})


def _question(turn: Turn) -> dict[str, Any]:
    home = turn.foreign() if turn.choose.random() < 0.5 else turn.own()
    return {"query": f"{home.mark} {turn.choose.choice(WORDS)} Alice", **turn.asking()}


def _recall(turn: Turn) -> Asked:
    given = {"profile": turn.choose.choice(PROFILES), "min_score": 0.0, "limit": 20, **_question(turn)}
    return Asked("recall", given | ({"tags": ["shared"]} if turn.choose.random() < 0.3 else {}))


def _list(turn: Turn) -> Asked:
    cursor = {"cursor": turn.known(turn.foreign())} if turn.choose.random() < 0.3 else {}
    return Asked("list", {"limit": 50, **cursor, **turn.asking()})


def _import(turn: Turn) -> Asked:
    """Return lines one of which may name another tenant, or coordinates beyond the bound."""
    home = turn.own()
    of_another: dict[str, Any] = turn.choose.choice(({}, {"tenant": turn.foreign().tenant}, turn.beyond(home)))
    lines = [{**_draft(turn, home), **home.where}, {**_draft(turn, home), **home.where, **of_another}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return Asked("import_", {"on_error": turn.choose.choice(("stop", "skip"))}, lines=text)


def _resource(turn: Turn) -> Asked:
    project = turn.choose.choice((None, turn.foreign().project, turn.own().project))
    return Asked("resource", {"uri": "salience://bootstrap" + (f"/{project}" if project else "")}, "mcp")


def _completion(turn: Turn) -> Asked:
    return Asked("completion", {"value": turn.choose.choice(("", "p", "proj", "proj00"))}, "mcp")


def _prompt(turn: Turn) -> Asked:
    project = turn.choose.choice((turn.foreign().project, turn.own().project))
    return Asked("prompt", {"topic": turn.choose.choice(WORDS), **({"project": project} if project else {})}, "mcp")


DEEDS: Final[dict[str, tuple[Deed, int]]] = {
    "remember": (_remember, 14),
    "remember_many": (_remember_many, 5),
    "ingest": (_ingest, 3),
    "recall": (_recall, 14),
    "graph_recall": (lambda turn: Asked("graph_recall", {"limit": 20, **_question(turn)}), 3),
    "context": (lambda turn: Asked("context", {"min_score": 0.0, **_question(turn)}), 4),
    "list": (_list, 6),
    "stats": (lambda turn: Asked("stats", turn.asking()), 4),
    "export": (lambda turn: Asked("export", turn.asking()), 1),
    "import_": (_import, 2),
    "reflect": (lambda turn: Asked("reflect", turn.asking()), 1),
    "consolidate": (lambda turn: Asked("consolidate", turn.asking()), 1),
    "end_session": (lambda turn: Asked("end_session", {"session_id": "monday", **turn.asking()}), 1),
    "upkeep": (lambda _: Asked("upkeep", {"dry_run": True}), 1),
    "profiles": (lambda _: Asked("profiles", {}), 1),
    "resource": (_resource, 4),
    "prompt": (_prompt, 3),
    "completion": (_completion, 3),
    "tools": (lambda _: Asked("tools", {}, "mcp"), 1),
}
"""What is asked, and how often beside the others."""


def _told(verb: str, name: str = "id", **more: Any) -> OnId:
    """Return the request for a verb that takes an id by a name, and nothing of the turn."""
    return lambda _, named, where: Asked(verb, {name: named, **more, **where})


def _changing(verb: str, *, keyed: bool = False) -> OnId:
    """Return the request for a verb that changes a memory, in the hand of the holder."""

    def deed(turn: Turn, named: str, where: dict[str, Any]) -> Asked:
        given: dict[str, Any] = {"id": named, "reason": turn.holder.sign, **where}
        if verb == "update":
            given["tags"] = ["shared", turn.holder.sign]
        if verb != "restore" and turn.choose.random() < 0.3:
            given["if_version"] = 1
        return Asked(verb, given | ({"key": f"{verb} {turn.choose.randrange(KEYS)}"} if keyed else {}))

    return deed


def _replacing(turn: Turn, named: str) -> dict[str, Any]:
    home = turn.own()
    return {**_draft(turn, home), "key": None, **home.where, "supersedes": named}


ON_AN_ID: Final[dict[str, tuple[OnId, int]]] = {
    "get": (_told("get"), 6),
    "history": (_told("history"), 4),
    "explain": (_told("explain", "memory_id", query=WORDS[0]), 4),
    "update": (_changing("update"), 6),
    "forget": (_changing("forget"), 3),
    "forget with a key": (_changing("forget", keyed=True), 2),
    "restore": (_changing("restore"), 3),
    "supersede": (lambda turn, named, _: Asked("remember", _replacing(turn, named)), 3),
    "supersede in a draft": (lambda turn, named, _: Asked("remember_many", {"drafts": [_replacing(turn, named)]}), 2),
    "erase": (lambda _, named, where: Asked("erase", {"ids": [named], **where}), 2),
}
"""The same for requests about one memory, which are tried on one's own and on those of others."""


def surfaced(asked: Asked, over_mcp: bool) -> Asked:
    """Return the request over MCP, if that is wanted and MCP has it."""
    if not over_mcp or asked.verb not in TOOLS:
        return asked
    return Asked(asked.verb, {name: value for name, value in asked.given.items() if name != "key"}, "mcp")
