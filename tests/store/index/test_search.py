"""The best alone are brought, and nothing is lost by it: a pruned ranking is that of all memories, bit for bit.

Small stores of every shape are made at random, and the numbers from which a search takes another path are lowered until
each path is walked. `SALIENCE_TEST_STEPS` says how many stores are made in all.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import KERNELS, computed_by
from salience import batch as columns
from salience.access_log import AccessLog
from salience.batch import Batch
from salience.explain.trace import Trace
from salience.ports import RAW, Calibration, Need
from salience.rank import bounds, profiles
from salience.rank.bounds import is_exact, pruning
from salience.rank.criteria import Criteria
from salience.rank.profile import Profile, parse
from salience.rank.run import details
from salience.rank.stages import ALIVE
from salience.recall import Clock, make_need
from salience.recall import search as recall_search
from salience.records import ANY, PERIOD, TIERS, Filter, Intent, Query, Relation, Scope, TimeCue
from salience.store.index import Activations, Index, gather, search, view
from salience.store.rows import of_stored
from salience.store.statements import INDEXED
from tests.contract.memories import DIMENSION, NOW, criteria, id_of, random_unit, stored, unit

STEPS = int(os.environ.get("SALIENCE_TEST_STEPS") or 90)
"""Stores that are made in all; each is asked several things."""
TERMS, NAMES, SPEAKERS = "abcdefgh", ("ann", "bob", "zoe lee", "atlas"), ("Ann", "Bob", "Zoe Lee")
PRUNED = [name for name in profiles.NAMES if pruning(profiles.load(name), criteria()) is not None]


def pick(random, *choices, chances=None):
    """Return one of some choices."""
    return choices[random.choice(len(choices), p=chances)]


@dataclass(frozen=True)
class Store:
    """An index as a store."""

    index: Index
    activations: Activations = Activations()

    def gather(self, asked: Need) -> Batch:
        return gather(self.index, asked, self.activations)

    def services(self) -> Any:
        return SimpleNamespace(store=self, access_log=AccessLog(self), tokeniser=SimpleNamespace(query_terms=str.split))


@dataclass(frozen=True)
class Shape:
    """What a store is like: how many memories, and how often something is so of one, in [0, 1]."""

    memories: int
    sessions: int
    spread: float
    pending: float
    again: float
    spoken: float
    scoped: float
    facts: float
    ageing: float
    plain: float


SHAPES = st.builds(
    Shape,
    memories=st.integers(1, 200),
    sessions=st.integers(0, 12),
    spread=st.sampled_from([0.05, 0.3, 1.0, 3.0]),
    pending=st.sampled_from([0.0, 0.0, 0.0, 0.05, 0.5]),
    again=st.sampled_from([0.0, 0.3, 0.9]),
    spoken=st.sampled_from([0.0, 0.5, 1.0]),
    scoped=st.sampled_from([0.0, 0.3]),
    facts=st.sampled_from([0.0, 0.0, 0.3]),
    ageing=st.sampled_from([0.0, 0.0, 0.3]),
    plain=st.sampled_from([0.0, 0.7]),
)


def filled(shape: Shape, random: np.random.Generator) -> Store:
    """Return a store of that shape; those that come again are like an earlier memory in all that is scored."""
    made: list[Any] = []
    centres = random.normal(size=(3, DIMENSION))
    for number in range(shape.memories):
        if made and random.random() < shape.again:
            item = made[random.integers(len(made))]
            made.append(replace(item, memory=replace(item.memory, id=id_of(number), supersedes=None)))
        else:
            made.append(one(shape, random, number, centres))
    rows = [{**of_stored(item, DIMENSION), "seq": 1} for item in made]
    recalled = {id_of(int(number)): int(random.integers(9)) for number in random.integers(shape.memories, size=5)}
    parts = np.array_split(random.permutation(len(rows)), random.integers(1, 4))  # ids and slots in orders of their own
    index = Index.empty(DIMENSION)
    for part in parts:
        index = index.refreshed([tuple(rows[row][name] for name in INDEXED) for row in part])
    return Store(index, Activations(9, recalled))


def stated(random: np.random.Generator) -> tuple[datetime, datetime]:
    start = NOW + timedelta(hours=int(random.integers(-400, 400)))
    return start, start + timedelta(hours=int(pick(random, 1, 24, 1000)))


def related(random: np.random.Generator, number: int) -> tuple[Relation, ...]:
    """Return what memory `number` is to a few older ones."""
    older = sorted(set(random.integers(number, size=random.integers(4)).tolist())) if number else []
    kinds = pick(random, ("replaces",), ("replaces", "adds"))
    chances = (0.3, 0.6, 0.95, 1.0)
    return tuple(Relation(id_of(one), pick(random, *kinds), pick(random, *chances), "model") for one in older)


def one(shape: Shape, random: np.random.Generator, number: int, centres: np.ndarray) -> Any:
    vector = centres[random.integers(len(centres))] + shape.spread * random.normal(size=DIMENSION)
    some, plain = (lambda chance: random.random() < chance), random.random() < shape.plain
    speaker = pick(random, *SPEAKERS) if some(shape.spoken) else None
    return stored(
        number,
        None if some(shape.pending) else (vector / np.linalg.norm(vector)).astype(np.float32),
        terms=tuple(pick(random, *TERMS) for _ in range(random.integers(0, 6))),
        distinctions=(
            f"same:{number % 9}",
            *((f"number:{random.integers(3)}",) if some(0.5) else (f"text:{number % 3}",)),
        ),
        event=stated(random) if some(0.3) else None,
        session_id=f"s{random.integers(shape.sessions)}" if shape.sessions and some(0.9) else None,
        user_id=pick(random, None, "u1", "u2") if some(shape.scoped) else None,
        project=pick(random, None, "p1", "p2") if some(shape.scoped) else None,
        agent_id=pick(random, None, "a1") if some(shape.scoped) else None,
        speaker=speaker,
        turn=number if some(0.5) else None,
        entities=tuple(dict.fromkeys(pick(random, *NAMES) for _ in range(random.integers(0, 3)))),
        kind=pick(random, "fact", "rule"),
        tier=pick(random, *TIERS),
        tags=("red",) if some(0.3) else (),
        importance=0.5 if plain else float(pick(random, 0.0, 0.05, 0.5, 0.97, 1.0)),
        weight=1.0 if plain else float(pick(random, 0.1, 0.5, 1.0)),
        fact_key=f"f{random.integers(5)}" if some(shape.facts) else None,
        supersedes=id_of(int(random.integers(number))) if number and some(shape.facts) else None,
        relations=related(random, number) if some(shape.facts) else None,
        expires_at=NOW + timedelta(hours=int(random.integers(-3, 4))) if some(shape.ageing) else None,
        created_at=NOW - timedelta(days=float(random.integers(0, 400)), hours=float(random.integers(3))),
        updated_at=NOW - timedelta(days=float(random.integers(0, 3))),
        accessed_at=NOW - timedelta(days=float(random.integers(0, 90))) if some(0.5) else None,
        access_count=int(random.integers(0, 40)),
    )


SUMMED = ("similarity", "context_similarity", "lexical", "context_lexical", "speaker", "entity")
OTHERS = ("importance", "importance_multiplier", "weight", "scope_weight", "recency", "staleness", "rehearsed_decay",
          "priming", "time")  # fmt: skip
AFTER = ("replaced", "cut_off", "threshold", "nonzero", "near_duplicate", "same_statement")


def drawn(random: np.random.Generator, most: float = 3.0) -> Profile:
    """Return a profile of random signals and weights, up to `most`, with random stages in the order that is shipped."""
    weights = (0.0, 0.1, 0.3, 1.0, most)
    tables = []
    for signal in (
        *random.permutation(SUMMED)[: random.integers(1, 7)],
        *random.permutation(OTHERS)[: random.integers(5)],
    ):
        how = pick(random, "sum", "product", chances=(0.9, 0.1) if signal in SUMMED else (0.4, 0.6))
        more = "half_life_days = 30\n" if signal == "recency" else ""
        tables.append(f'[signal.{signal}]\ncombine = "{how}"\nweight = {pick(random, *weights)}\n{more}')
    before = [name for name in ("expired",) if random.random() < 0.6]
    after = [name for name in pick(random, AFTER, AFTER[::-1]) if random.random() < 0.4]
    if "replaced" in after:
        tables.append(f"[stage.replaced]\nsure = {pick(random, 0.0, 0.5, 0.9)}\n")
    if "cut_off" in after:
        rule = {"alone": (0.0, 0.05, 0.3), "share": (0.0, 0.5, 0.9), "content": (0.0, 0.5, 1.0)}
        lines = [f"{name} = {pick(random, *numbers)}\n" for name, numbers in rule.items()]
        tables.append(f"[stage.cut_off]\n{''.join(lines)}")
    if "near_duplicate" in after:
        tables.append(f"[stage.near_duplicate]\nparaphrase = {pick(random, 0.5, 0.95)}\n")
    scale = pick(random, "raw", "calibrated")
    head = f'name = "drawn"\nsummary = "x"\ncombine = "sum"\nthreshold_scale = "{scale}"\nlimit = 5\n'
    return parse(f"{head}stages = {[*before, 'score', *after, 'trim']!r}\n{''.join(tables)}", "drawn")


CALIBRATIONS = (
    Calibration((0.0, 0.2, 0.6, 1.0), (0.0, 0.0, 0.7, 1.0), 0.9, "test"),
    Calibration((0.0, 0.3, 0.5, 1.0), (0.0, 0.4, 0.4, 0.9), 0.6, "test"),
)


@dataclass(frozen=True)
class Asked:
    """A query, and what a profile reads of it."""

    query: Query
    criteria: Criteria

    def need(self, profile: Profile, prunes: bool = False) -> Need:
        return make_need(profile, self.query, self.criteria, prunes)


def asked_for(random: np.random.Generator, profile: Profile) -> Asked:
    """Return a random query of a profile."""
    vector, voice = (random.normal(size=DIMENSION) for _ in range(2))
    some = lambda chance: random.random() < chance  # noqa: E731
    start = NOW - timedelta(days=float(random.integers(0, 300)))
    window = {"start": start, "end": pick(random, None, start + timedelta(days=20))} if some(0.5) else {}
    cue = TimeCue(("then",), **window, order=pick(random, None, "earliest", "latest")) if some(0.4) else None
    cue = replace(cue, fades=some(0.3) and len(window) == 2) if cue else None
    home = {"user_id": pick(random, ANY, ANY, "u1", None), "project": pick(random, ANY, ANY, "p1"), "agent_id": ANY}
    scope = Scope(session_id=pick(random, None, "s1"), **home)
    calibration = pick(random, *CALIBRATIONS)
    now = NOW + timedelta(hours=int(random.integers(-3, 4)))
    filter = Filter() if some(0.7) else filtered(random, start)
    terms = tuple(random.permutation([*TERMS, "z"])[: random.integers(0, 5)]) if "terms" in profile.parts else ()
    return Asked(
        Query(text=" ".join(terms) or "?", scope=scope, filter=filter),
        criteria(
            now=now,
            vector=(vector / np.linalg.norm(vector)).astype(np.float32),
            first_person_vector=(voice / np.linalg.norm(voice)).astype(np.float32) if some(0.3) else None,
            terms=terms,
            every_term=terms,
            names=tuple(pick(random, *NAMES, "nobody") for _ in range(random.integers(0, 3))),
            speakers=pick(random, (), (), ("ann",), ("zoe", "bob")),
            tense=pick(random, "present", "present", "former", "past"),
            limit=pick(random, 1, 2, 5, 30),
            depth=pick(random, None, None, 12),
            min_score=pick(random, None, None, 0.0, 0.3, 0.8),
            intent=Intent(PERIOD if window and some(0.5) else "default", time=cue) if cue else Intent(),
            calibration=calibration,
            scale=calibration if profile.threshold_scale == "calibrated" else RAW,
        ),
    )


def filtered(random: np.random.Generator, start: datetime) -> Filter:
    return Filter(
        tags=pick(random, (), ("red",)),
        kinds=pick(random, (), ("fact",)),
        tiers=pick(random, (), ("working", "semantic")),
        sessions=pick(random, (), (), ("s1", "s2")),
        fact_keys=pick(random, (), (), ("f1",)),
        since=pick(random, None, start),
        until=pick(random, None, start + timedelta(days=90)),
        level=pick(random, None, "global"),
    )


@contextmanager
def lowered(random: np.random.Generator):
    """Have the numbers from which a search takes another path be such that small stores meet each."""
    with ExitStack() as stack:
        for module, name, choices in (
            (search, "_UNPRUNED", (0, 0, 20)), (search, "_SCORED_FIRST", (1, 2)), (search, "_MARGIN", (0.5, 0.95, 1.0)),
            (search, "_BLOCKS", (2, 64)), (search, "_LEVELS", (4, 2048)), (search, "PRODUCTS", (8, 1 << 22)),
            (columns, "PRODUCTS", (8, 1 << 22)),
            (view, "_SPARSE", (0, 1, 8)), (bounds, "SPARE", (0, 1, 8)),
            (bounds, "WIDER", (1, 16)),
        ):  # fmt: skip
            stack.enter_context(patch.object(module, name, pick(random, *choices)))
        yield


def answer(store: Store, profile: Profile, asked: Asked, prunes: bool) -> tuple[Any, ...]:
    """Return all that an answer shows: ids, scores taken apart, what each hit absorbed, and whether it is exact."""
    ranked, need = recall_search(store.services(), profile, asked.query, asked.criteria, Clock(), prunes)
    batch = ranked.batch
    absorbed = {batch.ids[row]: batch.ids[list(rows)].tolist() for row, rows in ranked.absorbed.items()}
    return (
        batch.ids[ranked.rows].tolist(),
        details(ranked, ranked.rows),
        {id: absorbed[id] for id in batch.ids[ranked.rows] if id in absorbed},
        is_exact(ranked, need.pruning),
    )


def assert_it_is_that_of_all(store: Store, profile: Profile, asked: Asked) -> bool:
    """Assert all laws for one question; return whether some memory was left out."""
    whole = answer(store, profile, asked, prunes=False)
    assert whole[-1]
    assert answer(store, profile, asked, prunes=True) == whole
    need = asked.need(profile, prunes=True)
    return need.pruning is not None and assert_what_is_left_out_scores_less(store, profile, asked.criteria, need)


def assert_what_is_left_out_scores_less(store: Store, profile: Profile, criteria: Criteria, need: Need) -> bool:
    part, everything = store.gather(need), store.gather(replace(need, pruning=None))
    if part.floor is None:
        return False
    before = Trace.of(profile, everything, criteria).states[profile.stages.index("score") + 1]
    alive = before.dropped_at == ALIVE
    for unknown in {"similarity_floor", "shortlist"}.intersection(profile.stages):  # a store does not know these
        alive |= before.dropped_at == profile.stages.index(unknown)
    scores = before.first_pass if "shortlist" in profile.stages else before.scores
    rows = np.flatnonzero(np.isin(everything.ids, part.ids))
    assert everything.ids[rows].tolist() == part.ids.tolist()
    assert alive[rows].all()
    assert part.participants == alive.sum()
    assert_they_are_told_alike(part, everything.take(rows))
    alive[rows] = False
    embedded = part.columns.get("embedded", np.ones(1, np.bool_)).all()
    # else the period is empty, and other weights count
    weighs_alike = before.criteria.reading.intent == criteria.reading.intent
    assert not alive.any() or scores[alive].max() < part.floor or not embedded or not weighs_alike
    return bool(alive.any())


def assert_they_are_told_alike(part: Batch, same: Batch) -> None:
    """Both batches have the same columns, statistics and parts, bit for bit."""
    for name, column in part.columns.items():
        assert column.tobytes() == same[name].tobytes(), name
    for one, other in ((part.lexicon, same.lexicon), (part.windows, same.windows)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (one.documents, one.average_length) == (other.documents, other.average_length)
            assert one.document_frequency.tolist() == other.document_frequency.tolist()
            assert one.length.tolist() == other.length.tolist()
            for name in ("rows", "frequency", "offsets"):
                assert getattr(one.postings, name).tolist() == getattr(other.postings, name).tolist()
    everywhere = np.arange(len(part))
    if part.vectors is not None and same.vectors is not None:
        assert part.vectors.at(everywhere).tobytes() == same.vectors.at(everywhere).tobytes()
    if part.successors is not None and same.successors is not None:
        assert part.successors.tolist() == same.successors.tolist()
    if part.distinctions is not None and same.distinctions is not None:
        assert part.distinctions.values.tolist() == same.distinctions.values.tolist()
    if part.entities is not None and same.entities is not None:
        assert part.entities.of_query.tolist() == same.entities.of_query.tolist()
        assert part.entities.of_row.values.tolist() == same.entities.of_row.values.tolist()


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=max(1, STEPS // len(KERNELS)), suppress_health_check=list(HealthCheck))
@given(shape=SHAPES, seed=st.integers(0, 2**32 - 1))
def test_a_pruned_ranking_is_that_of_all_memories(kernel, shape, seed):
    random = np.random.default_rng(seed)
    with computed_by(kernel), lowered(random):
        store = filled(shape, random)
        for ranking in (*map(profiles.load, PRUNED), *(drawn(random) for _ in range(4))):
            assert_it_is_that_of_all(store, ranking, asked_for(random, ranking))


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=max(1, STEPS // len(KERNELS)), suppress_health_check=list(HealthCheck))
@given(shape=SHAPES, seed=st.integers(0, 2**32 - 1))
def test_the_nearest_are_brought_and_none_left_out_is_nearer_than_is_told(kernel, shape, seed):
    random = np.random.default_rng(seed)
    with computed_by(kernel), lowered(random):
        store, profile = filled(shape, random), profiles.load("mememory")
        for count in (0, 1, 2, 7, 30):
            asked = replace(asked_for(random, profile).need(profile), candidates=count)
            part, everything = store.gather(asked), store.gather(replace(asked, candidates=None))
            nearest = np.argsort(-everything["cosine"], kind="stable")[:count]
            wanted = np.union1d(nearest, np.flatnonzero(~everything["embedded"]))
            assert part.ids.tolist() == everything.ids[wanted].tolist()
            assert_they_are_told_alike(part, everything.take(wanted))
            left = np.delete(everything["cosine"], wanted)
            assert part.complete == (not len(left))
            assert part.beyond >= left.max(initial=-1.0)
            assert part.beyond <= left.max(initial=-1.0) + 0.05


def said(number: int, vector: np.ndarray | None = None, **values: Any) -> Any:
    """Return a memory of no words, with a vector of its own or a given one."""
    return stored(number, random_unit(number) if vector is None else vector, terms=values.pop("terms", ()), **values)


def holding(*items: Any, activations: Activations = Activations()) -> Store:
    rows = [{**of_stored(item, DIMENSION), "seq": 1} for item in items]
    index = Index.empty(DIMENSION)
    for row in rows:  # one by one, so that their slots are in this order, whatever their ids
        index = index.refreshed([tuple(row[name] for name in INDEXED)])
    return Store(index, activations)


def plain(profile: Profile, text: str = "?", filter: Filter = Filter(), **values: Any) -> Asked:
    """Return a query of a profile without terms, unless they are given."""
    calibration = values.setdefault("calibration", CALIBRATIONS[0])
    scale = calibration if profile.threshold_scale == "calibrated" else RAW
    found = criteria(**{"vector": unit(1), "every_term": tuple(text.split()), "scale": scale, **values})
    return Asked(Query(text=text, scope=Scope(), filter=filter), found)


LINE = Calibration((0.0, 1.0), (0.0, 1.0), 0.95, "test")
SALIENCE, ZEROMEMORY = profiles.load("salience"), profiles.load("zeromemory")
PRECISE = profiles.load("precise")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_named_speaker_of_whom_nothing_passes_the_filter_changes_nothing(kernel):
    with computed_by(kernel), patch.object(search, "_UNPRUNED", 0):
        told = [said(number, kind="rule") for number in range(600)]
        others = [said(number, speaker="Ann" if number % 2 else None) for number in range(600, 1800)]
        asked = plain(SALIENCE, first_person_vector=unit(0, 1), speakers=("ann",), filter=Filter(kinds=("rule",)))
        assert assert_it_is_that_of_all(holding(*told, *others), SALIENCE, asked)


def test_what_waits_for_its_vector_is_held_against_the_best_of_all_by_words():
    """Without windows, words stand in for a vector as a share of what they give the best, who is far from the query."""
    far = said(1, unit(-1), terms=("tea", "tea", "tea"))
    waiting = stored(2, None, terms=("tea", "cup", "set"))
    with patch.object(search, "_UNPRUNED", 0):
        store = holding(far, waiting, *(said(number, unit(1, number)) for number in range(3, 400)))
        asked = plain(ZEROMEMORY, "tea", min_score=None, limit=3)
        whole = answer(store, ZEROMEMORY, asked, prunes=False)
        assert answer(store, ZEROMEMORY, asked, prunes=True) == whole


def test_what_waits_for_its_vector_raises_no_floor():
    """It would count as near where its neighbour is, but words stand in; what scores less than that may be best."""
    lines = []
    for number in range(0, 40, 2):
        lines.append(said(number, unit(1), weight=0.1, session_id=f"s{number}", turn=1))
        lines.append(stored(number + 1, None, terms=(), session_id=f"s{number}", turn=2))
    some, far = said(40, unit(0.493, 0.87)), [said(number, unit(-1)) for number in range(41, 45)]
    asked = plain(PRECISE, "pot", terms=("pot",), calibration=LINE)
    with patch.object(search, "_UNPRUNED", 0), patch.object(search, "_SCORED_FIRST", 1):
        store = holding(*lines, some, *far)
        assert answer(store, PRECISE, asked, prunes=False)[0] == [id_of(40)]
        assert answer(store, PRECISE, asked, prunes=True)[0] == [id_of(40)]


def test_turns_are_told_whatever_the_order_in_which_memories_were_stored():
    text = 'name = "x"\nsummary = "x"\ncombine = "sum"\nstages = ["score", "trim"]\n'
    primed = parse(
        f'{text}[signal.similarity]\nweight = 0.1\n[signal.priming]\nboost = 1.0\ncombine = "product"\n', "x"
    )
    recalled = Activations(9, {id_of(number): 9 for number in range(0, 400, 37)})
    with patch.object(search, "_UNPRUNED", 0):
        items = [said(number, unit(1, number % 50)) for number in np.random.default_rng(2).permutation(400).tolist()]
        assert assert_it_is_that_of_all(holding(*items, activations=recalled), primed, plain(primed))


def test_what_has_the_content_is_looked_for_though_it_scores_less_than_those_whose_speaker_is_named():
    """Those whom the query names said nothing of it, which is an answer as long as somebody did."""
    named = [said(number, unit(0.25, 0.968), speaker="Ann") for number in range(300)]
    others = [said(number, unit(-1)) for number in range(300, 600)]
    asked = plain(PRECISE, speakers=("ann",), calibration=LINE)
    for cosine, count in ((0.2, 0), (0.4, 5)):
        store = holding(*named, *others, said(600, unit(cosine, 0.9)))
        assert len(answer(store, PRECISE, asked, prunes=False)[0]) == count
        assert len(answer(store, PRECISE, asked, prunes=True)[0]) == count
        assert assert_it_is_that_of_all(store, PRECISE, asked)
