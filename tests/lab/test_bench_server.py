"""The bench of a server: it asks what it says, finds what is missing, and its page holds all of it."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace

import httpx
import pytest

from salience.lab.bench_server import loads, measuring, mixing, place, report, texts, wrk
from salience.lab.bench_server.measuring import Amounts
from salience.lab.bench_server.mixing import Mix
from salience.lab.bench_server.report import Machine
from salience.lab.served import STORES
from servers import live

QUANTILES = {"p50": 2.0, "p95": 3.0, "p99": 4.0}
METRICS = """\
salience_requests_total{status="200",surface="rest",verb="recall"} 7.0
salience_requests_total{status="422",surface="rest",verb="recall"} 1.0
salience_requests_total{status="200",surface="rest",verb="list"} 5.0
salience_requests_in_progress %s
salience_embedded_texts_total{outcome="embedded"} 3.0
"""


def test_texts_are_different_and_always_the_same():
    found = texts.sentences(2_000, seed=1)
    assert len(set(found)) == 2_000
    assert found == texts.sentences(2_000, seed=1) != texts.sentences(2_000, seed=2)


def test_every_other_question_of_a_load_is_new_where_it_says_so():
    half, known = loads.LOADS[0], loads.LOADS[1]
    first, second = ([body["query"] for body in islice(half.bodies(run), 1_000)] for run in (1, 2))
    asked = {body["query"] for body in islice(known.bodies(1), 1_000)}
    assert len(asked) == loads.KNOWN
    assert len({*first[::2], *second[::2]} - asked) == 1_000
    assert {*first[1::2]} <= asked


def test_what_is_in_sight_is_one_project_or_all():
    *_, everywhere = loads.LOADS
    assert {body["project"] for body in everywhere.bodies(1)} == {"*"}
    assert len({body["project"] for body in loads.LOADS[0].bodies(1)}) == place.PROJECTS


@pytest.fixture
def filled(tmp_path, monkeypatch):
    monkeypatch.setattr(place, "EMBEDDER", "static")
    with place.place("sqlite", tmp_path, memories=40) as found:
        yield found


def test_clients_tell_what_was_acknowledged_and_what_is_lost(filled):
    with place.opened(filled.target) as engine, live(engine) as url:
        mix = Mix(url, filled, 0.5, 1, least=20)
        with mix.going():
            assert mix.enough.wait(60)
    assert len(mix.tally.stored) >= 20
    assert not mix.tally.errors
    id, content = next(iter(mix.tally.stored.items()))
    assert mixing.lost(filled, mix.tally.stored) == 0
    assert mixing.lost(filled, {**mix.tally.stored, id: f"{content} More.", "nobody": content}) == 2


def test_a_server_that_is_gone_is_an_error_unless_it_was_ended(filled):
    mix = Mix("http://127.0.0.1:1", filled, 0.5, 1)
    mix.ending = True
    with mix.going():
        assert mix.over.wait(60)
    assert mix.tally.unanswered >= 1
    assert not mix.tally.errors


def test_a_refusal_is_an_error(filled):
    with place.opened(filled.target) as engine, live(engine, body_limit=10) as url:
        mix = Mix(url, filled, 0.5, 1, least=20)
        with mix.going():
            assert mix.enough.wait(60)
    assert set(mix.tally.errors) == {"status 413"}
    assert mix.tally.stored == {}


def test_a_server_has_settled_when_it_works_on_nothing(monkeypatch):
    pages = iter([METRICS % "1.0", METRICS % "0.0"])
    request = httpx.Request("GET", "http://127.0.0.1/metrics")
    monkeypatch.setattr(measuring.httpx, "get", lambda *_, **__: httpx.Response(200, text=next(pages), request=request))
    monkeypatch.setattr(measuring, "time", SimpleNamespace(sleep=lambda _: None))
    assert measuring.settled("http://127.0.0.1") == {"recalls": 8.0, "embedded": 3.0, "in progress": 0.0}
    assert next(pages, None) is None


def test_the_engine_alone_is_measured_under_every_load(filled, tmp_path):
    found = measuring.Bench("sqlite", Amounts(alone=3), tmp_path, print).alone(filled)
    assert list(found) == [load.name for load in loads.LOADS]
    assert {row["count"] for row in found.values()} == {3}


def test_a_part_that_is_kept_is_not_measured_again(tmp_path):
    kept = {name: {} for kind in STORES for name in measuring.Bench(kind, Amounts(), tmp_path, print).parts()}
    assert len(kept) == 14
    measuring.measured(kept, pytest.fail, Amounts(), tmp_path, pytest.fail)


def kept():
    """Return a measurement in which each figure can be told from the others."""
    alone = {load.name: {**QUANTILES, "a_second": 50.0} for load in loads.LOADS}
    told = {"requests": 400, "seconds": 4.0, "refused": 1, "failed": 2, "new": 0.5, **QUANTILES}
    asked = [{"load": load.name, "clients": clients, **told} for load in loads.LOADS for clients in load.clients]
    mixed = {verb: {"count": count, **QUANTILES} for verb, count in (("recall", 900), ("remember", 100))}
    ended = {"code": 0, "acknowledged": 60, "errors": {}, "lost": 0}
    found = {}
    for kind in STORES:
        found[f"{kind} alone"] = alone
        for workers in measuring.WORKERS:
            found[f"{kind} asked {workers}"] = {"rows": asked}
            found[f"{kind} mixed {workers}"] = {
                **mixed,
                "seconds": 10,
                "acknowledged": 99,
                "lost": 7,
                "errors": {"x": 8},
            }
            rounds = [{**ended, "seconds": 1.0}, {**ended, "seconds": 5.0, "code": 1}, {**ended, "seconds": 2.0}]
            found[f"{kind} ended {workers}"] = {"rounds": rounds}
    return {name: {**part, "loads": [0.5, 2.5]} for name, part in found.items()}


def test_the_page_holds_all_that_was_measured():
    page = report.page(kept(), Amounts(), Machine("a processor", 2, 4 * 2**30))
    first = loads.LOADS[0].name
    assert f"| SQLite | {first} |  |  |  | 50 | 1 | 2.0 | 3.0 | 4.0 |  | 0.5, 2.5 |" in page
    assert f"| PostgreSQL | {first} | 2 | 64 | 50% | 100 | 2.00 | 2.0 | 3.0 | 4.0 | 3 | 0.5, 2.5 |" in page
    assert "| SQLite | 1 | 900 | 100 | 100 | 2.0 | 3.0 | 4.0 | 2.0 | 3.0 | 4.0 | 8 | 99 | 7 | 0.5, 2.5 |" in page
    assert "| PostgreSQL | 2 | 3 | 2 | 2.0, 5.0 | 180 | 0 | 0 |" in page
    assert "a processor, 2 cores, 4 GiB" in page
    assert "was 0.5 to 2.5" in " ".join(page.split())


def test_without_wrk_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(wrk.shutil, "which", lambda _: None)
    with pytest.raises(SystemExit, match="apt-get install wrk"):
        wrk.require()


def test_what_wrk_tells_is_read(tmp_path, monkeypatch):
    line = '{"requests": 5, "seconds": 1.0, "p50": 1.0, "p95": 2.0, "p99": 3.0, "refused": 0, "failed": 0}'
    run = wrk.subprocess.run
    body = {"query": "Who has the key?"}
    monkeypatch.setattr(wrk.subprocess, "run", lambda _, **named: run(["printf", "%s\\n", "Running", line], **named))
    assert wrk.driven("http://127.0.0.1", "token", [body, body], 1, 1, tmp_path).requests == 5
    assert (tmp_path / "bodies").read_text().splitlines() == ['{"query": "Who has the key?"}'] * 2
