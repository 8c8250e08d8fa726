"""Random requests of keys of several tenants over REST and MCP, and the search of every answer for other people's data.

Memories live in homes: a tenant's project and user, or one that these share. Each text holds the mark of its home and
the sign of its writer, so that an answer shows whose memories are in it.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from bench.driver import listed, report
from bench.writers import ABOUT, WORDS
from salience.engine import Engine
from salience.ports import Keyring
from salience.records import Grant
from salience.server import auth as access
from salience.verbs import VERBS

PROFILES: Final = ("salience", "mememory", "memlayer", "zeromemory", "memorysync", "cmm")
COORDINATES: Final = ("project", "user_id")
MARK: Final = re.compile(r"mark\d{4}end")
NAMES: Final = re.compile(r"(?:house|proj|user)\d{4}end")
ID: Final = re.compile(r"\b[0-9a-f]{32}\b")
FOREIGN: Final = 0.35
"""Chance that a request names coordinates that its key must not reach."""
TOOLS: Final = frozenset(
    "remember recall update forget list stats context explain history restore ingest reflect end_session".split()
)
"""Verbs that MCP has too."""


def name(number: int) -> str:
    """Return the name of a tenant."""
    return f"house{number:04d}end"


@dataclass(frozen=True)
class Home:
    """A tenant's project and user (None: shared) where memories live, each with the home's mark in it."""

    number: int
    tenant: str
    project: str | None
    user_id: str | None

    @property
    def mark(self) -> str:
        return f"mark{self.number:04d}end"

    @property
    def where(self) -> dict[str, Any]:
        given = {"project": self.project, "user_id": self.user_id}
        return {key: value for key, value in given.items() if value is not None}


@dataclass
class Holder:
    """Someone with a key, and the homes that the key may show."""

    number: int
    token: str
    grant: Grant
    homes: Sequence[Home]
    revoking: bool = False
    revoked_at: float | None = None

    @property
    def sign(self) -> str:
        """Part of every text that this holder writes."""
        return f"hand{self.number:04d}end"

    def owns(self, home: Home) -> bool:
        """Return whether the key may write to a home."""
        right = self.grant.may("write") and self.grant.tenant == home.tenant
        return right and all(getattr(home, key) == value for key, value in self.grant.bound.items())


def all_homes(tenants: int, *, same_names: bool = False) -> list[Home]:
    """Return the homes of tenants: two projects and two users each, and what these share.

    Args:
        tenants: how many.
        same_names: whether the projects and users of all tenants have the same names.
    """
    places: list[tuple[str, str | None, str | None]] = []
    for tenant in range(tenants):
        first = 0 if same_names else 10 * tenant
        projects, users = ((None, *(f"{kind}{first + n:04d}end" for n in (1, 2))) for kind in ("proj", "user"))
        places += [(name(tenant), *where) for where in product(projects, users)]
    return [Home(number, *place) for number, place in enumerate(places)]


def all_holders(keyring: Keyring, homes: Sequence[Home]) -> list[Holder]:
    """Return the holders of five new keys in each tenant: each right, bound to nothing, a project, a user, or both."""
    found: list[Holder] = []
    for place, tenant in enumerate(dict.fromkeys(home.tenant for home in homes)):
        own = [home for home in homes if home.tenant == tenant]
        red, blue = dict.fromkeys(home.project for home in own if home.project)
        ann, ben = dict.fromkeys(home.user_id for home in own if home.user_id)
        read, write, admin = ("read",), ("read", "write"), ("admin",)
        odd = place % 2 == 1
        kinds: list[tuple[tuple[str, ...], dict[str, str]]] = [
            (admin, {}),
            (write if odd else read, {}),
            (admin if odd else write, {"project": red}),
            (write if odd else admin, {"user_id": ann}),
            (read if odd else write, {"project": blue, "user_id": ben}),
        ]
        found += [made(keyring, homes, len(found) + n, tenant, *kind) for n, kind in enumerate(kinds)]
    return found


def made(
    keyring: Keyring, homes: Sequence[Home], number: int, tenant: str, rights: Sequence[str], bound: Mapping[str, str]
) -> Holder:
    """Return the holder of a new key."""
    token, key = access.create_key(tenant, rights, bound, None, None, datetime.now(UTC))
    keyring.add(key)
    seen = [
        home
        for home in homes
        if home.tenant == tenant and all(getattr(home, key) in (None, value) for key, value in bound.items())
    ]
    return Holder(number, token, Grant(tenant=tenant, rights=rights, bound=bound, name=key.prefix), seen)


# --- Requests ---------------------------------------------------------------------------------------------------------


@dataclass
class Request:
    """A verb with its arguments, over REST or MCP; `lines` is the body of an import."""

    verb: str
    given: dict[str, Any]
    over_mcp: bool = False
    lines: str = ""

    def sent(self, client: httpx.Client, token: str) -> httpx.Response:
        """Send the request under a key."""
        built = client.build_request(**(self._mcp() if self.over_mcp else self._rest()))
        built.headers["authorization"] = f"Bearer {token}"
        return client.send(built)

    def _rest(self) -> dict[str, Any]:
        verb, given = VERBS[self.verb], dict(self.given)
        path = verb.path.format_map({key: given.pop(key) for key in re.findall(r"{(\w+)}", verb.path)})
        if verb.method not in ("GET", "DELETE") and self.verb not in ("export", "import_"):
            return {"method": verb.method, "url": path, "json": given}
        body = {"content": self.lines, "headers": {"content-type": "application/x-ndjson"}} if self.lines else {}
        params = {key: value for key, value in given.items() if value is not None}
        return {"method": verb.method, "url": path, "params": params, **body}

    def _mcp(self) -> dict[str, Any]:
        match self.verb:
            case "resource":
                method, params = "resources/read", self.given
            case "prompt":
                method, params = "prompts/get", {"name": "recall_about", "arguments": self.given}
            case "completion":
                about = {"type": "ref/resource", "uri": "salience://bootstrap/{project}"}
                method, params = "completion/complete", {"ref": about, "argument": {"name": "project", **self.given}}
            case "tools":
                method, params = "tools/list", {}
            case tool:
                arguments = {key: value for key, value in self.given.items() if key != "key"}
                method, params = "tools/call", {"name": tool, "arguments": arguments}
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        accept = {"accept": "application/json, text/event-stream"}
        return {"method": "POST", "url": "/mcp", "json": call, "headers": accept}


def succeeded(request: Request, answer: httpx.Response) -> bool:
    """Return whether a request was done; over MCP a failure has status 200 too."""
    if not request.over_mcp or not answer.is_success:
        return answer.is_success
    result = answer.json().get("result")
    return result is not None and not result.get("isError")


class Turn:
    """Random arguments for a request of one holder."""

    def __init__(self, holder: Holder, homes: Sequence[Home], ids: Mapping[int, list[str]], chance: Random) -> None:
        self.holder, self.homes, self.ids, self.chance = holder, homes, ids, chance

    def own(self) -> Home:
        """Return a home that the holder may write to; any that they see if there is none."""
        return self.chance.choice([home for home in self.holder.homes if self.holder.owns(home)] or self.holder.homes)

    def foreign(self) -> Home:
        """Return a home that the key must not reach: of the same tenant, or of another."""
        beyond = [home for home in self.homes if home not in self.holder.homes]
        near = [home for home in beyond if home.tenant == self.holder.grant.tenant]
        return self.chance.choice(near if near and self.chance.random() < 0.6 else beyond)

    def where(self) -> dict[str, Any]:
        """Return coordinates of a home, some as `*` or left out where the key is bound to them."""
        home = self.foreign() if self.chance.random() < FOREIGN else self.chance.choice(self.holder.homes)
        given = home.where
        for key in COORDINATES:
            chance = self.chance.random()
            if chance < 0.2:
                given[key] = "*"
            elif chance < 0.4 and key in self.holder.grant.bound:
                given.pop(key, None)
        return given

    def beyond(self, home: Home) -> dict[str, Any]:
        """Return coordinates of a home, sometimes with one that the key is bound to changed."""
        given = home.where
        if self.holder.grant.bound and self.chance.random() < FOREIGN / 2:
            given[self.chance.choice(sorted(self.holder.grant.bound))] = self.chance.choice((None, self.holder.sign))
        return given

    def id_of(self, home: Home) -> str:
        return self.chance.choice(self.ids.get(home.number) or ["0" * 32])

    def text(self, home: Home) -> str:
        words = " ".join(self.chance.choices(WORDS, k=4))
        return f"{home.mark} {self.holder.sign} {words}{ABOUT}{self.chance.choice(WORDS)}"

    def draft(self, home: Home) -> dict[str, Any]:
        key = self.chance.choice((None, f"key {self.chance.randrange(20)}"))
        kind = "bootstrap" if self.chance.random() < 0.1 else "fact"
        described = {"tags": [home.mark, "shared"], "entities": [home.mark, "Alice"], "metadata": {"of": home.mark}}
        fact, tier = self.chance.choice((None, None, "user.theme")), self.chance.choice(("working", "episodic"))
        return {"content": self.text(home), "kind": kind, "key": key, "fact_key": fact, "tier": tier, **described}

    def question(self) -> dict[str, Any]:
        home = self.foreign() if self.chance.random() < 0.5 else self.own()
        return {"query": f"{home.mark} {self.chance.choice(WORDS)} Alice", **self.where()}


def _remember(turn: Turn) -> Request:
    home = turn.own()
    return Request("remember", turn.draft(home) | turn.beyond(home))


def _remember_many(turn: Turn) -> Request:
    homes = [turn.own() for _ in range(3)]
    return Request("remember_many", {"drafts": [turn.draft(home) | turn.beyond(home) for home in homes]})


def _ingest(turn: Turn) -> Request:
    home = turn.own()
    beyond = turn.foreign().where if turn.chance.random() < FOREIGN else {}
    messages = [{"role": role, "content": turn.text(home), **beyond} for role in ("user", "assistant")]
    return Request("ingest", {"messages": messages, "session_id": "monday", **home.where})


def _import(turn: Turn) -> Request:
    home = turn.own()
    of_another = turn.chance.choice(({}, {"tenant": turn.foreign().tenant}, turn.beyond(home)))
    lines = [{**turn.draft(home), **home.where}, {**turn.draft(home), **home.where, **of_another}]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    return Request("import_", {"on_error": turn.chance.choice(("stop", "skip"))}, lines=body)


def _recall_past(turn: Turn) -> Request:
    return Request("recall", {"as_of": datetime.now(UTC).isoformat(), "min_score": 0.0, **turn.question()})


def _list(turn: Turn) -> Request:
    cursor = {"cursor": turn.id_of(turn.foreign())} if turn.chance.random() < 0.3 else {}
    return Request("list", {"limit": 50, **cursor, **turn.where()})


def _resource(turn: Turn) -> Request:
    project = turn.chance.choice((None, turn.foreign().project, turn.own().project))
    return Request("resource", {"uri": "salience://bootstrap" + (f"/{project}" if project else "")}, True)


def _prompt(turn: Turn) -> Request:
    project = turn.chance.choice((turn.foreign().project, turn.own().project))
    return Request("prompt", {"topic": turn.chance.choice(WORDS)} | ({"project": project} if project else {}), True)


REQUESTS: Final[dict[str, tuple[Callable[[Turn], Request], int]]] = {
    "remember": (_remember, 14),
    "remember_many": (_remember_many, 5),
    "ingest": (_ingest, 3),
    "recall": (
        lambda turn: Request(
            "recall", {"profile": turn.chance.choice(PROFILES), "min_score": 0.0, "limit": 20, **turn.question()}
        ),
        14,
    ),
    "recall of the past": (_recall_past, 2),
    "graph_recall": (lambda turn: Request("graph_recall", {"limit": 20, **turn.question()}), 3),
    "context": (lambda turn: Request("context", {"min_score": 0.0, **turn.question()}), 4),
    "list": (_list, 6),
    "stats": (lambda turn: Request("stats", turn.where()), 4),
    "export": (lambda turn: Request("export", turn.where()), 1),
    "import_": (_import, 2),
    "reflect": (lambda turn: Request("reflect", turn.where()), 1),
    "consolidate": (lambda turn: Request("consolidate", turn.where()), 1),
    "end_session": (lambda turn: Request("end_session", {"session_id": "monday", **turn.where()}), 1),
    "upkeep": (lambda turn: Request("upkeep", {"dry_run": True}), 1),
}
"""Request -> its maker and its weight."""
OVER_MCP: Final[dict[str, tuple[Callable[[Turn], Request], int]]] = {
    "resource": (_resource, 4),
    "prompt": (_prompt, 3),
    "completion": (lambda turn: Request("completion", {"value": turn.chance.choice(("", "p", "proj00"))}, True), 3),
    "tools": (lambda turn: Request("tools", {}, True), 1),
}
"""The same for requests that only MCP has."""


def _change(verb: str) -> Callable[[Turn, str, dict[str, Any]], Request]:
    def request(turn: Turn, id: str, where: dict[str, Any]) -> Request:
        more: dict[str, Any] = {"tags": ["shared", turn.holder.sign]} if verb == "update" else {}
        if verb == "forget" and turn.chance.random() < 0.4:
            more["key"] = f"forget {turn.chance.randrange(20)}"
        return Request(verb, {"id": id, "reason": turn.holder.sign, **more, **where})

    return request


def _supersede(turn: Turn, id: str, where: dict[str, Any]) -> Request:
    home = turn.own()
    return Request("remember", {**turn.draft(home), "key": None, **home.where, "supersedes": id})


ON_ID: Final[dict[str, tuple[Callable[[Turn, str, dict[str, Any]], Request], int]]] = {
    "get": (lambda turn, id, where: Request("get", {"id": id, **where}), 6),
    "history": (lambda turn, id, where: Request("history", {"id": id, **where}), 4),
    "explain": (lambda turn, id, where: Request("explain", {"memory_id": id, "query": WORDS[0], **where}), 4),
    "update": (_change("update"), 6),
    "forget": (_change("forget"), 4),
    "restore": (_change("restore"), 3),
    "supersede": (_supersede, 4),
    "erase": (lambda turn, id, where: Request("erase", {"ids": [id], **where}), 2),
}
"""The same on one memory: the holder's, or beside each other one beyond the key and one that does not exist."""


# --- leaks ------------------------------------------------------------------------------------------------------------


@dataclass
class Found:
    """What a search for leaks found; threads share it."""

    homes: Sequence[Home]
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    ids: dict[int, list[str]] = field(default_factory=dict)
    home_of: dict[str, Home] = field(default_factory=dict)
    shown: set[tuple[int, str]] = field(default_factory=set)
    erased: set[str] = field(default_factory=set)
    leaks: int = 0
    under_revoked: int = 0
    versions: int = 0
    statements: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self) -> None:
        """Print the counts and the faults; end with 1 where there are any faults."""
        report(
            {
                "tenants": len({home.tenant for home in self.homes}),
                "requests done": listed(self.done),
                "requests refused": listed(self.refused),
                "tries beyond the key": listed(self.beyond),
                "requests under revoked keys": self.under_revoked,
                "answers with a leak": self.leaks,
                "versions in the end": self.versions,
                **({"statements by hand": self.statements} if self.statements else {}),
            },
            [f"{count} times: {fault}" for fault, count in self.faults.most_common()],
        )

    def at(self, tenant: str, scope: Mapping[str, Any]) -> Home | None:
        """Return the home that a scope is of."""
        wanted = (tenant, scope.get("project"), scope.get("user_id"))
        return next((home for home in self.homes if (home.tenant, home.project, home.user_id) == wanted), None)


def ask(client: httpx.Client, holder: Holder, request: Request, found: Found) -> httpx.Response:
    """Send a request; note what is wrong with the answer and what receipts tell."""
    begun = time.monotonic()
    revoked_before = holder.revoked_at is not None
    answer = request.sent(client, holder.token)
    ok = succeeded(request, answer)
    what = f"{request.verb} over {'MCP' if request.over_mcp else 'REST'}"
    repeated = json.dumps(request.given) + request.lines if not ok or request.verb in ("resource", "prompt") else ""
    faults = []
    if answer.status_code >= 500:
        faults.append(f"{what}: status {answer.status_code}")
    if holder.revoked_at is not None and holder.revoked_at < begun and answer.status_code != 401:
        faults.append(f"{what}: answered under a revoked key")
    if answer.status_code == 401 and not holder.revoking:
        faults.append(f"{what}: refused a live key")
    with found.lock:
        (found.done if ok else found.refused)[what if ok else str(answer.status_code)] += 1
        found.under_revoked += revoked_before
        leaks = shown(holder, answer.text, found, ok=ok, repeated=repeated)
        found.leaks += bool(leaks)
        faults += [f"{what}: shows {leak}" for leak in leaks]
        for receipt in receipts(request, answer) if ok else ():
            home = found.at(holder.grant.tenant, receipt["memory"]["scope"])
            if home is None or not holder.owns(home):
                faults.append(f"{what}: wrote where the key must not write")
            elif receipt["memory"]["id"] not in found.home_of:
                found.home_of[receipt["memory"]["id"]] = home
                found.ids.setdefault(home.number, []).append(receipt["memory"]["id"])
        found.faults.update(faults)
    return answer


def shown(holder: Holder, text: str, found: Found, *, ok: bool = True, repeated: str = "") -> list[str]:
    """Return what an answer shows that its reader's key must not show.

    Args:
        holder: of the key.
        text: of the answer.
        found: what is known so far; the ids in the answer are added.
        ok: whether the request was done; if it was refused, the answer must show no text of a memory.
        repeated: the request, for answers that repeat it.
    """
    marks, names = {home.mark for home in holder.homes}, {holder.grant.tenant, *holder.grant.bound.values()}
    names |= {value for home in holder.homes for value in home.where.values()}
    ids = set(ID.findall(text)) - set(ID.findall(repeated))
    found.shown |= {(holder.number, id) for id in ids}
    leaks = {
        "the text of another's memory": set(MARK.findall(text.lower())) - (marks if ok else set()),
        "another's name": {one for one in set(NAMES.findall(text)) - names if one not in repeated},
        "the id of another's memory": {id for id in ids if found.home_of.get(id, holder.homes[0]) not in holder.homes},
    }
    return [leak for leak, those in leaks.items() if those]


def receipts(request: Request, answer: httpx.Response) -> list[Any]:
    """Return the receipts in an answer."""
    try:
        body = answer.json()
    except ValueError:
        return []
    if request.over_mcp:
        body = body.get("result", {}).get("structuredContent")
    listed = body.get("receipts", [body]) if isinstance(body, dict) else []
    return [one for one in listed if isinstance(one, dict) and "status" in one and one.get("memory")]


def turn_of(client: httpx.Client, turn: Turn, found: Found, *, mcp: bool) -> None:
    """Send a random request; one beyond the key is sent beside the same one about a memory that does not exist."""
    weights = {what: weight for what, (_, weight) in (REQUESTS | ON_ID | (OVER_MCP if mcp else {})).items()}
    what = turn.chance.choices(list(weights), list(weights.values()))[0]
    over_mcp = mcp and turn.chance.random() < 0.5
    if what not in ON_ID:
        request = (REQUESTS | OVER_MCP)[what][0](turn)
        request.over_mcp |= over_mcp and request.verb in TOOLS
        ask(client, turn.holder, request, found)
        return
    if turn.chance.random() < 0.5:
        home = turn.chance.choice(turn.holder.homes)
        id = turn.id_of(home)
        if what == "erase" and turn.holder.grant.may("admin") and turn.holder.owns(home):
            found.erased.add(id)
        ask(client, turn.holder, on_id(what, turn, id, home.where, over_mcp), found)
        return
    home, revoked, answers = turn.foreign(), turn.holder.revoked_at, []
    where = turn.chance.choice(({}, home.where))
    pair = [turn.id_of(home), f"{turn.chance.getrandbits(128):032x}"]
    turn.chance.shuffle(pair)
    state = turn.chance.getstate()
    for id in pair:
        turn.chance.setstate(state)  # the same request for both
        request = on_id(what, turn, id, where, over_mcp)
        answer = ask(client, turn.holder, request, found)
        text = re.sub(r"urn:salience:request:[^\"]+", "", answer.text.replace(id, "ID").replace(id[-8:], "ID"))
        passing = ("date", "x-request-id", "content-length")
        answers.append((answer.status_code, text, {k: v for k, v in answer.headers.items() if k not in passing}))
        if succeeded(request, answer):
            found.faults[f"{what} beyond the key was answered"] += 1
    with found.lock:
        found.beyond[what] += 1
        if answers[0] != answers[1] and revoked == turn.holder.revoked_at:
            found.faults[f"{what} tells a memory beyond the key from one that does not exist"] += 1


def on_id(verb: str, turn: Turn, id: str, where: dict[str, Any], over_mcp: bool) -> Request:
    """Return a request about one memory."""
    request = ON_ID[verb][0](turn, id, where)
    request.over_mcp = over_mcp and request.verb in TOOLS
    return request


def find_leaks(
    urls: Sequence[str], engine: Engine, keyring: Keyring, homes: Sequence[Home], threads: int, seed: int,
    *, seconds: float = 0.0, turns: int = 0, mcp: bool = True, plant: bool = False,
) -> Found:  # fmt: skip
    """Let the holders of new keys send requests at once; some keys are revoked halfway.

    Args:
        urls: of servers on one store.
        engine: on the same store, to read it in the end.
        keyring: of the servers.
        homes: for memories.
        threads: that send requests.
        seed: of all choices.
        seconds: for which they do, at least.
        turns: of each thread, at least.
        mcp: whether the servers speak MCP too.
        plant: whether one key is taken for one that may show less than it may.
    """
    found, holders, stop = Found(homes), all_holders(keyring, homes), threading.Event()
    if plant:
        holders[0].homes = holders[0].homes[:1]
    with httpx.Client(base_url=urls[0], timeout=60) as client:
        for home in homes:
            admin = next(one for one in holders if one.grant.tenant == home.tenant and one.grant.may("admin"))
            first = Turn(admin, homes, found.ids, Random(f"{seed} {home.number}"))
            ask(client, admin, Request("remember", {"content": first.text(home), **home.where}), found)
    start, halfway = time.monotonic(), threading.Barrier(threads + 1)

    def work(thread: int) -> None:
        chance = Random(f"{seed} {thread}")
        with httpx.Client(base_url=urls[thread % len(urls)], timeout=60) as client:
            for half in (1, 2):
                done = 0
                while done < turns / 2 or time.monotonic() - start < seconds * half / 2:
                    turn_of(client, Turn(chance.choice(holders), homes, found.ids, chance), found, mcp=mcp)
                    done += 1
                if half == 1:
                    halfway.wait()

    def use_new_keys() -> None:
        """Make a key, use it, revoke it, and use it again at once."""
        with httpx.Client(base_url=urls[0], timeout=60) as client:
            for holder in cycle(holders):
                grant = holder.grant
                guest = made(keyring, homes, holder.number, grant.tenant, grant.rights, grant.bound)
                requests = [Request("list", {}), *([Request("list", {}, True)] if mcp else [])]
                if not all(succeeded(one, ask(client, guest, one, found)) for one in requests):
                    found.faults["a new key was refused"] += 1
                revoke(keyring, guest)
                for one in requests:
                    ask(client, guest, one, found)
                if stop.is_set():
                    return

    with ThreadPoolExecutor(threads + 1) as pool:
        working = [pool.submit(work, number) for number in range(threads)]
        guests = pool.submit(use_new_keys)
        halfway.wait()
        for holder in holders[1::6]:
            revoke(keyring, holder)
        for one in working:
            one.result()
        stop.set()
        guests.result()
    found.faults.update(wrong_versions(engine, holders, found))
    return found


def revoke(keyring: Keyring, holder: Holder) -> None:
    """Revoke a key; its requests may be refused from the start of the call, and must be from its end."""
    holder.revoking = True
    keyring.revoke(holder.grant.name, datetime.now(UTC))
    holder.revoked_at = time.monotonic()


def wrong_versions(engine: Engine, holders: Sequence[Holder], found: Found) -> Iterator[str]:
    """Yield versions in the store that hold what belongs elsewhere, and memories that are gone."""
    there: dict[str, Home] = {}
    with TemporaryDirectory() as folder:
        for tenant in sorted({home.tenant for home in found.homes}):
            file = Path(folder) / tenant
            engine.of(tenant).export(file)
            for line in file.read_text("utf-8").splitlines()[1:]:
                memory = json.loads(line)["memory"]
                home = found.at(tenant, memory["scope"])
                found.versions += 1
                if home is None:
                    yield "a version in the store belongs to no home"
                    continue
                there[memory["id"]] = home
                said = json.dumps({key: value for key, value in memory.items() if key != "scope"})
                if set(MARK.findall(said.lower())) - {home.mark} and memory["kind"] != "reflection":
                    yield "a version in the store holds the text of another home"
                for holder in holders:
                    if holder.sign in said and not holder.owns(home):
                        yield "a version in the store was written under a key that must not write there"
    if found.home_of.keys() - there.keys() - found.erased:
        yield "a memory is gone that nobody with the right to it erased"
    seen = {holder.number: holder.homes for holder in holders}
    if any(id in there and there[id] not in seen[number] for number, id in found.shown):
        yield "an answer showed the id of another's memory"
