"""Fit the model of updates, rank/updates.npz, and measure it on attributes and worlds that it was not fitted on.

    python -m bench.updates measure                                 fitted without a quarter of the attributes
    python -m bench.updates fit src/salience/rank/updates.npz       on all attributes, a few minutes; needs PyTorch

The data are the statements of bench/update_statements.txt, from which `persona` makes stores, the worlds of
`evaluate/data/everyday/fit`, and those of bench/worlds/fit. Both commands leave out bench/worlds/report. Each question
is ranked as `recall` ranks it, up to the stage `update`. Pairs of an older memory and a newer one are positive if the
newer one makes the older one wrong for that question. Repeat the fit when the token vectors change.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from torch import nn

import salience
from salience.batch import Embedding, Tokens
from salience.evaluate.datasets import Conversation, everyday
from salience.evaluate.datasets.loader import document
from salience.models.minilm import TOKEN_SIZE, MiniLM
from salience.rank import profiles
from salience.rank.bounds import pruning
from salience.rank.run import advanced
from salience.rank.stages import State
from salience.rank.update_model import CONTEXT, FAR, MAX_TOKENS, candidates, context, padded
from salience.recall import gather, make_need, token_reader, with_vectors
from salience.records import Query, Scope

Array = NDArray[Any]
HERE: Final = Path(__file__).parent
STATEMENTS: Final = HERE / "update_statements.txt"
NOW: Final = datetime(2026, 11, 20, 18, tzinfo=UTC)
PERSONAS: Final = 40
"""Stores made from the statements."""
ATTRIBUTES: Final = 45
"""Attributes of a persona."""
POOL: Final = 40
"""Best rows that are compared; the parameter `reach` of the stage."""
OLDER: Final = 20
"""Best rows that are the older one of a positive pair."""
WRONG: Final = (6, 4, 4, 1, 1, 1, 1, 1)
"""Negative pairs of each of the best rows as the older one."""
NEAR: Final = 6
"""Newer memories from which negative pairs of an older one are drawn: the nearest."""
COMPARED_OLDER: Final = 6
"""Best rows that a recall compares with newer ones; the parameter `top` of the stage."""
FOUND: Final = 32
"""Columns of the projections by which tokens find each other."""
COMPARED: Final = 64
"""Columns of a comparison."""
HIDDEN: Final = 48
EPOCHS: Final = 4
BATCH: Final = 256
RATE: Final = 2e-3
DECAY: Final = 0.02
DROPOUT: Final = 0.2
TOKENS_OFF: Final = 0.1
"""Share of the tokens that a step of the fit leaves out."""
WORLD: Final = 2.0
"""Weight of a pair of a world; a pair of a persona has 1, a positive pair `POSITIVE` times that."""
POSITIVE: Final = 3.0
UNASKED: Final = 0.3
"""Weight of a positive pair of another attribute than the question's."""
THRESHOLDS: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
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

Label = Callable[[int, int], tuple[bool, float] | None]
"""(older, newer), places in a store -> whether the newer memory updates the older one for the question, and the weight
of the pair; None: not said."""


@dataclass
class Pairs:
    """Pairs with what the model reads, one a row.

    Attributes:
        tokens: text -> its place and token vectors.
        texts: places of the texts of the query, the older memory, and the newer one.
        known: of `context`.
        positive, weight: as `Label` gives them; the weight is 0 for pairs that are measured only.
        groups: attributes of the pair and the question, or the name of the world; the question's own comes first.
        question: number of the question and the older memory.
        asked: whether the question asks for the older memory or its update.
        compared: whether a recall compares the two.
        before: whether the newer one is first without the model.
    """

    tokens: dict[str, tuple[int, Tokens]] = field(default_factory=dict)
    texts: list[tuple[int, int, int]] = field(default_factory=list)
    known: list[Array] = field(default_factory=list)
    positive: list[bool] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    groups: list[tuple[str, ...]] = field(default_factory=list)
    question: list[int] = field(default_factory=list)
    asked: list[bool] = field(default_factory=list)
    compared: list[bool] = field(default_factory=list)
    before: list[bool] = field(default_factory=list)


class Kept:
    """The default embedder with its vectors kept, under its own name."""

    name, dimension, token_size = MiniLM.name, MiniLM.dimension, TOKEN_SIZE

    def __init__(self) -> None:
        self._model, self._vectors = MiniLM(), dict[str, tuple[Array, Tokens]]()

    def embed(self, texts: Sequence[str], /) -> Array:
        """Return the vectors of texts."""
        return self.embed_tokens(texts)[0]

    def embed_tokens(self, texts: Sequence[str], /) -> tuple[Array, list[Tokens]]:
        """Return the vectors and the token vectors of texts."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, zip(*self._model.embed_tokens(new), strict=True), strict=True))
        vectors, tokens = zip(*[self._vectors[text] for text in texts], strict=True)
        return np.stack(vectors), list(tokens)


def before_update(memory: Any, embedder: Kept, text: str, now: datetime) -> State:
    """Return the ranking before the stage `update`, with the memories that a later memory of the fact replaced."""
    profile, services = profiles.load("salience"), memory.services
    need, texts = make_need(services, profile, Query(text=text, scope=Scope(user_id="u"), now=now, limit=10), now)
    need = with_vectors(need, [Embedding(*one) for one in zip(*embedder.embed_tokens(texts), strict=True)])
    need = replace(need, pruning=pruning(profile, need))
    state = State.start(profile, gather(services, need, text), need, token_reader(services, need))
    for step, name in enumerate(profile.stages):
        if name == "update":
            break
        if name != "outdated":
            state = advanced(state, step)
    return state


def collect(
    pairs: Pairs, embedder: Kept, memory: Any, texts: Sequence[str], numbers: dict[str, int],
    query: tuple[str, datetime], label: Label, groups: Callable[[int, int], tuple[str, ...]], wanted: set[int],
    chance: random.Random,
) -> None:  # fmt: skip
    """Add the pairs of one question: those that a recall compares, and all positive ones."""
    state = before_update(memory, embedder, *query)
    if state.need.tense == "former":
        return
    batch, pool = state.batch, state.rows[:POOL]
    place = [numbers[one] for one in batch.ids[pool].tolist()]
    compared = set(zip(*[places.tolist() for places in candidates(batch, pool, COMPARED_OLDER)], strict=True))
    near = set(zip(*[places.tolist() for places in candidates(batch, pool, len(WRONG), nearest=NEAR)], strict=True))
    made, scores = batch["created_at"][pool], state.scores[pool]
    found: dict[tuple[int, int], tuple[bool, float]] = {}
    for one in range(min(OLDER, len(pool))):
        labels = {other: label(place[one], place[other]) for other in np.flatnonzero(made > made[one]).tolist()}
        right = [other for other, given in labels.items() if given and given[0]]
        wrong = [other for other, given in labels.items() if given and not given[0] and (one, other) in near]
        fitted = chance.sample(wrong, min(len(wrong), WRONG[one])) if one < len(WRONG) else []
        found |= {(one, other): (True, labels[other][1]) for other in right}  # type: ignore[index]
        found |= {(one, other): (False, labels[other][1] if other in fitted else 0.0) for other in wrong}  # type: ignore[index]
    if not found:
        return
    older, newer = np.array(list(found)).T
    known, number = context(batch, pool, older, newer), (pairs.question[-1] if pairs.question else 0) + OLDER
    for (one, other), row in zip(found, known, strict=True):
        spoken = query[0], texts[place[one]], texts[place[other]]
        for text, tokens in zip(spoken, embedder.embed_tokens(spoken)[1], strict=True):
            pairs.tokens.setdefault(text, (len(pairs.tokens), tokens))
        pairs.texts.append(tuple([pairs.tokens[text][0] for text in spoken]))  # type: ignore[arg-type]
        pairs.known.append(row)
        positive, weight = found[one, other]
        pairs.positive.append(positive)
        pairs.weight.append(weight)
        pairs.groups.append(groups(place[one], place[other]))
        pairs.question.append(number + one)
        pairs.asked.append(place[one] in wanted)
        pairs.compared.append((one, other) in compared)
        pairs.before.append(bool(scores[other] > scores[one]))


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

                def label(
                    older: int, newer: int, told: list[Told] = told, attribute: str = attribute
                ) -> tuple[bool, float] | None:
                    one, other = told[older], told[newer]
                    if other.role == "n" and one.attribute == other.attribute:
                        asked = one.attribute == attribute
                        return (True, 1.0 if asked else UNASKED) if one.role == "o" else None if asked else (False, 1.0)
                    return False, 1.0

                def groups(
                    older: int, newer: int, told: list[Told] = told, attribute: str = attribute
                ) -> tuple[str, ...]:
                    return attribute, told[older].attribute, told[newer].attribute

                wanted = {place for place, one in enumerate(told) if one.attribute == attribute and one.role == "o"}
                texts = [one.text for one in told]
                collect(pairs, embedder, memory, texts, numbers, (text, NOW), label, groups, wanted, chance)


def of_worlds(pairs: Pairs, embedder: Kept, chance: random.Random, worlds: Iterable[Conversation]) -> None:
    """Add the pairs of worlds."""
    for world in worlds:
        refs = [belief.ref for belief in world.beliefs]
        texts = [belief.draft.content for belief in world.beliefs]
        asked = [one for one in world.questions if one.category != "past" and one.answerable]
        places = [({*map(refs.index, one.evidence)}, {*map(refs.index, one.outdated)}) for one in asked]
        known = {(one, other) for right, old in places for one in old for other in right | old}
        with salience.connect(":memory:", embedder=embedder) as memory:
            drafts = [replace(belief.draft, scope=Scope(user_id="u")) for belief in world.beliefs]
            numbers = {one.memory.id: number for number, one in enumerate(memory.remember_many(drafts))}
            for question, (answers, outdated) in zip(asked, places, strict=True):

                def label(
                    older: int, newer: int, answers: set[int] = answers, outdated: set[int] = outdated,
                    known: set[tuple[int, int]] = known,
                ) -> tuple[bool, float] | None:  # fmt: skip
                    if older in outdated and newer in answers:
                        return True, WORLD
                    if older in outdated and newer in outdated:
                        return None
                    return None if (older, newer) in known and older not in answers else (False, WORLD)

                def groups(older: int, newer: int, name: str = f"world {world.name}") -> tuple[str, ...]:
                    return (name,)

                assert question.now is not None
                query = question.question, question.now
                collect(pairs, embedder, memory, texts, numbers, query, label, groups, answers | outdated, chance)


def worlds(half: everyday.Half) -> list[Conversation]:
    """Return the worlds of bench/worlds of one half; for `fit`, those of the package too."""
    paths = sorted((HERE / "worlds" / half).glob("*.json"))
    own = [next(everyday.read(path, document(path))) for path in paths]
    return [*everyday.worlds("fit"), *own] if half == "fit" else own


# --- The network -----------------------------------------------------------------------------------------------------


class Network(nn.Module):  # type: ignore[misc]
    """`UpdateModel` in PyTorch, with the same names of weights."""

    def __init__(self) -> None:
        super().__init__()

        def normal(*shape: int, scale: float = 1.0) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape) * scale / shape[-2] ** 0.5)

        side = (2, TOKEN_SIZE, COMPARED)
        self.find = nn.Parameter(torch.stack([torch.eye(TOKEN_SIZE)[:, :FOUND]] * 3) * 1.1)
        self.sharpness = nn.Parameter(torch.tensor([5.0, 8.0]))
        self.own, self.other, self.both = normal(*side, scale=3), normal(*side, scale=3), normal(*side, scale=9)
        self.asked, self.both_asked = normal(*side, scale=1.5), normal(*side, scale=4.5)
        self.found, self.bias = normal(2, 3, COMPARED), nn.Parameter(torch.zeros(2, COMPARED))
        self.hidden = normal(4 * COMPARED + len(CONTEXT), HIDDEN)
        self.hidden_bias = nn.Parameter(torch.zeros(HIDDEN))
        self.output = nn.Parameter(torch.randn(HIDDEN) / HIDDEN**0.5)
        self.output_bias = nn.Parameter(torch.tensor(-1.0))
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, words: Sequence[torch.Tensor], held: Sequence[torch.Tensor], known: torch.Tensor) -> torch.Tensor:
        """Return the logits of pairs.

        Args:
            words: unit token vectors of the query, the older memory, and the newer one, each [p, l, d].
            held: which places hold a token, each bool[p, l].
            known: [p, len(CONTEXT)].
        """
        query, older, newer = words
        near = (older @ self.find[1]) @ (newer @ self.find[2]).transpose(1, 2)
        pooled = []
        for side, (own, other, likeness) in enumerate(((1, 2, near), (2, 1, near.transpose(1, 2)))):
            to_query = (words[own] @ self.find[0]) @ (query @ self.find[0]).transpose(1, 2)
            to_query = to_query.masked_fill(~held[0][:, None], float(FAR))
            wanted = (to_query * self.sharpness[0]).softmax(-1) @ query
            likeness = likeness.masked_fill(~held[other][:, None], float(FAR))
            seen = (likeness * self.sharpness[1]).softmax(-1) @ words[other]
            by_query, by_other = to_query.amax(2), likeness.amax(2)
            text = self.drop(words[own])
            compared = text @ self.own[side] + seen @ self.other[side] + (text * seen) @ self.both[side]
            compared = compared + wanted @ self.asked[side] + (wanted * text) @ self.both_asked[side]
            greatest = torch.stack((by_query, by_other, by_query * by_other), 2)
            compared = torch.relu(compared + greatest @ self.found[side] + self.bias[side]) * held[own][..., None]
            pooled += [compared.sum(1) / held[own].sum(1, keepdim=True), compared.amax(1)]
        inputs = self.drop(torch.cat([*pooled, known], 1))
        return torch.relu(inputs @ self.hidden + self.hidden_bias) @ self.output + self.output_bias


class Rows:
    """Pairs as tensors."""

    def __init__(self, pairs: Pairs) -> None:
        words, held = padded([tokens[:MAX_TOKENS] for _, tokens in pairs.tokens.values()])
        self.words, self.held = torch.from_numpy(words), torch.from_numpy(held)
        self.texts, self.known = torch.tensor(pairs.texts), torch.from_numpy(np.stack(pairs.known))
        self.length = self.held.sum(1).numpy()[np.array(pairs.texts)[:, 1:]].sum(axis=1)

    def logits(self, network: Network, rows: Array, off: float = 0.0) -> torch.Tensor:
        """Return the logits of pairs; `off` is the share of tokens to leave out."""
        words, held = [], []
        for text in self.texts[rows].T:
            has = self.held[text]
            has = has[:, : int(has.sum(1).max())]
            words.append(self.words[text, : has.shape[1]])
            kept = has & (torch.rand(has.shape) >= off)
            held.append(torch.where(kept.any(1, keepdim=True), kept, has))
        found: torch.Tensor = network(words, held, self.known[rows])
        return found


def fitted(rows: Rows, positive: Array, weight: Array, seed: int = 0) -> Network:
    """Return the mean of the weights over the second half of `EPOCHS` epochs of AdamW."""
    torch.manual_seed(seed)
    chance, network = np.random.default_rng(seed), Network()
    used = np.flatnonzero(weight > 0)
    weights = torch.from_numpy((weight * np.where(positive, POSITIVE, 1.0) / weight[used].mean()).astype(np.float32))
    truth = torch.from_numpy(positive.astype(np.float32))
    steps, step = EPOCHS * -(-len(used) // BATCH), 0
    optimiser = torch.optim.AdamW(network.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, step / 100) * max(0.02, 1 - step / (steps + 1))
    )
    mean = torch.optim.swa_utils.AveragedModel(network, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.995))
    for _ in range(EPOCHS):
        order = chance.permutation(used)
        blocks = np.array_split(order, max(1, len(order) // (32 * BATCH)))  # texts of like length together are fast
        sorted_blocks = [block[np.argsort(rows.length[block], kind="stable")] for block in blocks]
        batches = [block[at : at + BATCH] for block in sorted_blocks for at in range(0, len(block), BATCH)]
        for place in chance.permutation(len(batches)).tolist():
            batch = batches[place]
            loss = nn.functional.binary_cross_entropy_with_logits(
                rows.logits(network, batch, TOKENS_OFF), truth[batch], weights[batch]
            )
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            step += 1
            if step > steps // 2:
                mean.update_parameters(network)
    found: Network = mean.module.eval()
    return found


# --- Commands --------------------------------------------------------------------------------------------------------

app = typer.Typer(add_completion=False)


def collected(*halves: everyday.Half) -> Pairs:
    """Return the pairs of personas and of the worlds of some halves; the same in every run."""
    pairs, embedder, chance = Pairs(), Kept(), random.Random(7)
    of_personas(pairs, embedder, chance)
    for half in halves:
        of_worlds(pairs, embedder, chance, worlds(half))
    return pairs


@app.command()
def measure() -> None:
    """Print the rates on attributes and worlds that the model was not fitted on."""
    pairs = collected("fit", "report")
    rows, positive, weight = Rows(pairs), np.array(pairs.positive), np.array(pairs.weight)
    attributes = sorted({name for names in pairs.groups for name in names if not name.startswith("world ")})
    left_out = {*random.Random(1).sample(attributes, len(attributes) // 4)}
    left_out |= {f"world {world.name}" for world in worlds("report")}
    network = fitted(rows, positive, np.where([left_out.isdisjoint(names) for names in pairs.groups], weight, 0.0))
    test = np.array([names[0] in left_out for names in pairs.groups]) & np.array(pairs.asked)
    chances = np.zeros(len(test))
    with torch.no_grad():
        for part in np.array_split(np.flatnonzero(test), 100):
            chances[part] = torch.sigmoid(rows.logits(network, part)).numpy()
    chances[~np.array(pairs.compared)] = 0.0
    is_world = np.array([names[0].startswith("world ") for names in pairs.groups])
    question, before = np.array(pairs.question), np.array(pairs.before)
    print("least probability | pairs | newer first before, after | questions without a change, moved")
    for least in THRESHOLDS:
        for name, chosen in (("statements", test & ~is_world), ("worlds", test & is_world)):
            updates, lifted = chosen & positive, chances >= least
            still = chosen & ~np.isin(question, question[updates])
            false = len(np.unique(question[still & lifted & ~before])) / len(np.unique(question[still]))
            print(
                f"{least:.2f} | {name} | {before[updates].mean():.3f}, {(before | lifted)[updates].mean():.3f} | "
                f"{false:.3f}"
            )


@app.command("fit")
def write(path: Annotated[Path, typer.Argument(help="The file to write.")]) -> None:
    """Fit the model on all pairs but those of bench/worlds/report, and write it."""
    pairs = collected("fit")
    network = fitted(Rows(pairs), np.array(pairs.positive), np.array(pairs.weight))
    held: dict[str, Any] = {name: value.numpy().astype(np.float16) for name, value in network.state_dict().items()}
    np.savez_compressed(path, embedder=MiniLM.name, **held)


if __name__ == "__main__":
    app()
