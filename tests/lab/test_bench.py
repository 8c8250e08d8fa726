"""The benchmark: its data have right answers, its clocks are fair, what is missing is named, and its page holds all."""

from __future__ import annotations

import itertools
import json
import socket
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salience.lab.bench import (
    clocks,
    contender,
    crowd,
    export,
    floor,
    floor_float32,
    fresh,
    page,
    plot,
    quiet,
    reference,
    running,
    tables,
    writing,
)
from salience.lab.bench import truth as truths
from salience.lab.bench.bench import Bench
from salience.lab.bench.clocks import WARMING, Effort, Watch, quantiles, turn_about
from salience.lab.bench.contender import KINDS, MODES, OURS, OWN, PEERS
from salience.lab.bench.corpus import BLOCK, GROUP, SESSION, TAG, TAGGED, USERS, VIEWS, Corpus
from salience.lab.bench.lookup import Lookup
from salience.lab.bench.peers.fusing import fused
from salience.lab.bench.reference import ranked
from salience.lab.bench.running import PARTS, Plan, run
from salience.lab.bench.tables import Table, number, ratio
from salience.records import ANY

SMALL = Corpus(300)


def blocks(corpus):
    return list(corpus.blocks())


def test_a_corpus_follows_from_its_seed():
    one, again, other = (blocks(Corpus(300, seed))[0] for seed in (1, 1, 2))
    assert one.texts == again.texts != other.texts
    assert np.array_equal(one.vectors, again.vectors)
    assert list(one.entries()) == list(again.entries()) != list(other.entries())


def test_a_larger_corpus_begins_as_a_smaller_one_does():
    small, large = Corpus(BLOCK), Corpus(3 * BLOCK + 5)
    assert small.block(0).texts == large.block(0).texts
    assert [(block.start, block.count) for block in large.blocks()][-1] == (3 * BLOCK, 5)
    assert sum(block.count for block in large.blocks()) == large.size


def test_vectors_have_length_one_and_lie_near_those_of_their_topic():
    block = Corpus(3_000).block(0)
    assert np.allclose(np.linalg.norm(block.vectors, axis=1), 1, atol=1e-5)
    alike = block.homes[:, None, 2] == block.homes[None, :, 2]
    np.fill_diagonal(alike, val=False)
    cosines = block.vectors @ block.vectors.T
    assert 0.4 < cosines[alike].mean() < 0.6
    assert abs(cosines[~alike].mean()) < 0.05


def test_half_of_the_memories_are_turns_and_a_session_has_one_home():
    entries = list(Corpus(2_000).block(0).entries())
    turns = [entry for entry in entries if entry.session]
    assert len(turns) == len(entries) / 2
    for _, session in itertools.groupby(turns, key=lambda entry: entry.session):
        said = list(session)
        assert len(said) == SESSION
        assert len({(entry.user, entry.project) for entry in said}) == 1
        assert len({entry.speaker for entry in said}) == 2


def test_filters_pass_five_percent_and_a_thousandth():
    block = Corpus(BLOCK).block(0)
    shares = np.bincount(block.users, minlength=USERS) / BLOCK
    assert len(shares) == USERS
    assert (np.abs(shares - 0.05) < 0.012).all()
    assert abs(block.tagged.mean() - 0.001) < 0.0002
    assert [entry.tags for entry in block.entries()].count((TAG,)) == -(-BLOCK // TAGGED)
    assert TAGGED % GROUP  # else it would fall on turns only, or on facts only


def test_common_words_are_in_many_texts_and_rare_ones_in_few():
    seen = np.sort(np.array(list(_documents(Corpus(2_000).block(0)).values())))[::-1]
    assert seen[20] > 100
    assert np.median(seen) < 10


def _documents(block):
    counts = {}
    for text in block.texts:
        for word in set(text.split()):
            counts[word] = counts.get(word, 0) + 1
    return counts


@pytest.mark.parametrize("view", VIEWS)
def test_a_question_is_about_a_memory_in_view_and_near_it(view):
    corpus = Corpus(2_000)
    block = corpus.block(0)
    asked = corpus.questions(view, 30)
    assert len(asked) == 30
    assert [one.text for one in asked] == [one.text for one in corpus.questions(view, 30)]
    seen = truths.in_view(block, asked)
    for place, question in enumerate(asked):
        assert seen[place, question.row]
        assert set(question.text.split()) <= set(block.texts[question.row].split())
    cosines = [float(question.vector @ block.vectors[question.row]) for question in asked]
    assert 0.65 < np.mean(cosines) < 0.85
    share = {"all": 1, "user": 1 / USERS, "tag": 1 / TAGGED}[view]
    assert seen.mean() == pytest.approx(share, rel=0.3, abs=0.001)


@settings(max_examples=20, deadline=None)
@given(size=st.integers(1, 400), seed=st.integers(0, 5), view=st.sampled_from(VIEWS))
def test_the_nearest_are_those_of_largest_cosine(size, seed, view):
    corpus = Corpus(size, seed)
    asked, block = corpus.questions(view, 3), corpus.block(0)
    seen = truths.in_view(block, asked)
    for place, (question, found) in enumerate(zip(asked, truths.nearest(corpus, asked), strict=True)):
        cosines = np.where(seen[place], block.vectors @ question.vector, -np.inf)
        best = np.argsort(-cosines, kind="stable")[: min(truths.LIMIT, int((cosines > 0).sum()))]
        assert np.allclose(cosines[found], cosines[best], atol=1e-6)
        assert len(set(found)) == len(best)


def test_the_nearest_of_several_blocks_are_those_of_all(monkeypatch):
    monkeypatch.setattr("salience.lab.bench.corpus.BLOCK", 100)
    corpus = Corpus(250)
    asked = corpus.questions("all", 5)
    vectors = np.concatenate([block.vectors for block in corpus.blocks()])
    for question, found in zip(asked, truths.nearest(corpus, asked), strict=True):
        assert np.allclose(np.sort(vectors @ question.vector)[::-1][: truths.LIMIT], vectors[found] @ question.vector)


def test_recall_is_the_share_of_what_is_right():
    assert truths.recall([1, 2, 9], [1, 2, 3, 4]) == 0.5
    assert truths.recall([], [1]) == 0
    assert truths.recall([5], []) == 1


def test_the_table_knows_what_it_learned_and_makes_up_the_rest():
    lookup, vectors = Lookup(), SMALL.block(0).vectors[:2]
    lookup.learn(["a", "b"], vectors)
    assert np.array_equal(lookup.embed(["b", "a"]), vectors[::-1])
    made_up = lookup.embed(["c"])
    assert np.array_equal(made_up, Lookup().embed(["c"]))
    assert np.linalg.norm(made_up) == pytest.approx(1, abs=1e-5)
    lookup.forget()
    assert not np.array_equal(lookup.embed(["a"])[0], vectors[0])
    assert lookup.embed([]).shape == (0, lookup.dimension)


def test_what_is_stored_is_the_corpus_with_its_vectors(tmp_path):
    ours = KINDS[OURS].open(tmp_path, Lookup())
    ours.load(SMALL.blocks(), Watch())
    block = SMALL.block(0)
    entries = list(block.entries())
    kept = {memory.id: memory for memory in ours.engine.list(limit=300, user_id=ANY, project=ANY).memories}
    assert len(kept) == 300
    for entry in entries[::37]:
        memory = kept[export.id_of(entry.row)]
        assert (memory.content, memory.scope.user_id, memory.scope.project) == (entry.text, entry.user, entry.project)
        assert (memory.tags, memory.speaker, memory.scope.session_id) == (entry.tags, entry.speaker, entry.session)
        assert export.row_of(memory.id) == entry.row
    asked = SMALL.questions("user", 10)
    found = [ours.recall(one, "dense") for one in asked]
    assert all(truths.recall(got, right) == 1 for got, right in zip(found, truths.nearest(SMALL, asked), strict=True))
    ours.close()


@pytest.mark.parametrize("mode", MODES)
def test_our_answers_are_those_of_the_whole_ranking(tmp_path, mode, monkeypatch):
    ours = KINDS[OURS].open(tmp_path, Lookup())
    ours.load(SMALL.blocks(), Watch())
    for view in VIEWS:
        asked = SMALL.questions(view, 200)[:5]
        found = [ours.recall(question, mode) for question in asked]
        if mode == "dense":
            right = truths.nearest(SMALL, asked)
            assert [rows[: len(best)] for rows, best in zip(found, right, strict=True)] == right
        else:
            assert found == ranked(SMALL, ours, mode, view)[:5]
            monkeypatch.setattr(reference, "SMALL", 0)
            assert found == ranked(SMALL, ours, mode, view)[:5]
            monkeypatch.undo()
    ours.close()


@pytest.mark.parametrize("view", VIEWS)
def test_the_floor_finds_what_is_right(tmp_path, view):
    asked = SMALL.questions(view, 20)
    right = truths.nearest(SMALL, asked)
    for made, least in ((floor_float32, 1.0), (floor, 0.9)):
        kept = made.open_(tmp_path, Lookup())
        kept.load(SMALL.blocks(), Watch())
        again = made.open_(tmp_path, Lookup())
        found = [again.recall(question, "dense") for question in asked]
        assert found == [kept.recall(question, "dense") for question in asked]
        assert np.mean([truths.recall(got, wanted) for got, wanted in zip(found, right, strict=True)]) >= least


def test_the_floor_without_kernels_gives_the_same_products(monkeypatch):
    vectors, query = SMALL.block(0).vectors, SMALL.questions("all", 1)[0].vector
    rows, _ = floor.int8(vectors)
    by_kernels = floor.products(rows, query)
    monkeypatch.setattr(floor.kernels, "dots", lambda: None)
    assert np.array_equal(np.asarray(by_kernels, np.float64), floor.products(rows, query).astype(np.float64))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_quantiles_rise_and_lie_among_the_times(times):
    found = quantiles(times)
    assert min(times) <= found["p50"] <= found["p95"] <= found["p99"] <= max(times)
    assert found["n"] == len(times)


def test_quantiles_of_a_known_list():
    assert quantiles(range(1, 102)) == {"p50": 51.0, "p95": 96.0, "p99": 100.0, "n": 101}


def test_several_are_done_turn_about_and_the_first_turns_do_not_count():
    done = []
    works = {name: lambda number, name=name: done.append((number, name)) or number for name in "AB"}
    laps = turn_about(works, Effort(seconds=1e9, least=1, most=4))
    assert done == [(number, name) for number in range(WARMING + 4) for name in "AB"]
    counted = [WARMING + number for number in range(4)]
    assert {name: list(one.found) for name, one in laps.items()} == {"A": counted, "B": counted}
    assert all(len(one.milliseconds) == 4 for one in laps.values())


def test_one_whose_time_is_up_makes_nobody_wait(monkeypatch):
    now = itertools.count()
    monkeypatch.setattr(clocks, "time", SimpleNamespace(perf_counter=lambda: float(next(now))))
    slow = lambda number: [next(now) for _ in range(10)] and number  # noqa: E731 - it spends ten ticks of the clock
    laps = turn_about({"slow": slow, "quick": lambda number: number}, Effort(seconds=20, least=2, most=15))
    assert len(laps["slow"].found) == 2
    assert len(laps["quick"].found) == 15


def test_a_watch_stops_between_what_it_is_to_count(monkeypatch):
    monkeypatch.setattr(clocks, "time", SimpleNamespace(perf_counter=iter([1.0, 3.0, 10.0, 10.5]).__next__))
    watch = Watch()
    for _ in range(2):
        with watch:
            pass
    assert watch.seconds == 2.5


def test_a_peer_that_is_not_installed_is_named_and_left_out(monkeypatch):
    monkeypatch.setattr(contender, "find_spec", lambda _: None)
    names, skipped = running.chosen(tuple(PEERS), 300)
    assert names == tuple(OWN)
    assert skipped == {name: f"pip install {PEERS[name].package}" for name in PEERS}


def test_a_peer_that_cannot_be_opened_is_named_and_left_out(monkeypatch):
    def broken(*_):
        raise OSError("no extensions")

    monkeypatch.setattr(contender, "there", lambda _: True)
    monkeypatch.setattr(contender.Kind, "open", broken)
    names, skipped = running.chosen(["sqlite-vec"], 300)
    assert names == tuple(OWN)
    assert skipped == {"sqlite-vec": "it cannot be opened (OSError: no extensions)"}


def test_a_peer_that_takes_too_long_to_load_is_named_and_left_out(monkeypatch):
    monkeypatch.setattr(contender, "there", lambda _: True)
    assert KINDS["mem0"].hindrance(1_000_000) == "1,000,000 memories take too long to load"


def test_a_module_below_one_that_is_not_there_is_not_there():
    assert contender.there("no_such_package.below.it") is False
    assert contender.there(None) is contender.there("json") is True


def test_every_choice_says_how_it_searches_and_what_a_write_survives():
    assert set(KINDS) == {*OWN, *PEERS}
    for kind in KINDS.values():
        assert "xact" in kind.told or "pproximate" in kind.told
        assert "write is" in kind.told or "Keeps nothing" in kind.told


def test_ranks_are_fused():
    assert fused([[1, 2, 3], [3, 1]]) == [1, 3, 2]
    assert fused([range(20)]) == list(range(10))


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("socket.getaddrinfo", ("example.com", 443, 0, 0, 0)),
        ("socket.connect", (None, ("192.0.2.1", 443))),
        ("socket.sendto", (None, ("2001:db8::1", 443, 0, 0))),
    ],
)
def test_nothing_leaves_the_machine(event, arguments):
    with pytest.raises(PermissionError):
        quiet.refuse(event, arguments)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", b"localhost", None])
def test_what_stays_on_the_machine_may_go_on(host):
    quiet.refuse("socket.connect", (None, (host, 80)))
    quiet.refuse("socket.getaddrinfo", (host, 80, 0, 0, 0))


def test_other_events_and_other_kinds_of_sockets_may_go_on():
    quiet.refuse("open", ("example.com",))
    quiet.refuse("socket.connect", (socket.AF_UNIX, "/a/path"))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What is known of a small corpus after all parts but the one that starts processes."""
    folder = tmp_path_factory.mktemp("figures")
    plan = Plan((300,), peers=(), parts=tuple(part for part in PARTS if part != "fresh"), effort=Effort(0, 2, 10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "MANY", 20)
        return folder, run(plan, folder, lambda _: None)[0]


def test_all_parts_are_kept_as_they_are_known(measured):
    folder, kept = measured
    assert json.loads((folder / "300.json").read_text("utf-8")) == kept
    assert running.kept_in(folder) == [kept]
    assert set(kept["parts"]) == {*PARTS} - {"fresh"}
    for name, part in kept["parts"].items():
        assert len(part["loads"]) == 2
        assert bool(part["rows"]) == (name != "peers")  # of whom there are none
    assert set(kept["versions"]) == set(kept["told"]) == set(OWN)


def test_every_recall_has_quantiles_and_what_it_found(measured):
    _, kept = measured
    rows = tables.rows_of(kept, "recall")
    assert {(row["verb"], row["view"]) for row in rows} == {
        (f"recall {mode}", view) for mode in MODES for view in VIEWS
    }
    for row in rows:
        values = row["values"]
        assert 0 < values["p50"] <= values["p95"] <= values["p99"]
        assert values["recall"] >= (0.9 if row["name"] == "floor int8" else 1.0)
        assert values["found"] >= 0.9
        if row["name"] == OURS:
            assert values["exact"] == 1.0
            assert values["ms gather"] > 0


def test_what_is_written_while_it_is_measured_is_in_no_store_afterwards(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "MANY", 20)
    plan = Plan((60,), peers=(), parts=("write", "mixed", "crowd"), effort=Effort(0, 2, 10), work=tmp_path / "work")
    run(plan, tmp_path / "figures", lambda _: None)
    ours = KINDS[OURS].open(tmp_path / "work" / "60-1" / OURS, Lookup())
    assert ours.engine.stats(user_id=ANY, project=ANY).memories == 60
    ours.close()


def test_a_part_is_measured_anew_and_the_others_are_kept(measured, tmp_path):
    _, kept = measured
    path = tmp_path / "300.json"
    path.write_text(json.dumps({**kept, "parts": {**kept["parts"], "load": {"rows": [], "loads": [], "at": "before"}}}))
    again = run(Plan((300,), (), ("load",), effort=Effort(0, 2, 10)), tmp_path, lambda _: None)[0]
    assert set(again["parts"]) == set(kept["parts"])
    assert again["parts"]["recall"] == kept["parts"]["recall"]
    assert again["parts"]["load"]["rows"]
    other = run(Plan((300,), (), ("load",), seed=2, effort=Effort(0, 2, 10)), tmp_path, lambda _: None)[0]
    assert set(other["parts"]) == {"load"}


def test_questions_go_to_another_process_and_come_back(tmp_path):
    asked = SMALL.questions("all", 3)
    fresh.save(tmp_path / "asked.npz", asked)
    for one, again in zip(asked, fresh.saved(tmp_path / "asked.npz"), strict=True):
        assert one.text == again.text
        assert np.array_equal(one.vector, again.vector)


def test_a_process_tells_how_long_it_took_and_what_it_holds(tmp_path):
    ours = KINDS[OURS].open(tmp_path / "store", Lookup())
    ours.load(SMALL.blocks(), Watch())
    ours.close()
    fresh.save(tmp_path / "asked.npz", SMALL.questions("all", 3))
    told = fresh.main([OURS, str(tmp_path / "store"), str(tmp_path / "asked.npz")])
    assert 0 < told["open"] < told["first"]
    assert set(told) == {"open", "first", "grown"}


def row(name, view="all", **values):
    return {"verb": "recall dense", "view": view, "name": name, "values": {"p50": 1.0, **values}}


def test_ratios_say_how_many_times_as_long_it_took():
    rows = [row(OURS, p50=2.0), row("other", p50=5.0), row(OURS, view="tag", p50=0.5)]
    assert ratio(rows[1], rows) == 2.5
    assert ratio(rows[2], rows) == 1.0
    assert ratio(row("other", view="user"), rows) is None
    rates = [row(OURS, **{"a second": 100.0}), row("other", **{"a second": 25.0})]
    assert ratio(rates[1], rates, "a second") == 4.0


@pytest.mark.parametrize(
    ("value", "told"), [(None, ""), (0.123, "0.12"), (12.345, "12.35"), (123.45, "123.5"), (12345.6, "12,346")]
)
def test_large_numbers_have_fewer_digits(value, told):
    assert number(value) == told


def test_the_page_holds_every_table(measured):
    _, kept = measured
    told = page.page([{**kept, "skipped": {"chroma": "pip install chromadb"}}], "figures/recall.svg")
    assert "## 300 memories" in told
    assert "(figures/recall.svg)" in told
    assert "- **chroma**: not measured: pip install chromadb" in told
    for table in tables.tables(kept):
        assert page.markdown(table) in told
        assert all(len(cells) == len(table.head) for cells in table.rows)
    assert all(kind.told in told for kind in OWN.values())


def test_a_table_in_markdown():
    table = Table("title", ("who", "n"), (("a", "1"), ("b", "2")))
    assert page.markdown(table).splitlines() == ["| who | n |", "| --- | ---: |", "| a | 1 |", "| b | 2 |"]


def test_the_drawing_has_a_line_for_each_store(measured, tmp_path):
    _, kept = measured
    assert set(plot.lines([kept], "dense", "all")) == set(OWN)
    assert set(plot.lines([kept], "hybrid", "tag")) == {OURS}
    sizes, medians = plot.lines([{**kept, "size": 500}, kept], "dense", "user")[OURS]
    assert sizes == [300, 500]
    assert len(medians) == 2
    plot.draw([kept], tmp_path / "recall.svg")
    assert "floor float32" in (tmp_path / "recall.svg").read_text("utf-8")


def test_a_thread_that_has_nothing_left_to_write_is_done(monkeypatch, tmp_path):
    monkeypatch.setattr(crowd, "FEWEST", 2)
    bench = Bench(SMALL, tmp_path, (OURS,), Effort(0, 2, 10), lambda _: None)
    work = crowd._writes(bench, KINDS["floor int8"].open(tmp_path, Lookup()), "insert")
    assert [work(0, number) for number in range(3)] == [True, True, False]
    assert work(1, 0)
