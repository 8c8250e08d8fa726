"""Fit the model of updates, rank/updates.npz, and measure it on attributes and worlds that it was not fitted on.

    python -m bench.updates measure                                 four rounds, each with a quarter left out
    python -m bench.updates fit src/salience/rank/updates.npz       on everything

The data are the statements of bench/update_statements.txt, from which `persona` makes stores, and the worlds of
`evaluate/data/everyday/fit`. Each question is ranked as `recall` ranks it, up to the stage `update`. Pairs of an older
memory and a newer one are positive if the newer one makes the older one wrong for that question.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer
from numpy.typing import NDArray

import salience
from salience.batch import Embedding
from salience.evaluate.datasets import everyday
from salience.models.minilm import MiniLM
from salience.rank import profiles
from salience.rank.bounds import pruning
from salience.rank.run import advanced
from salience.rank.stages import State, within_reach
from salience.rank.update_model import FEATURES, features
from salience.recall import gather, make_need, with_vectors
from salience.records import Query, Scope

Array = NDArray[Any]
STATEMENTS: Final = Path(__file__).parent / "update_statements.txt"
NOW: Final = datetime(2026, 11, 20, 18, tzinfo=UTC)
PERSONAS: Final = 70
"""Stores made from the statements."""
ATTRIBUTES: Final = 45
"""Attributes of a persona."""
POOL: Final = 100
"""Best rows that are compared; the parameter `reach` of the stage."""
RANK: Final = 8
"""Columns of each pair of projections."""
ALONE: Final = 4
HIDDEN: Final = 16
EPOCHS: Final = 6
BATCH: Final = 2048
RATE: Final = 0.01
DECAY: Final = 1e-2
"""Decay of the projections; that of the hidden layer is 1e-4."""
WORLD: Final = 4.0
"""Weight of a pair of a world; a pair of a persona has 1, a positive pair `POSITIVE` times that."""
POSITIVE: Final = 5.0
ROUNDS: Final = 4
THRESHOLDS: Final = (0.5, 0.62, 0.73, 0.82, 0.88)
"""Least probabilities to measure."""

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


# --- Pairs -----------------------------------------------------------------------------------------------------------

Label = Callable[[int, int | None], bool | None]
"""(older, newer) -> whether the newer memory updates the older one; None: not said. With None as the newer one: whether
the older one states what the question asks for, now or before."""


@dataclass
class Pairs:
    """Pairs with what the model reads, one a row; `question` numbers the pairs (question, older memory)."""

    features: list[Array] = field(default_factory=list)
    vectors: list[tuple[Array, Array, Array]] = field(default_factory=list)
    positive: list[bool] = field(default_factory=list)
    scores: list[tuple[float, float]] = field(default_factory=list)
    question: list[int] = field(default_factory=list)
    asked: list[bool] = field(default_factory=list)
    near: list[bool] = field(default_factory=list)
    groups: list[frozenset[str]] = field(default_factory=list)
    gold: list[str] = field(default_factory=list)


class Kept:
    """The default embedder with its vectors kept, under its own name."""

    name, dimension = MiniLM.name, MiniLM.dimension

    def __init__(self) -> None:
        self._model, self._vectors = MiniLM(), dict[str, Array]()

    def embed(self, texts: Sequence[str], /) -> Array:
        """Return the vectors of texts."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        self._vectors.update(zip(new, self._model.embed(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])


def before_update(memory: Any, embedder: Kept, text: str, now: datetime) -> State:
    """Return the ranking before the stage `update`, with the memories that a later memory of the fact replaced."""
    profile, services = profiles.load("salience"), memory.services
    need, texts = make_need(services, profile, Query(text=text, scope=Scope(user_id="u"), now=now, limit=10), now)
    need = with_vectors(need, [Embedding(vector) for vector in embedder.embed(texts)])
    need = replace(need, pruning=pruning(profile, need))
    state = State.start(profile, gather(services, need, text), need)
    for step, name in enumerate(profile.stages):
        if name == "update":
            break
        if name != "outdated":
            state = advanced(state, step)
    return state


def collect(
    pairs: Pairs, state: State, numbers: dict[str, int], label: Label, names: Callable[[int, int], tuple[str, ...]],
    near: Callable[[int, int], bool], chance: random.Random, most: int,
) -> None:  # fmt: skip
    """Add the pairs of one question: all positive ones, and at most `most` others for each older memory."""
    batch, pool = state.batch, within_reach(state)[:POOL]
    memory = [numbers[one] for one in batch.ids[pool].tolist()]
    made = batch["created_at"][pool]
    for older in range(min(20, len(pool))):
        asked = label(memory[older], None) is True
        if not asked and older >= 4:
            continue
        newer = np.flatnonzero(made > made[older]).tolist()
        found = {place: label(memory[older], memory[place]) for place in newer}
        wrong = [place for place in newer if found[place] is False]
        count = most if asked else 5
        wrong = wrong[: count // 2] + chance.sample(
            wrong[count // 2 :], min(max(0, len(wrong) - count // 2), count // 2)
        )
        chosen = np.array([*(place for place in newer if found[place]), *wrong], np.intp)
        if not len(chosen):
            continue
        same = np.full(len(chosen), older)
        number = pairs.question[-1] + 1 if pairs.question else 0
        assert batch.vectors is not None
        assert state.need.vector is not None
        vectors = batch.vectors.at(pool)
        pairs.features.extend(features(batch, state.need, pool, same, chosen))
        for place in chosen.tolist():
            pairs.vectors.append((vectors[older], vectors[place], state.need.vector))
            pairs.positive.append(bool(found[place]))
            pairs.scores.append((float(state.scores[pool[older]]), float(state.scores[pool[place]])))
            pairs.question.append(number)
            pairs.asked.append(asked)
            pairs.near.append(near(memory[older], memory[place]))
            group = names(memory[older], memory[place])
            pairs.gold.append(group[0])
            pairs.groups.append(frozenset(group))


def of_personas(pairs: Pairs, embedder: Kept, chance: random.Random) -> None:
    """Add the pairs of `PERSONAS` personas."""
    for _ in range(PERSONAS):
        told, questions = persona(chance)
        with salience.connect(":memory:", embedder=embedder) as memory:
            receipts = memory.remember_many(
                {"content": one.text, "created_at": NOW - timedelta(days=one.days), "user_id": "u"} for one in told
            )
            numbers = {receipt.memory.id: number for number, receipt in enumerate(receipts)}
            for text, attribute in questions:

                def label(older: int, newer: int | None, attribute: str = attribute) -> bool | None:
                    one = told[older]  # noqa: B023 - used in this round only
                    if newer is None:
                        return one.attribute == attribute and one.role == "o"
                    other = told[newer]  # noqa: B023
                    if other.role == "n" and other.attribute == attribute:
                        return True if one.role == "o" and one.attribute == attribute else None
                    return None if other.role == "n" and one.attribute == other.attribute else False

                def near(older: int, newer: int, attribute: str = attribute) -> bool:
                    one, other = told[older], told[newer]  # noqa: B023
                    return one.role == "o" and other.role == "m" and one.attribute == other.attribute == attribute

                def names(older: int, newer: int, attribute: str = attribute) -> tuple[str, ...]:
                    return told[older].attribute, told[newer].attribute, attribute  # noqa: B023

                state = before_update(memory, embedder, text, NOW)
                collect(pairs, state, numbers, label, names, near, chance, 30)


def of_worlds(pairs: Pairs, embedder: Kept, chance: random.Random) -> None:
    """Add the pairs of the everyday worlds in English."""
    for world in everyday.worlds("fit"):
        if world.name.startswith("polyglot"):
            continue
        refs = [belief.ref for belief in world.beliefs]
        with salience.connect(":memory:", embedder=embedder) as memory:
            drafts = [replace(belief.draft, scope=Scope(user_id="u")) for belief in world.beliefs]
            receipts = memory.remember_many(drafts)
            numbers = {receipt.memory.id: number for number, receipt in enumerate(receipts)}
            for question in world.questions:
                if question.category == "past" or not question.answerable:
                    continue
                answers = {refs.index(ref) for ref in question.evidence}
                outdated = {refs.index(ref) for ref in question.outdated}

                def label(
                    older: int, newer: int | None, answers: set[int] = answers, outdated: set[int] = outdated
                ) -> bool | None:
                    if newer is None:
                        return older in outdated | answers
                    if newer in answers:
                        return True if older in outdated else None
                    return None if older in outdated and newer in outdated else False

                def names(older: int, newer: int, name: str = f"world {world.name}") -> tuple[str, ...]:
                    return (name,)

                assert question.now is not None
                state = before_update(memory, embedder, question.question, question.now)
                collect(pairs, state, numbers, label, names, lambda older, newer: False, chance, 60)


def collected() -> Pairs:
    """Return the pairs of personas and worlds; the same in every run."""
    pairs, embedder, chance = Pairs(), Kept(), random.Random(7)
    of_personas(pairs, embedder, chance)
    of_worlds(pairs, embedder, chance)
    return pairs


# --- The network -----------------------------------------------------------------------------------------------------

Weights = dict[str, Array]


def start(chance: np.random.Generator, dimension: int) -> Weights:
    """Return the weights before the first step."""
    features, inputs = len(FEATURES), len(FEATURES) + 2 * RANK + 3 * ALONE
    alike, fits = (chance.normal(0, 0.7, (dimension, RANK)) for _ in range(2))
    direct = np.zeros(inputs)
    direct[features : features + 2 * RANK] = 0.3
    weights = {
        "alike": np.stack([alike, alike]),
        "fits": np.stack([fits, fits]),
        "alone": chance.normal(0, 0.05, (3, dimension, ALONE)),
        "hidden": chance.normal(0, 1, (inputs, HIDDEN)) / np.sqrt(inputs),
        "hidden_bias": np.zeros(HIDDEN),
        "direct": direct,
        "output": chance.normal(0, 1, HIDDEN) / np.sqrt(HIDDEN),
        "bias": np.zeros(1),
    }
    return {name: weight.astype(np.float32) for name, weight in weights.items()}


def logits(weights: Weights, known: Array, vectors: Array) -> tuple[Array, Array, Array, list[Array]]:
    """Return the logits, the values of the hidden layer, its input, and the projections.

    Args:
        weights: of the network.
        known: float32[p, f], the features.
        vectors: float32[3, p, d], of the older memory, the newer one, and the query.
    """
    older, newer, query = vectors
    sides = [
        older @ weights["alike"][0], newer @ weights["alike"][1], query @ weights["fits"][0], newer @ weights["fits"][1]
    ]  # fmt: skip
    alone = [vector @ weight for vector, weight in zip(vectors, weights["alone"], strict=True)]
    inputs = np.hstack([known, sides[0] * sides[1], sides[2] * sides[3], *alone])
    hidden = np.tanh(inputs @ weights["hidden"] + weights["hidden_bias"])
    return hidden @ weights["output"] + inputs @ weights["direct"] + weights["bias"], hidden, inputs, sides


def gradients(weights: Weights, known: Array, vectors: Array, positive: Array, weight: Array) -> Weights:
    """Return the gradients of the weighted mean cross entropy."""
    older, newer, query = vectors
    found, hidden, inputs, sides = logits(weights, known, vectors)
    error = ((1 / (1 + np.exp(-found)) - positive) * weight / weight.sum()).astype(np.float32)
    into = (error[:, None] * weights["output"]) * (1 - hidden**2)
    back = into @ weights["hidden"].T + error[:, None] * weights["direct"]
    alike, fits, *alone = np.split(
        back[:, known.shape[1] :], [RANK, 2 * RANK, 2 * RANK + ALONE, 2 * RANK + 2 * ALONE], axis=1
    )
    return {
        "alike": np.stack([older.T @ (alike * sides[1]), newer.T @ (alike * sides[0])]),
        "fits": np.stack([query.T @ (fits * sides[3]), newer.T @ (fits * sides[2])]),
        "alone": np.stack([vector.T @ part for vector, part in zip(vectors, alone, strict=True)]),
        "hidden": inputs.T @ into,
        "hidden_bias": into.sum(axis=0),
        "direct": inputs.T @ error,
        "output": hidden.T @ error,
        "bias": error.sum(keepdims=True),
    }


def fit(known: Array, vectors: Array, positive: Array, weight: Array, seed: int = 0) -> Weights:
    """Return the weights after `EPOCHS` epochs of Adam, for features as `FEATURES` gives them."""
    chance = np.random.default_rng(seed)
    mean, spread = known.mean(axis=0), known.std(axis=0) + 1e-6
    known = (known - mean) / spread
    weights = start(chance, vectors.shape[2])
    first = {name: np.zeros_like(value) for name, value in weights.items()}
    second = {name: np.zeros_like(value) for name, value in weights.items()}
    steps = EPOCHS * -(-len(known) // BATCH)
    step = 0
    for _ in range(EPOCHS):
        order = chance.permutation(len(known))
        for at in range(0, len(order), BATCH):
            rows = order[at : at + BATCH]
            step += 1
            found = gradients(weights, known[rows], vectors[:, rows], positive[rows], weight[rows])
            for name, gradient in found.items():
                gradient = gradient + (DECAY if name in ("alike", "fits", "alone") else 1e-4) * weights[name]
                first[name] = 0.9 * first[name] + 0.1 * gradient
                second[name] = 0.999 * second[name] + 0.001 * gradient**2
                size = RATE * (1 - step / (steps + 1)) / (1 - 0.9**step)
                weights[name] -= size * first[name] / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
    count = known.shape[1]  # the scales of the features go into the weights
    weights["hidden_bias"] = weights["hidden_bias"] - (mean / spread) @ weights["hidden"][:count]
    weights["bias"] = weights["bias"] - (mean / spread) @ weights["direct"][:count]
    weights["hidden"][:count] /= spread[:, None]
    weights["direct"][:count] /= spread
    return weights


# --- Commands --------------------------------------------------------------------------------------------------------

app = typer.Typer(add_completion=False)


def arrays(pairs: Pairs) -> tuple[Array, Array, Array, Array]:
    """Return the features, the vectors, whether each pair is positive, and its weight."""
    known, positive = np.stack(pairs.features), np.array(pairs.positive, np.float32)
    vectors = np.stack([np.stack(column) for column in zip(*pairs.vectors, strict=True)])
    is_world = np.array([gold.startswith("world ") for gold in pairs.gold])
    weight = np.where(positive > 0, POSITIVE, 1.0) * np.where(is_world, WORLD, 1.0)
    return known, vectors, positive, weight.astype(np.float32)


@app.command()
def measure() -> None:
    """Print the rates on attributes and worlds that the model was not fitted on."""
    pairs = collected()
    known, vectors, positive, weight = arrays(pairs)
    groups = sorted({group for names in pairs.groups for group in names if not group.startswith("world ")})
    random.Random(1).shuffle(groups)
    groups += sorted({gold for gold in pairs.gold if gold.startswith("world ")})
    number = {group: place % ROUNDS for place, group in enumerate(groups)}
    chances = np.empty(len(positive))
    for held_out in range(ROUNDS):
        fitted = np.array([all(number[group] != held_out for group in names) for names in pairs.groups])
        test = np.array([number[gold] == held_out for gold in pairs.gold])
        weights = fit(known[fitted], vectors[:, fitted], positive[fitted], weight[fitted])
        chances[test] = 1 / (1 + np.exp(-logits(weights, known[test], vectors[:, test])[0]))
    is_world = np.array([gold.startswith("world ") for gold in pairs.gold])
    scores, asked, near = np.array(pairs.scores), np.array(pairs.asked), np.array(pairs.near)
    first, question = scores[:, 1] > scores[:, 0], np.array(pairs.question)
    print("least probability | pairs | newer first before, after | near misses lifted | questions with a false lift")
    for least in THRESHOLDS:
        lifted = chances >= least
        for name, chosen in (("statements", ~is_world), ("worlds", is_world)):
            updates = chosen & asked & (positive > 0)
            changed = np.isin(question, question[updates])
            still = chosen & asked & ~changed
            false = np.unique(question[still & lifted & ~first])
            missed = near & chosen if near[chosen].any() else still
            print(
                f"{least:.2f} | {name} | {first[updates].mean():.3f}, {(first | lifted)[updates].mean():.3f} | "
                f"{(lifted & ~first)[missed].mean():.4f} | {len(false) / len(np.unique(question[still])):.3f}"
            )


@app.command("fit")
def write(path: Annotated[Path, typer.Argument(help="The file to write.")]) -> None:
    """Fit the model on all pairs and write it."""
    weights = fit(*arrays(collected()))
    held: dict[str, Any] = {name: weight.astype(np.float16) for name, weight in weights.items()}
    np.savez_compressed(path, embedder=MiniLM.name, **held)


if __name__ == "__main__":
    app()
