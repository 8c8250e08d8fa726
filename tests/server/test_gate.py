"""The gate: rights, bounds and limits of a caller; and authentication."""

import io
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from salience import ANY
from salience.arguments import QUERIES_LIMIT
from salience.errors import (
    AccessError,
    ConflictError,
    ForbiddenError,
    InputError,
    LimitError,
    NotFoundError,
    SalienceError,
)
from salience.rank import profiles
from salience.records import RIGHTS, Grant
from salience.server.auth import Authenticator, create_key, verify_key
from salience.server.gate import NAMES_LIMIT, PROFILE_LIMIT, Gate, Limits, rate_limiter
from salience.store.keyring import MemoryKeyring
from salience.verbs import VERBS
from salience.wire.responses import to_json

KEYS = Path(__file__).parents[2] / "docs/how-to/keys.md"
EVERYWHERE = {"environment": "*", "project": "*", "user_id": "*", "agent_id": "*"}


class GateSetup:
    """A gate before an engine with memories of alice, of bob, of both, of another project, and of another tenant."""

    def __init__(self, engine):
        self.engine = engine
        self.gate = Gate(engine)
        homes = {"hers": {"user_id": "alice"}, "his": {"user_id": "bob"}, "ours": {}, "away": {"project": "moon"}}
        kept = {name: engine.of("acme").remember(f"{name} tea", **home) for name, home in homes.items()}
        self.ids = {name: receipt.memory.id for name, receipt in kept.items()}
        self.ids["theirs"] = engine.of("other").remember("theirs tea").memory.id
        self.ids["nobodys"] = "0" * 32

    def ask(self, grant, verb, gate=None, /, **given):
        asked = VERBS[verb]
        return (gate or self.gate).answer(grant, asked, asked.request.model_validate(given))

    def all_memories(self):
        """Return every memory of every tenant, with its counters."""
        return [
            (tenant, memory)
            for tenant in ("acme", "other")
            for memory in self.engine.of(tenant).list(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY).memories
        ]


@pytest.fixture
def target():
    """What the gate asks of an engine is the same on every store."""
    return ":memory:"


@pytest.fixture
def setup(planted):
    return GateSetup(planted())


@pytest.mark.parametrize("verb", ["remember", "remember_many"])
def test_conflicts_in_receipts_fit_into_the_response(planted, verb):
    """Each new memory conflicts with all before it, so that the answers to writes would grow with the store."""
    texts = [f"fill {'z' * 300} {number}" for number in range(80)]
    engine = planted(dict.fromkeys(texts, 0.9), axes=dict.fromkeys(texts, 1))
    limit = 100_000
    setup, gate = GateSetup(engine), Gate(engine, Limits(answer=limit))
    owner = Grant(tenant="acme", name="owner", rights=RIGHTS)
    drafts = [{"content": text, "metadata": {"x": "y" * 3000}} for text in texts]
    setup.ask(owner, "remember_many", gate, drafts=drafts[:60])
    asked = {"drafts": drafts[60:]} if verb == "remember_many" else drafts[60]
    result = setup.ask(owner, verb, gate, **asked)
    receipts = result if isinstance(result, list) else [result]
    assert {receipt.status for receipt in receipts} == {"created"}
    assert 10 < len(receipts[0].contradictions) < 60
    assert "and 50 more" in receipts[0].warning
    assert len(json.dumps(to_json(result))) < 2 * limit + 10_000 * len(receipts)


def grant(*rights, tenant="acme", **bound):
    return Grant(tenant=tenant, rights=rights or ("read", "write"), bound=bound, name="somebody")


ALICE = grant(user_id="alice")
ARGUMENTS = {
    "remember": {"content": "more tea"},
    "remember_many": {"drafts": [{"content": "more tea"}]},
    "ingest": {"messages": [{"content": "more tea", "role": "user"}], "session_id": "monday"},
    "end_session": {"session_id": "monday"},
    "update": {"tags": ["new"]},
    "recall": {"query": "tea"},
    "recall_many": {"queries": ["tea", "more tea"]},
    "graph_recall": {"query": "tea"},
    "context": {"query": "tea"},
    "explain": {"query": "tea"},
    "scores": {"query": "tea"},
    "decay": {"ids": ["0badcafe"]},
    "erase": {"user_id": "alice"},
}
"""Arguments of each verb, without the id of its memory."""
ABOUT = {verb.name: verb.changes for verb in VERBS.values() if verb.changes} | {
    "get": "id",
    "history": "id",
    "explain": "memory_id",
}
"""Verbs about one memory -> the argument that names it."""
STREAMS = {"export": io.StringIO, "import_": lambda: io.StringIO("")}
TELLING = ("update", "forget", "restore", "dismiss", "reflect")
"""Verbs that write and return stored memories."""
SHARED_STAYS = {"update": {"tags": ["mine"]}, "forget": {}, "restore": {}, "dismiss": {"other_id": "0badcafe"}}


def arguments_of(setup, verb, id="hers"):
    """Return valid arguments of a verb."""
    named = {ABOUT[verb]: setup.ids[id]} if verb in ABOUT else {}
    if verb == "dismiss":
        named["other_id"] = setup.ids["away" if id == "ours" else "ours"]
    return {**ARGUMENTS.get(verb, {}), **named}


def run(setup, who, verb, id="hers"):
    """Call a verb with valid arguments."""
    given = VERBS[verb].request.model_validate(arguments_of(setup, verb, id)).arguments()
    ours = {"file": STREAMS[verb]()} if verb in STREAMS else {}
    return setup.gate.call(who, VERBS[verb], given, **ours)


# rights


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("right", RIGHTS)
def test_each_verb_needs_its_right(setup, verb, right):
    if verb == "restore":
        setup.engine.of("acme").forget(setup.ids["hers"], user_id="alice")
    if right == "admin" or (right == VERBS[verb].right and verb not in TELLING):
        run(setup, grant(right, user_id="alice") if verb in ABOUT else grant(right), verb)
    else:
        before = setup.all_memories()
        with pytest.raises(ForbiddenError, match="read" if right == VERBS[verb].right else VERBS[verb].right):
            run(setup, grant(right), verb)
        assert setup.all_memories() == before


@pytest.mark.parametrize("right", RIGHTS)
def test_docs_list_the_right_of_each_verb(right):
    (row,) = re.findall(rf"^\| `{right}` \| (.*) \|$", KEYS.read_text(), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == {name for name, verb in VERBS.items() if verb.right == right}


@pytest.mark.parametrize("verb", ["remember", "remember_many"])
def test_write_only_callers_learn_nothing_of_stored_memories(planted, verb):
    result = ["the tea is black", "the tea is green", "the tea is white"]
    setup = GateSetup(planted(dict.fromkeys(result, 0.9), axes=dict.fromkeys(result, 1)))
    setup.ask(grant("write"), "remember", content=result[0])
    for rights, content in ((("write",), result[1]), (("read", "write"), result[2])):
        given = {"content": content} if verb == "remember" else {"drafts": [{"content": content}]}
        receipts = setup.ask(grant(*rights), verb, **given)
        (receipt,) = receipts if verb == "remember_many" else [receipts]
        assert receipt.memory.content == content
        assert bool(receipt.contradictions) == bool(receipt.warning) == ("read" in rights)
        assert (result[0] in str(to_json(receipt))) == ("read" in rights)


@pytest.mark.parametrize("verb", ["remember", "remember_many"])
def test_write_only_callers_learn_of_no_duplicates_or_replaced_memories(setup, verb):
    def ask(content, *rights):
        given = {"content": content} if verb == "remember" else {"drafts": [{"content": content}]}
        receipts = setup.ask(grant(*rights), verb, **given)
        return receipts[0] if verb == "remember_many" else receipts

    first, again = ask("I live in Berlin", "write"), ask("I live in Berlin", "write")
    assert again.memory.id != first.memory.id
    assert (again.superseded, again.warning) == (None, None)
    assert ask("I live in Berlin", "read", "write").status == "unchanged"
    assert ask("I live in Rome", "read", "write").superseded == again.memory.id
    assert (ask("I live in Oslo", "write").status, ask("I live in Bern", "read", "write").status) == (
        "created",
        "superseded",
    )


@pytest.mark.parametrize("verb", ["remember", "remember_many", "ingest"])
def test_write_only_callers_learn_no_change_of_what_they_stored(setup, verb):
    def ask(text, *rights):
        one = {"content": text, "key": "k"}
        given = {
            "remember": one, "remember_many": {"drafts": [one]}, "ingest": {"messages": [one], "session_id": "s"},
        }[verb]  # fmt: skip
        receipts = setup.ask(grant(*rights), verb, **given)
        return receipts if verb == "remember" else receipts[0]

    first, at_once = ask("I live in Berlin", "write"), ask("I live in Berlin", "write")
    changes = {
        "content": "a secret", "metadata": {"x": "a secret"}, "tags": ["a secret"], "reason": "a secret",
        "kind": "a secret", "importance": 0.123, "weight": 0.456, "tier": "semantic", "ttl": "1d",
    }  # fmt: skip
    changer = grant("read", "write")
    setup.ask(changer, "update", id=first.memory.id, **changes)
    setup.ask(changer, "recall", query="a secret", session_id="s")
    assert ask("I live in Berlin", "write") == at_once
    setup.ask(changer, "forget", id=first.memory.id)
    again = ask("I live in Berlin", "write")
    assert again == at_once
    assert (again.status, again.memory.id, again.memory.key) == ("unchanged", first.memory.id, "k")
    assert again.memory.content == ("" if verb == "ingest" else "I live in Berlin")
    assert "secret" not in str(to_json(again))
    with pytest.raises(ConflictError) as caught:
        ask("I live in Rome", "write")
    assert first.memory.short_id not in str(caught.value)
    with pytest.raises(ConflictError, match=first.memory.short_id):
        ask("I live in Rome", "read", "write")


def test_write_only_callers_learn_of_no_relations_and_promotions(setup):
    for text in ("The rent is 1200 euros", "The rent is 1400 euros"):
        receipt = setup.ask(grant("write"), "remember", content=text)
        assert receipt.memory.relations == ()
    for index in range(5):
        setup.engine.of("acme").recall("rent", limit=5, session_id=f"s{index}")
    report = setup.ask(grant("write"), "consolidate")
    assert (report.examined, {*report.promoted.values()}) == (0, {()})
    assert setup.ask(grant("write"), "end_session", session_id="s").promoted == ()


def test_tenants_are_separate(setup):
    assert [hit.memory.id for hit in setup.ask(grant("read", tenant="other"), "recall", query="tea", min_score=0)] == [
        setup.ids["theirs"]
    ]
    every = setup.ask(grant("read"), "list", **EVERYWHERE).memories
    assert {memory.id for memory in every} == {setup.ids[name] for name in ("hers", "his", "ours", "away")}


@pytest.mark.parametrize("verb", ABOUT)
@pytest.mark.parametrize("whose", ["theirs", "nobodys"])
def test_memories_of_other_tenants_look_missing(setup, verb, whose):
    before = setup.all_memories()
    with pytest.raises(NotFoundError) as caught:
        run(setup, grant("admin"), verb, whose)
    assert caught.value.id == setup.ids[whose]
    assert setup.all_memories() == before


# read-only callers


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS.values() if verb.right == "read"])
def test_read_only_recalls_are_dry_runs(setup, verb):
    before = setup.all_memories()
    run(setup, grant("read", user_id="alice"), verb)
    assert setup.all_memories() == before


@pytest.mark.parametrize("verb", ["recall", "context"])
def test_recalls_with_write_access_count(setup, verb):
    before = setup.all_memories()
    setup.ask(grant("read", "write"), verb, **arguments_of(setup, verb), min_score=0, profile="zeromemory")
    setup.ask(grant("read"), verb, **arguments_of(setup, verb), min_score=0, dry_run=False, profile="zeromemory")
    assert sum(memory.access_count for _, memory in setup.all_memories()) > sum(one.access_count for _, one in before)


def test_read_only_callers_cannot_turn_off_dry_run(setup):
    before = setup.all_memories()
    for profile in profiles.NAMES:
        setup.ask(grant("read"), "recall", query="tea", min_score=0, dry_run=False, profile=profile)
    assert setup.all_memories() == before


# bounds


def test_a_bound_fills_missing_coordinates(setup):
    assert setup.ask(ALICE, "remember", content="mine").memory.scope.user_id == "alice"
    drafts = [{"content": "one"}, {"content": "two", "user_id": "alice", "agent_id": "bot"}]
    assert {one.memory.scope.user_id for one in setup.ask(ALICE, "remember_many", drafts=drafts)} == {"alice"}
    turns = [{"role": "user", "content": "hello", "user_id": "bob"}]
    assert setup.ask(ALICE, "ingest", messages=turns, session_id="monday")[0].memory.scope.user_id == "alice"


@pytest.mark.parametrize("value", ["bob", None])
@pytest.mark.parametrize("verb", [name for name, verb in VERBS.items() if "user_id" in verb.request.model_fields])
def test_requests_outside_a_bound_are_refused(setup, verb, value):
    if verb == "import_":
        return  # held below
    before = setup.all_memories()
    given = {**arguments_of(setup, verb), "user_id": value}
    with pytest.raises(ForbiddenError, match=r"user_id.*bound of this key, user_id 'alice'"):
        setup.ask(grant("admin", user_id="alice"), verb, **given)
    assert setup.all_memories() == before


@pytest.mark.parametrize("value", ["bob", None])
def test_drafts_outside_a_bound_are_refused(setup, value):
    before = setup.all_memories()
    drafts = [{"content": "mine"}, {"content": "not mine", "user_id": value}]
    with pytest.raises(ForbiddenError, match=r"drafts\[1\]\.user_id"):
        setup.ask(ALICE, "remember_many", drafts=drafts)
    assert setup.all_memories() == before


@pytest.mark.parametrize(
    "bound", [{"environment": "test"}, {"project": "moon"}, {"user_id": "alice"}, {"agent_id": "bot"}]
)
def test_wildcards_mean_the_value_of_the_bound(setup, bound):
    setup.engine.of("acme").remember("there", **bound)
    seen = setup.ask(grant("read", **bound), "list", **EVERYWHERE).memories
    for name, value in bound.items():
        assert {getattr(memory.scope, name) for memory in seen} <= {value, None}
    assert "there" in {memory.content for memory in seen}
    with pytest.raises(ForbiddenError):
        setup.ask(grant("read", **bound), "list", **dict.fromkeys(bound, "another"))


def test_a_wildcard_is_not_a_home(setup):
    with pytest.raises(InputError):
        setup.ask(ALICE, "remember_many", drafts=[{"content": "mine", "user_id": "*"}])
    assert setup.ask(ALICE, "remember", content="mine", user_id="*").memory.scope.user_id == "alice"


def test_shared_memories_are_read_only_for_bound_keys(setup):
    before = setup.all_memories()
    assert setup.ask(ALICE, "get", id=setup.ids["ours"]).content == "ours tea"
    for verb, more in SHARED_STAYS.items():
        with pytest.raises(ForbiddenError, match="is not limited to user_id 'alice'"):
            setup.ask(ALICE, verb, id=setup.ids["ours"], **more)
    for verb, more in (
        ("remember", {"content": "anew", "supersedes": setup.ids["ours"]}),
        ("remember_many", {"drafts": [{"content": "anew", "supersedes": setup.ids["ours"]}]}),
        ("remember_many", {"drafts": [{"content": "anew", "supersedes": setup.ids["ours"][-8:], "agent_id": "bot"}]}),
    ):
        with pytest.raises(ForbiddenError, match="is not limited to"):
            setup.ask(ALICE, verb, **more)
    with pytest.raises(ForbiddenError, match="is not limited to"):
        setup.ask(grant("admin", user_id="alice"), "erase", ids=[setup.ids["hers"], setup.ids["ours"]])
    assert setup.all_memories() == before


@pytest.mark.parametrize("verb", ABOUT)
@pytest.mark.parametrize("whose", ["his", "theirs", "nobodys"])
def test_memories_outside_a_bound_look_missing(setup, verb, whose):
    """Not told apart from what is not there at all, also by its last characters."""
    before = setup.all_memories()
    for id in (setup.ids[whose], setup.ids[whose][-8:]):
        with pytest.raises(NotFoundError) as caught:
            setup.ask(grant("admin", user_id="alice"), verb, **{**arguments_of(setup, verb), ABOUT[verb]: id})
        assert str(caught.value) == str(NotFoundError(id))
    assert setup.all_memories() == before


@pytest.mark.parametrize("whose", ["his", "theirs", "nobodys"])
def test_memories_outside_a_bound_cannot_be_superseded_or_erased(setup, whose):
    admin, id = grant("admin", user_id="alice"), setup.ids[whose]
    before = setup.all_memories()
    for verb, given in (
        ("remember", {"content": "anew", "supersedes": id}),
        ("remember_many", {"drafts": [{"content": "anew", "supersedes": id}]}),
        ("erase", {"ids": [setup.ids["hers"], id]}),
        ("erase", {"ids": [id], "dry_run": True}),
    ):
        with pytest.raises(NotFoundError):
            setup.ask(admin, verb, **given)
    assert setup.all_memories() == before


def test_a_bound_key_cannot_explain_memories_of_other_projects(setup):
    """Without a bound, a memory of any project is explained, in the project where it is."""
    given = {"query": "tea", "memory_id": setup.ids["away"]}
    assert "Explained with project='moon'" in setup.ask(grant("read"), "explain", **given).reason
    with pytest.raises(NotFoundError):
        setup.ask(grant("read", project="earth"), "explain", **given)


@pytest.mark.parametrize("verb", ["recall", "recall_many", "graph_recall", "context", "list", "stats"])
def test_out_of_scope_names_nothing_outside_a_bound(setup, verb):
    """Of what a caller without a bound is told, only what this one would see by naming it."""
    setup.ask(grant("admin"), "erase", ids=[setup.ids["ours"]])

    def places(bound):
        found = setup.ask(grant("read", **bound), verb, **arguments_of(setup, verb))
        first = found[0] if isinstance(found, list) else found
        return sorted(tuple(place.scope.as_dict().values())[1:] for place in first.out_of_scope)

    assert places({}) == [("alice",), ("bob",), ("moon",)]
    assert places({"user_id": "carol"}) == [("moon",)]
    assert places({"project": "earth"}) == [("alice",), ("bob",)]
    assert places({"user_id": "carol", "project": "earth"}) == []
    assert places({"environment": "staging"}) == []


def test_beside_hits_too_out_of_scope_names_nothing_outside_a_bound(setup):
    def places(query, **bound):
        found = setup.ask(grant("read", **bound), "recall", query=query)
        assert found.hits
        return [place.scope.project or place.scope.user_id for place in found.out_of_scope]

    assert (places("his tea"), places("his tea", user_id="alice")) == (["bob"], [])
    assert (places("away tea"), places("away tea", user_id="alice")) == (["moon"], ["moon"])
    assert (places("his tea", project="earth"), places("his tea", project="earth", user_id="alice")) == (["bob"], [])
    assert "moon" not in places("away tea", project="earth")


def test_a_draft_supersedes_within_its_own_coordinates(setup):
    old = setup.ask(ALICE, "remember", content="old", agent_id="bot").memory.id
    drafts = [{"content": "new", "supersedes": old, "agent_id": "bot"}]
    assert setup.ask(ALICE, "remember_many", drafts=drafts)[0].memory.supersedes == old


def test_bound_keys_change_and_erase_their_own_memories(setup):
    admin = grant("admin", user_id="alice")
    assert setup.ask(admin, "update", id=setup.ids["hers"], content="hers anew").memory.version == 2
    assert setup.ask(admin, "forget", id=setup.ids["hers"]).memory.status == "forgotten"
    assert setup.ask(admin, "restore", id=setup.ids["hers"]).memory.status == "live"
    assert setup.ask(admin, "erase") == 1
    assert [memory.content for _, memory in setup.all_memories()] == ["his tea", "ours tea", "away tea", "theirs tea"]


@pytest.mark.parametrize("verb", ["upkeep", "import_"])
def test_store_wide_verbs_are_refused_for_bound_keys(setup, verb):
    with pytest.raises(ForbiddenError, match="bound to project 'moon'"):
        run(setup, grant("admin", project="moon"), verb)


def test_exports_of_bound_keys_contain_only_visible_memories(setup):
    target = io.StringIO()
    setup.gate.call(ALICE, VERBS["export"], {"user_id": ANY}, file=target)
    lines = [json.loads(line) for line in target.getvalue().splitlines()]
    assert {line["memory"]["content"] for line in lines[1:]} == {"hers tea", "ours tea", "away tea"}


def test_two_bounds_apply_together(setup):
    both = grant("read", "write", project="moon", user_id="alice")
    scope = setup.ask(both, "remember", content="hers on the moon").memory.scope
    assert (scope.project, scope.user_id) == ("moon", "alice")
    with pytest.raises(ForbiddenError):
        setup.ask(both, "recall", query="tea", project="moon", user_id="bob")
    with pytest.raises(ForbiddenError, match="is not limited to project 'moon', user_id 'alice'"):
        setup.ask(both, "forget", id=setup.ids["hers"])


def test_idempotency_keys_are_separate_per_home(setup):
    """What another wrote under the same key is not told."""
    bob = grant(user_id="bob")
    first = setup.ask(bob, "remember", content="his secret", key="same").memory
    second = setup.ask(ALICE, "remember", content="her secret", key="same").memory
    assert (second.content, second.id == first.id) == ("her secret", False)
    setup.ask(bob, "forget", id=first.id, key="again")
    with pytest.raises(NotFoundError):
        setup.ask(ALICE, "forget", id=first.id, key="again")


def test_a_cursor_of_another_tenant_reveals_nothing(setup):
    for whose in ("his", "theirs"):
        page = setup.ask(ALICE, "list", cursor=setup.ids[whose]).memories
        assert {memory.content for memory in page} <= {"hers tea", "ours tea"}


def test_end_session_affects_only_the_users_session(setup):
    """A session of the same name whose memories are shared goes on, and says nothing of who ended theirs."""
    shared = setup.engine.of("acme").remember("ours in a session", tier="working", session_id="monday").memory.id
    hers = setup.ask(ALICE, "remember", content="hers in a session", tier="working", session_id="monday").memory.id
    assert setup.ask(ALICE, "end_session", session_id="monday").promoted == (hers,)
    assert setup.ask(grant(user_id="bob"), "get", id=shared).tier == "working"
    assert setup.ask(grant(), "end_session", session_id="monday", user_id="*").promoted == (shared,)


def test_shared_reflections_do_not_name_the_caller(planted):
    texts = [f"the kettle is on shelf {number}" for number in range(4)]
    setup = GateSetup(planted(dict.fromkeys(texts, 0.9), axes=dict.fromkeys(texts, 1)))
    for text in texts:
        setup.ask(grant(), "remember", content=text)
        setup.ask(ALICE, "remember", content=text)
    assert len(setup.ask(ALICE, "reflect").made) == 2
    result = setup.ask(grant(), "list", user_id="*", kinds=["reflection"]).memories
    assert {(memory.scope.user_id, memory.changed_by) for memory in result} == {("alice", "user:alice"), (None, None)}
    sources = setup.ask(grant(user_id="bob"), "list").memories
    assert not any("alice" in str(memory.changed_by) for memory in sources)


@pytest.mark.parametrize("verb", ["recall", "context", "graph_recall"])
def test_custom_profiles_of_bound_keys_change_no_shared_memory(setup, verb):
    toml = profiles.load("zeromemory").toml.replace("importance = 0.05", "importance = 1.0")
    before = setup.all_memories()
    setup.ask(ALICE, verb, query="tea", profile={"toml": toml})
    assert setup.all_memories() == before
    setup.ask(grant(), verb, query="tea", profile={"toml": toml})
    assert setup.all_memories() != before


# limits, profiles, deadlines


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("remember_many", {"drafts": [{"content": str(number)} for number in range(4)]}),
        ("ingest", {"messages": [{"content": str(number)} for number in range(4)], "session_id": "monday"}),
        ("erase", {"ids": ["0" * 32] * 4}),
        ("recall_many", {"queries": ["tea"] * 4}),
    ],
)
def test_batches_are_limited(setup, verb, given):
    before = setup.all_memories()
    with pytest.raises(LimitError, match="4 are more than the 3") as caught:
        setup.ask(grant("admin"), verb, Gate(setup.engine, Limits(batch=3)), **given)
    assert caught.value.retry_after is None
    assert setup.all_memories() == before


def test_queries_have_a_fixed_limit(setup):
    assert len(setup.ask(ALICE, "recall_many", queries=["tea"] * QUERIES_LIMIT)) == QUERIES_LIMIT
    with pytest.raises(LimitError, match="queries: 33 are more than the 32"):
        setup.ask(ALICE, "recall_many", queries=["tea"] * (QUERIES_LIMIT + 1))


@pytest.mark.parametrize("name", ["tags", "kinds", "sessions"])
def test_lists_of_names_are_limited(setup, name):
    many = [f"name {number}" for number in range(NAMES_LIMIT + 1)]
    setup.ask(ALICE, "recall", query="tea", **{name: many[1:]})
    with pytest.raises(InputError, match=rf"^{name} has 1,001 names"):
        setup.ask(ALICE, "recall", query="tea", **{name: many})


@pytest.mark.parametrize("name", ["tags", "entities"])
def test_lists_of_names_in_drafts_are_limited(setup, name):
    many = [f"name {number}" for number in range(NAMES_LIMIT + 1)]
    with pytest.raises(InputError, match=rf"^drafts\[1\]\.{name} has 1,001 names"):
        setup.ask(ALICE, "remember_many", drafts=[{"content": "more tea"}, {"content": "more tea", name: many}])


def test_a_profile_name_is_not_a_path(setup, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(profiles.load("cmm").toml.replace('name = "cmm"', 'name = "mine"'))
    for given in (str(file), "./salience.toml", "../profiles/cmm", "cmm.toml", "/etc/passwd"):
        with pytest.raises(InputError, match="profile"):
            setup.ask(ALICE, "recall", query="tea", profile=given)
    found = setup.ask(ALICE, "recall", query="tea", profile={"toml": file.read_text()})
    assert found.profile == "mine"
    with pytest.raises(InputError, match="8,192"):
        setup.ask(ALICE, "recall", query="tea", profile={"toml": "#" * (PROFILE_LIMIT + 1)})


class RecordingEngine:
    """An engine that records its calls."""

    def __init__(self):
        self.calls = []

    def of(self, tenant, answer_limit=None, *, records_access=True):
        self.calls.append(tenant)
        return self

    def recall(self, **given):
        self.calls.append(given)

    explain = context = recall


def test_recalls_use_the_servers_deadline_by_default():
    engine = RecordingEngine()
    gate = Gate(engine, Limits(deadline_ms=250))
    for given in ({}, {"deadline_ms": None}, {"deadline_ms": 40.0}, {"deadline_ms": 0.0}):
        gate.call(grant(), VERBS["recall"], {"query": "tea", **given})
    assert [one["deadline_ms"] for one in engine.calls[1::2]] == [250, 250, 40.0, 0.0]
    gate.call(grant(), VERBS["context"], {"query": "tea"})
    assert engine.calls[-1]["deadline_ms"] == 250


# observers and authentication


class RecordingObserver:
    """Records the calls of `observe`."""

    def __init__(self):
        self.calls = []

    def observe(self, verb, grant, seconds, outcome):
        assert seconds >= 0
        self.calls.append((verb, grant.name, outcome))


def test_the_observer_receives_every_verb_and_its_outcome(setup):
    observer = RecordingObserver()
    gate = Gate(setup.engine, observer=observer)
    receipt = setup.ask(ALICE, "remember", gate, content="mine")
    for verb, given in (("get", {"id": "0" * 32}), ("upkeep", {}), ("recall", {"query": "tea", "limit": -1})):
        with pytest.raises(SalienceError):
            setup.ask(ALICE, verb, gate, **given)
    assert [(verb, name) for verb, name, _ in observer.calls] == [
        (verb, "somebody") for verb in ("remember", "get", "upkeep", "recall")
    ]
    outcomes = [outcome for *_, outcome in observer.calls]
    assert outcomes[0] is receipt
    assert [type(one) for one in outcomes[1:]] == [NotFoundError, ForbiddenError, InputError]


def test_nothing_is_done_above_the_rate(setup):
    names = []

    def admit(name):
        names.append(name)
        raise LimitError("too often", 3.0)

    observer, before = RecordingObserver(), setup.all_memories()
    gate = Gate(setup.engine, check_rate=admit, observer=observer)
    for verb in VERBS:
        with pytest.raises(LimitError):
            gate.call(
                grant("admin"),
                VERBS[verb],
                VERBS[verb].request.model_construct(**arguments_of(setup, verb)).arguments(),
            )
    assert names == [ALICE.caller] * len(VERBS)
    assert setup.all_memories() == before
    assert {type(outcome) for *_, outcome in observer.calls} == {LimitError}


def test_callers_of_one_name_have_a_rate_each(setup):
    """The subject of a token is chosen by its issuer, and may be the prefix of a key."""
    gate = Gate(setup.engine, check_rate=rate_limiter("1/hour"))
    key = grant("read")
    for who in (key, replace(key, issuer="https://issuer"), replace(key, tenant="other"), replace(key, issuer="other")):
        setup.ask(who, "stats", gate)
        with pytest.raises(LimitError):
            setup.ask(who, "stats", gate)


def test_only_live_keys_authenticate(clock):
    keyring = MemoryKeyring()
    shown = {}
    for name, expires in (("live", None), ("short", clock() + timedelta(hours=1)), ("revoked", None)):
        shown[name], key = create_key("acme", ["read"], {"project": name}, expires, None, clock())
        keyring.add(key)
    door = Authenticator([lambda token: verify_key(keyring, token, clock())])
    assert {door.authenticate(f"Bearer {token}").bound["project"] for token in shown.values()} == set(shown)
    assert door.authenticate(f"bEaReR   {shown['live']} ").tenant == "acme"
    keyring.revoke(shown["revoked"].split("_")[1], clock())
    clock.advance(hours=1)
    assert door.authenticate(f"Bearer {shown['live']}").rights == ("read",)
    prefix, secret = shown["live"].split("_")[1:]
    refused = [
        None, "", "Bearer", "Bearer ", f"Basic {shown['live']}", shown["live"], f"Bearer {shown['short']}",
        f"Bearer {shown['revoked']}", f"Bearer sal_{prefix}_{'0' * 64}", f"Bearer sal_{'0' * 12}_{secret}",
        f"Bearer {shown['live']}0", f"Bearer {shown['live'].upper()}", f"Bearer sal_{prefix}_{'٠' * 64}",
        f"Bearer {shown['live']}, Bearer {shown['live']}", "Bearer \ud800",
    ]  # fmt: skip
    text = set()
    for given in refused:
        with pytest.raises(AccessError) as caught:
            door.authenticate(given)
        text.add((type(caught.value), str(caught.value)))
    assert len(text) == 1
    assert not any(part in str(text) for part in (prefix, secret))


def test_anonymous_access_ends_with_the_first_key(clock):
    keyring, everybody = MemoryKeyring(), Grant(tenant="acme", rights=["admin"], name="local")
    door = Authenticator(
        [lambda token: verify_key(keyring, token, clock())], anonymous=lambda: everybody if keyring.is_empty() else None
    )
    assert door.authenticate(None) is everybody
    assert door.authenticate("Bearer whatever") is everybody
    token, key = create_key("acme", ["read"], {}, None, None, clock())
    keyring.add(key)
    with pytest.raises(AccessError):
        door.authenticate(None)
    assert door.authenticate(f"Bearer {token}").name == key.prefix
    keyring.revoke(key.prefix, clock())
    for given in (None, f"Bearer {token}"):
        with pytest.raises(AccessError):
            door.authenticate(given)


def test_verifiers_are_tried_in_order():
    one, two = grant("read"), grant("write")
    door = Authenticator([{"first": one}.get, {"first": two, "second": two}.get])
    assert door.authenticate("Bearer first") is one
    assert door.authenticate("Bearer second") is two
    with pytest.raises(AccessError):
        door.authenticate("Bearer third")


def test_a_bound_key_lists_its_own_and_shared_memories_by_id(setup):
    ids = [setup.ids[name] for name in ("hers", "ours", "away")]
    found = setup.ask(grant("read", user_id="alice"), "list", ids=ids)
    assert {one.id for one in found.memories} == {setup.ids["hers"], setup.ids["ours"]}
    with pytest.raises(ForbiddenError, match="bob"):
        setup.ask(grant("read", user_id="alice"), "facets", user_id="bob")
    assert setup.ask(grant("read", user_id="alice"), "facets", users=["bob"]).total == 0
