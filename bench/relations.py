"""Fit the model of relations, src/salience/relations.npz, and measure it on worlds that it was not fitted on.

    python -m bench.relations measure       fitted on the fit halves; figures of the report halves
    python -m bench.relations fit           writes src/salience/relations.npz; fitted on the fit halves

The data are the pairs of `evaluate/data/everyday`, the worlds there and in bench/worlds, the pairs of
bench/relation_pairs.tsv, the stores of bench/relation_stores.tsv, by line and as notes of several lines, and the
statements of bench/update_statements.txt, from which `persona` makes stores. A pair of an older memory and a newer one
among its neighbours is positive if a question has the older one as outdated and the newer one as an answer, or if the
pair is labelled `replaces`. Repeat the fit when the features or the calibration of the default embedder change.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

import salience
from salience import relations, remember
from salience.evaluate.datasets import Conversation, everyday
from salience.evaluate.datasets.loader import document
from salience.ports import Services
from salience.records import Draft, Memory, Scope

Array = NDArray[Any]
HERE: Final = Path(__file__).parent
STORES: Final = HERE / "relation_stores.tsv"
"""Store, places of the older lines of the store that this line replaces, from 1, and text in each line; by hand."""
STATEMENTS: Final = HERE / "update_statements.txt"
PAIRS: Final = HERE / "relation_pairs.tsv"
"""Label, kind, older and newer text in each line, written by hand."""
MODEL: Final = Path(relations.__file__).with_name("relations.npz")
NOW: Final = datetime(2026, 11, 20, 18, tzinfo=UTC)
PERSONAS: Final = 24
"""Stores made from the statements."""
ATTRIBUTES: Final = 45
"""Attributes of a persona."""
NOTES: Final = 2
"""Stores of notes that are made from the lines of each store."""
MAX_LINES: Final = 3
"""Lines of a note."""
ALONE: Final = 0.5
"""Share of lines that begin a note."""
WEIGHTS: Final = {"world": 1.0, "store": 2.0, "note": 1.0, "persona": 0.3, "pair": 16.0, "written": 8.0}
TOGETHER: Final = 20
"""Pairs in one store."""
TREES: Final = 300
LEAVES: Final = 8
RATE: Final = 0.06
RIDGE: Final = 1.0
LEAST_IN_LEAF: Final = 10
THRESHOLDS: Final = (0.2, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True, slots=True)
class Example:
    """A pair with its features, whether the newer memory replaces the older one, the data it is of, and its kind."""

    row: list[float]
    replaces: bool
    source: str
    kind: str
    is_report: bool
    is_apart: bool


@dataclass(frozen=True, slots=True)
class Labelled:
    """Two memories, whether the newer one replaces the older one, and the kind of the pair."""

    older: Draft
    newer: Draft
    replaces: bool
    kind: str


# --- Statements ------------------------------------------------------------------------------------------------------

PEOPLE: Final = (("Mira", "her"), ("Paul", "his"), ("Yusuf", "his"), ("Hana", "her"), ("Oleg", "his"), ("Fatou", "her"))
_PAST: Final = frozenset(
    "moved left quit started gave took sold got bought switched retrained signed handed had lost changed stopped met "
    "saw spent painted rented closed cancelled stepped fell called missed found cooked ordered upgraded traded became "
    "need swapped broke wrote spilled watched worked tore sprained applied drew can will could".split()
)
_TEAM: Final = re.compile(r"\b(?:we|our|us)\b", re.IGNORECASE)
Lines = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Told:
    """A memory of a persona: its text, its age in days, its attribute, and "o", "n" or "m" as in the statements."""

    text: str
    days: float
    attribute: str
    role: str


def statements() -> tuple[dict[str, Lines], list[str]]:
    """Return the lines of each attribute by their letters, and the asides."""
    found: dict[str, Lines] = {}
    for line in STATEMENTS.read_text("utf-8").splitlines():
        if line.startswith("= "):
            lines = found[line[2:]] = defaultdict(list)
        elif line and not line.startswith("#"):
            lines[line[0]].append(line[2:])
    return found, found.pop("asides")["a"]


def of_person(text: str, name: str, her: str) -> str:
    """Return a text in the first person singular as one about a person; other texts as they are."""
    if _TEAM.search(text):
        return text
    text = text.replace("I'm", "I am").replace("I've", "I have").replace("I'd", "I would")
    for verb, other in (("do", "does"), ("am", "is"), ("did", "did"), ("was", "was"), ("have", "has")):
        text = re.sub(rf"\b{verb} I\b", f"{other} {name}", text)
    text = re.sub(r"\bI (\w+(?:'t)?)", lambda match: f"I {_third(match[1])}", text)
    pronouns = {"I": "she" if her == "her" else "he", "me": "her" if her == "her" else "him"}
    first = re.search(r"\b(?:I|[Mm]y)\b", text)
    if first:
        text = text[: first.start()] + (name if first[0] == "I" else f"{name}'s") + text[first.end() :]
    return re.sub(r"\b(?:I|me|[Mm]y)\b", lambda match: pronouns.get(match[0], her), text)


def _third(verb: str) -> str:
    irregular = {"am": "is", "have": "has", "do": "does", "don't": "doesn't"}
    if verb in irregular or verb in _PAST or verb.endswith("ed"):
        return irregular.get(verb, verb)
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "o")) else "s")


def persona(chance: random.Random) -> tuple[list[Told], list[tuple[str, str]]]:
    """Return the memories of a made-up person, in order, and questions with the attribute that they ask for."""
    attributes, asides = statements()
    person = None if chance.random() < 0.6 else chance.choice(PEOPLE)
    told: list[Told] = []
    questions: list[tuple[str, str]] = []
    for name in chance.sample(sorted(attributes), ATTRIBUTES):
        lines = attributes[name]
        old, new, *others = chance.sample(lines["v"][0].split("; "), len(lines["v"][0].split("; ")))

        def filled(text: str, old: str = old, new: str = new, others: Sequence[str] = others) -> str:
            return text.replace("{o}", old).replace("{n}", new).replace("{x}", chance.choice(others))

        def said(text: str) -> str:
            text = of_person(filled(text), *person) if person else filled(text)
            if chance.random() < 0.6:
                return text
            aside = chance.choice(asides)
            return f"{text.rstrip('.')}. {aside}" if chance.random() < 0.8 else f"{aside} {text}"

        start = chance.uniform(30, 200)
        told.append(Told(said(chance.choice(lines["o"])), start, name, "o"))
        if chance.random() < 0.65:
            again = chance.choice(lines["o"]).replace("{o}", "{n}")
            text = chance.choice(lines["n"]) if chance.random() < 0.8 else again
            told.append(Told(said(text), chance.uniform(1, start - 5), name, "n"))
        for text in chance.sample(lines["m"], min(len(lines["m"]), chance.choice([2, 3]))):
            days = chance.uniform(1, start) if chance.random() < 0.75 else chance.uniform(start, 250)
            told.append(Told(said(text), days, name, "m"))
        text = filled(chance.choice(lines["n"] + lines["o"]).replace("{n}", "{x}"))
        foreign = of_person(text, *chance.choice([one for one in PEOPLE if one != person]))
        if foreign != text and chance.random() < 0.5:
            told.append(Told(foreign, chance.uniform(1, start), name, "m"))
        for text in chance.sample(lines["q"], min(2, len(lines["q"]))):
            questions.append((of_person(filled(text), *person) if person else filled(text), name))
    once = {memory.text: memory for memory in told}
    return sorted(once.values(), key=lambda memory: -memory.days), questions


# --- Examples --------------------------------------------------------------------------------------------------------


def examples(services: Services) -> Iterator[Example]:
    """Yield the examples of all data."""
    for half in everyday.HALVES:
        for world in everyday.worlds(half):
            yield from of_world(services, world, half)
        pairs = [Labelled(one.older, one.newer, one.relation == "replaces", one.kind) for one in everyday.pairs(half)]
        yield from of_pairs(services, pairs, "pair", half == "report")
        for path in sorted((HERE / "worlds" / half).glob("*.json")):
            yield from of_world(services, next(everyday.read(path, document(path))), half)
    written = []
    for line in PAIRS.read_text("utf-8").splitlines():
        label, kind, *texts = line.split("\t")
        days = (NOW - timedelta(days=90), NOW - timedelta(days=89))
        older, newer = (Draft(content=text, created_at=at) for text, at in zip(texts, days, strict=True))
        written.append(Labelled(older, newer, label == "replaces", kind))
    yield from of_pairs(services, written, "written", False)
    stores: dict[str, list[tuple[str, str]]] = {}
    for line in STORES.read_text("utf-8").splitlines():
        name, replaced, content = line.split("\t")
        stores.setdefault(name, []).append((replaced, content))
    chance = random.Random(5)
    for lines in stores.values():
        yield from of_store(services, lines)
        for _ in range(NOTES):
            yield from of_notes(services, lines, chance)
    for _ in range(PERSONAS):
        yield from of_persona(services, *persona(chance))


def of_world(services: Services, world: Conversation, half: str) -> Iterator[Example]:
    """Yield each memory of a world beside its older neighbours."""
    drafts, place = [one.draft for one in world.beliefs], {one.ref: at for at, one in enumerate(world.beliefs)}
    right: set[tuple[int, int]] = set()
    unclear: set[tuple[int, int]] = set()
    for question in world.questions:
        if question.category == "past":
            continue
        for ref in question.outdated:
            newer = [place[one] for one in question.evidence if place[one] > place[ref]]
            right |= {(place[ref], one) for one in newer[:1]}
            unclear |= {(place[ref], one) for one in newer[1:]}
    right = _with_chains(right)
    yield from _of(services, drafts, right, unclear - right, "world", half == "report")


def _with_chains(right: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return pairs of an older and a newer place with those that lead from one to another over a third."""
    while more := {(one, last) for one, two in right for also, last in right if two == also} - right:
        right = right | more
    return right


def of_store(services: Services, lines: Sequence[tuple[str, str]]) -> Iterator[Example]:
    """Yield each line of a store beside its older neighbours."""
    yield from _of(services, _weekly([content for _, content in lines]), _replaced(lines), set(), "store", False)


def of_notes(services: Services, lines: Sequence[tuple[str, str]], chance: random.Random) -> Iterator[Example]:
    """Yield the lines of a store, up to three at a time as one note, each note beside its older neighbours.

    A note that replaces only some lines of an older one is left out: nobody can say whether it replaces that.
    """
    right = _replaced(lines)
    notes: list[list[int]] = []
    for place in range(len(lines)):
        is_new = not notes or len(notes[-1]) == MAX_LINES or any((one, place) in right for one in notes[-1])
        if is_new or chance.random() < ALONE:
            notes.append([])
        notes[-1].append(place)
    whole, part = set[tuple[int, int]](), set[tuple[int, int]]()
    for newer, mine in enumerate(notes):
        for older, theirs in enumerate(notes[:newer]):
            replaced = [one for one in theirs if any((one, place) in right for place in mine)]
            if replaced:
                (whole if replaced == theirs else part).add((older, newer))
    drafts = _weekly([". ".join(lines[place][1].rstrip(".") for place in note) for note in notes])
    yield from _of(services, drafts, whole, part, "note", False)


def _replaced(lines: Sequence[tuple[str, str]]) -> set[tuple[int, int]]:
    """Return the places of the lines of a store that are replaced, each with that of a line which replaces it."""
    named = [one.split(",") if one != "-" else [] for one, _ in lines]
    return _with_chains({(int(older) - 1, newer) for newer, found in enumerate(named) for older in found})


def _weekly(contents: Sequence[str]) -> list[Draft]:
    home, start = Scope(user_id="u"), NOW - timedelta(weeks=len(contents))
    return [
        Draft(content=content, created_at=start + timedelta(weeks=week), scope=home)
        for week, content in enumerate(contents)
    ]


def of_pairs(services: Services, pairs: Sequence[Labelled], source: str, is_report: bool) -> Iterator[Example]:
    """Yield each pair, in a store with the older memories of other pairs: a store holds more than two memories."""
    pairs = random.Random(7).sample(pairs, len(pairs))
    for start in range(0, len(pairs), TOGETHER):
        held = pairs[start : start + TOGETHER]
        drafts = [draft for one in held for draft in (one.older, one.newer)]
        memories = [remember.clean(services, draft, draft.created_at or NOW) for draft in drafts]
        vectors = np.asarray(services.embedder.embed([memory.content for memory in memories]))
        for place, one in enumerate(held):
            alike = vectors[::2] @ vectors[2 * place + 1]
            order = [other for other in np.argsort(-alike, kind="stable").tolist() if other != place]
            nearest = sorted([place, *order[: relations.NEAREST - 1]], key=lambda other: -alike[other])
            near: list[tuple[float, Memory]] = [(float(alike[other]), memories[2 * other]) for other in nearest]
            for pair in relations.compared(services.calibration, memories[2 * place + 1], near):
                if pair.older is memories[2 * place]:
                    yield Example(pair.row(), one.replaces, source, one.kind, is_report, pair.is_apart)


def of_persona(services: Services, told: Sequence[Told], _: object) -> Iterator[Example]:
    """Yield each memory of a persona beside its older neighbours."""
    home = Scope(user_id="u")
    drafts = [Draft(content=one.text, created_at=NOW - timedelta(days=one.days), scope=home) for one in told]
    right = {
        (older, newer)
        for newer, one in enumerate(told)
        for older, other in enumerate(told[:newer])
        if (other.role, one.role) == ("o", "n") and other.attribute == one.attribute
    }
    yield from _of(services, drafts, right, set(), "persona", False)


def _of(
    services: Services, drafts: Sequence[Draft], right: set[tuple[int, int]], unclear: set[tuple[int, int]],
    source: str, is_report: bool,
) -> Iterator[Example]:  # fmt: skip
    memories = [remember.clean(services, draft, draft.created_at or NOW) for draft in drafts]
    vectors = np.asarray(services.embedder.embed([memory.content for memory in memories]))
    for newer in range(1, len(memories)):
        alike = vectors[:newer] @ vectors[newer]
        nearest = np.argsort(-alike, kind="stable")[: relations.NEAREST].tolist()
        near: list[tuple[float, Memory]] = [(float(alike[place]), memories[place]) for place in nearest]
        for pair in relations.compared(services.calibration, memories[newer], near):
            older = next(place for place in nearest if memories[place] is pair.older)
            if (older, newer) not in unclear:
                yield Example(pair.row(), (older, newer) in right, source, source, is_report, pair.is_apart)


# --- The fit ---------------------------------------------------------------------------------------------------------


def fitted(found: Sequence[Example]) -> relations.Trees:
    """Return the trees fitted on examples."""
    rows = np.array([one.row for one in found], np.float32)
    model = HistGradientBoostingClassifier(
        max_iter=TREES, learning_rate=RATE, max_leaf_nodes=LEAVES, l2_regularization=RIDGE,
        min_samples_leaf=LEAST_IN_LEAF, early_stopping=False, random_state=0,
    )  # fmt: skip
    model.fit(rows, [one.replaces for one in found], sample_weight=[WEIGHTS[one.source] for one in found])
    nodes = [predictors[0].nodes for predictors in model._predictors]
    width = max(map(len, nodes))

    def column(name: str, dtype: Any, fill: float = 0) -> Array:
        filled = [np.concatenate((one[name], np.full(width - len(one), fill, one[name].dtype))) for one in nodes]
        return np.stack(filled).astype(dtype)

    is_leaf = column("is_leaf", np.bool_, 1)
    feature = np.where(is_leaf, -1, column("feature_idx", np.int16))
    return relations.Trees(
        feature.astype(np.int16), column("num_threshold", np.float32), column("left", np.int16),
        column("right", np.int16), np.where(is_leaf, column("value", np.float32), 0).astype(np.float32),
        float(np.ravel(model._baseline_prediction)[0]),
    )  # fmt: skip


def table(found: Sequence[Example], model: relations.Trees) -> Iterator[str]:
    """Yield lines with the share of pairs of each kind above each threshold, and the precision on worlds."""
    report = [one for one in found if one.is_report]
    chances = model.probabilities(np.array([one.row for one in report], np.float32))
    chances[[one.is_apart for one in report]] = 0.0
    labels = np.array([one.replaces for one in report])
    kinds = np.array([one.kind for one in report])
    for least in THRESHOLDS:
        taken = chances >= least
        cells = [f"{kind} {taken[kinds == kind].mean():.2f}" for kind in sorted(set(kinds)) if kind != "world"]
        worlds = kinds == "world"
        right, wrong = int((taken & worlds & labels).sum()), int((taken & worlds & ~labels).sum())
        recall = right / max(int((worlds & labels).sum()), 1)
        yield f"{least:.1f}  worlds: recall {recall:.2f}, right {right}, wrong {wrong}; {', '.join(cells)}"


app = typer.Typer(add_completion=False)


def _all() -> list[Example]:
    memory: Any = salience.connect(":memory:")
    with memory:
        return list(examples(memory.services))


@app.command()
def measure() -> None:
    """Fit on the fit halves and print figures of the report halves."""
    found = _all()
    for line in table(found, fitted([one for one in found if not one.is_report])):
        print(line)


@app.command()
def fit(path: Annotated[Path, typer.Argument()] = MODEL) -> None:
    """Fit on the fit halves and write the model."""
    found = _all()
    model = fitted([one for one in found if not one.is_report])
    arrays = {name: getattr(model, name) for name in ("feature", "threshold", "left", "right", "value")}
    np.savez_compressed(path, **arrays, base=np.float64(model.base))
    for line in table(found, model):
        print(line)


if __name__ == "__main__":
    app()
