"""Twenty keys in four tenants ask everything of a real server at once, over REST and MCP: nobody meets another."""

import pytest
from bench.torture.writing import seeded

import salience
from bench.torture_server import cast, report
from bench.torture_server.asking import Answer, Asked, Line
from bench.torture_server.deeds import DEEDS, ON_AN_ID, Turn, surfaced
from bench.torture_server.judging import Known, foreign, received, wrong
from bench.torture_server.leaks import leaks
from bench.torture_server.timing import KINDS, TIMED, timed
from salience import compose, settings
from salience.server import keys as access
from salience.server.gate import Gate
from salience.server.plan import Plan
from salience.server.site import standing
from salience.store.keyring import MemoryKeyring
from servers import served


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """The URL of a server, and an engine and the keys of its store."""
    target = str(tmp_path / "served.db") if request.param == "sqlite" else request.getfixturevalue("tables")
    chosen = settings.load(url=target, server_upkeep="forever", mcp_tools="all")
    with (
        salience.connect(target, embedder="static") as engine,
        standing(Plan(settings=chosen, embedder="static")) as site,
        served(site.app) as url,
    ):
        keyring = compose.keyring(target)
        yield url, engine, keyring
        keyring.close()


def test_nobody_meets_another(place):
    found = leaks(*place, threads=4, seed=1, turns=20)
    assert found.faults == {}
    assert found.foreign == found.changed == 0
    assert found.answered.total() > 80
    assert found.beyond.total() > 5
    assert found.taken_back >= 40  # each of twenty keys, over both surfaces, right after it was revoked
    assert found.checked > 50
    assert {name.split()[0] for name in found.answered} == {"rest", "mcp"}
    assert list(report.of_leaks(found, 4))[-1].split() == ["faults", "0"]


@pytest.fixture
def ringed():
    """Homes, and those who hold keys to them."""
    homes = cast.homes()
    return homes, cast.holders(MemoryKeyring(), homes)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_search_for_leaks_finds_them(place, monkeypatch):
    """Without bounds, and with keys that go on once they are revoked, so that the test above is known to look."""
    monkeypatch.setattr("salience.server.gate._bounded", lambda *_: {})
    monkeypatch.setattr(Gate, "allow", lambda *_: None)
    monkeypatch.setattr(access.ApiKey, "status", lambda *_: "live")
    found = leaks(*place, threads=2, seed=2, turns=40)
    said = " ".join(found.faults)
    assert found.foreign > 0
    assert found.changed > 0
    assert "under a key that was revoked" in said
    assert "told the text of a memory of another" in said
    assert "a receipt tells of a memory where the key must not write" in said
    assert "is from a hand that must not write there" in said


def test_there_are_twenty_keys_of_every_kind(ringed):
    homes, holders = ringed
    assert (len(homes), len({home.mark for home in homes}), len(holders)) == (36, 36, 20)
    assert {holder.grant.tenant for holder in holders} == {home.tenant for home in homes}
    kinds = {(tuple(holder.grant.rights), tuple(holder.grant.bound)) for holder in holders}
    assert {bound for _, bound in kinds} == {(), ("project",), ("user_id",), ("project", "user_id")}
    assert {rights for rights, _ in kinds} == {("read",), ("read", "write"), ("admin",)}
    for holder in holders:
        assert all(holder.sees(home) for home in homes if holder.owns(home))
        assert not any(holder.sees(home) for home in homes if home.tenant != holder.grant.tenant)


def test_who_is_bound_sees_what_is_shared_and_owns_what_is_theirs_alone(ringed):
    homes, holders = ringed
    bound = holders[2]
    assert list(bound.grant.bound) == ["project"]
    assert {home.project for home in homes if bound.sees(home)} == {None, bound.grant.bound["project"]}
    assert {home.project for home in homes if bound.owns(home)} == {bound.grant.bound["project"]}


def answer(text, status=200, is_ok=True):
    return Answer(status, is_ok, text, {}, 0.0)


def test_what_is_foreign_in_an_answer(ringed):
    homes, holders = ringed
    known, holder = Known(homes), holders[2]
    own, other = (
        next(home for home in homes if holder.owns(home)),
        next(home for home in homes if not holder.sees(home)),
    )
    known.note(other, "1" * 32)
    known.note(own, "2" * 32)
    asked = Asked("get", {"id": "1" * 32, "project": "proj9999end"})

    def told(text, **how):
        return sorted(foreign(known, holder, asked, answer(text, **how)))

    refused = {"status": 404, "is_ok": False}
    assert told(f"{own.mark} {holder.grant.tenant} {'2' * 32}") == []
    assert told(other.mark.upper()) == told(own.mark, **refused) == ["the text of a memory"]
    assert told("1" * 32) == ["an id"]
    assert told("proj9999end") == ["a name"]
    assert told(f"{'1' * 32} proj9999end", **refused) == []
    assert told("user0099end", **refused) == ["a name"]
    assert told("3" * 32) == []
    assert known.seen == {holder.number: {"3" * 32}}


def test_what_is_wrong_with_an_answer(ringed):
    _, holders = ringed
    holder, asked = holders[0], Asked("list", {})

    def said(status, began):
        return list(wrong(holder, asked, answer("", status), began))

    assert said(200, 1.0) == said(403, 1.0) == []
    assert "is live" in said(401, 1.0)[0]
    assert "ended with 500" in said(500, 1.0)[0]
    holder.taken_back = 2.0
    assert said(200, 1.0) == said(401, 1.0) == said(401, 3.0) == []
    assert "was revoked" in said(200, 3.0)[0]


def test_what_receipts_tell(ringed):
    homes, holders = ringed
    known, holder = Known(homes), holders[2]
    own, other = (
        next(home for home in homes if holder.owns(home)),
        next(home for home in homes if not holder.owns(home)),
    )
    receipts = [
        {"status": "created", "memory": {"id": str(n) * 32, "scope": home.where}} for n, home in ((1, own), (2, other))
    ]
    assert list(received(known, holder, receipts[0])) == []
    assert len(list(received(known, holder, {"receipts": receipts}))) == 1
    assert list(received(known, holder, {"memories": []})) == list(received(known, holder, None)) == []
    assert known.of == {"1" * 32: own}


@pytest.mark.parametrize("what", [*DEEDS, *ON_AN_ID])
def test_every_deed_can_be_done(place_once, what):
    """None of them is refused for its form alone."""
    line, homes, holders = place_once
    holder = next(one for one in holders if one.grant.may("admin") and not one.grant.bound)
    for number, over_mcp in enumerate((False, True, False, True)):  # some name another tenant, by chance
        turn = Turn(holder, seeded(f"{what} {number}"), homes, {})
        if what in DEEDS:
            asked = DEEDS[what][0](turn)
        else:
            named = line.ask(holder.token, Asked("remember", {"content": f"{what} {number}"})).told["memory"]["id"]
            if what == "restore":
                line.ask(holder.token, Asked("forget", {"id": named}))
            asked = ON_AN_ID[what][0](turn, named, {})
        found = line.ask(holder.token, surfaced(asked, over_mcp))
        if found.is_ok:
            return
    pytest.fail(found.text)


@pytest.fixture(scope="module")
def place_once(tmp_path_factory):
    """A connection to a server that nobody else speaks to, the homes, and those who hold keys."""
    target = str(tmp_path_factory.mktemp("once") / "served.db")
    chosen = settings.load(url=target, server_upkeep="forever", mcp_tools="all")
    with standing(Plan(settings=chosen, embedder="static")) as site, served(site.app) as url, Line(url) as line:
        keyring, homes = compose.keyring(target), cast.homes()
        yield line, homes, cast.holders(keyring, homes)
        keyring.close()


def test_time_is_taken_of_every_kind(place_once):
    line, _, holders = place_once
    found = timed(line.url, holders[2], ["1" * 32], ["2" * 32], 3, seeded(1))
    assert [one.what for one in found] == [f"{verb} over {surface}" for verb, surface in TIMED]
    assert all(len(one.seconds[kind]) == 3 for one in found for kind in KINDS)
    assert len(list(report.of_timing(found))) == 1 + len(TIMED) * len(KINDS)
