"""Fit the confidence of hits: prints docs/figures/confidence.md, and writes the fitted tables into the profiles.

    python -m bench.confidence [--keep] FOLDER > docs/figures/confidence.md

With `--keep` the profiles keep their numbers, and only the report half is asked. FOLDER has `locomo/` and `beam/`; the
everyday worlds are part of the package. The features are those that the `[confidence]` table of a profile names. To try
others, edit its weights and run the program again.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from bench.page import table
from bench.rates import Mask, Rate
from salience import recall as recalls
from salience import settings
from salience.batch import Floats
from salience.evaluate import datasets
from salience.evaluate.datasets import Conversation, Question, everyday
from salience.evaluate.run import foreign
from salience.evaluate.stores import ConversationStore, cache_folder, opened
from salience.models import registry
from salience.ports import EDGE, Embedder
from salience.rank import profiles
from salience.rank.confidence import Model, features
from salience.rank.profile import Profile
from salience.rank.stages import State
from salience.records import Query, Scope

Half = Literal["fit", "report"]
PROFILES: Final = ("salience", "precise")
FOLDER: Final = Path(profiles.__file__).parent
LIMIT: Final = 5
"""Hits per question, the default limit of the profiles."""
FOREIGNERS: Final = 250
BINS: Final = 10
MOST_WRONG: Final = 0.1
"""Share of the unanswerable everyday questions of the fit half that may be confident; see `threshold`."""
RIDGE: Final = 1e-4
FIXED: Final[Mapping[str, float]] = {"question": -3.0, "another": -3.0, "other_name": -0.75, "lacking": -2.5}
"""Weights that no set can tell: a stored question, or a memory of another thing, is never the sure answer."""
FIT: Final[Mapping[str, frozenset[str]]] = {
    "locomo": frozenset({"conv-26", "conv-30", "conv-41"}),
    "beam": frozenset({"1", "2", "3", "4", "5"}),
}
"""Conversations of the fit half; the others report."""
UNCLEAR: Final = frozenset({"summarization", "event_ordering", "instruction_following"})
"""Categories of BEAM that ask for no particular message."""
EVERYDAY, REMOVED, WORDS_ONLY, OTHERS = "everyday", "everyday, answers removed", "everyday, no embedding", "polyglot"
PAIRS: Final = "pairs"
WEIGHTS: Final = {EVERYDAY: 0.45, PAIRS: 0.2, REMOVED: 0.15, "LoCoMo": 0.1, "LoCoMo, foreign": 0.05, "BEAM": 0.05}
"""Weight of each set in the fit; each question of a set weighs the same."""
FIRST: Final = 4.0
"""Weight of the first hit of a question; each other one has 1."""
MOST_MISSED: Final = 0.02
"""Share of the right first hits of the fit half that are said not to answer; see `thresholds`."""
HEAD: Final = """\
# Confidence of hits

Made by `make confidence` (`python -m bench.confidence`). Do not edit it by hand.

`hit.confidence` is the probability that the memory answers the question:

```text
confidence = 1 / (1 + exp(-(intercept + sum of weight x feature)))
```

The table `[confidence]` of a profile holds the numbers; without it, the confidence is `None`. A hit below
`confident_from` does not plainly answer: from `possible_from` on it `may answer`, below it `does not answer`. `salience
explain` shows the terms of the sum.

| feature | value |
|---|---|
| `match` | the larger of the similarity and the share of the question's terms, by IDF, that the memory contains |
| `rank` | 1 / rank of the hit: 1 for the first, 0.5 for the second |
| `margin` | how far the hit is above the best other one, as a share of the best score; negative below it |
| `words` | the share of the question's terms, by IDF, that the memory contains |
| `asked` | the number of terms of the question, as a share of six |
| `question` | 1 if the memory only asks; its weight is given, not fitted |
| `another` | 1 for a memory of another thing of the kind: "PR 88" for "PR 89", a right knee for a left one; given |
| `other_name` | 1 for a memory that lacks a name of the question and names something else instead; given |
| `lacking` | 1 for a memory without an answer of the asked kind, or that denies or reverses what is asked; given |
| `old` | the probability that another memory replaces the hit |
| the label of a signal | the contribution of that signal to the score |

A newer memory that took over a score (stage `replaced`) is as sure as the older one, times the probability of the
relation, or as sure as by its own features. Without an
embedding of the question, the confidence depends on words alone. A reranker does not change it.

## The data

Half of the data fits the numbers, with minilm. All figures are from the other half.

| set | questions | fit | report |
|---|---|---|---|
| everyday | on hand-written worlds | {fit} | {report} |
| everyday, answers removed | the answerable ones, without the memories that answer them | the same | the same |
| everyday, no embedding | the same as everyday, answered by words alone | | the same |
| pairs | on the pairs of two memories | the same kinds | the same |
| polyglot | on worlds in other languages than English | | polyglot-b |
| LoCoMo | categories 1 to 4; category 5 has no answer | conv-26, 30, 41 | conv-42, 43 |
| LoCoMo, foreign | of another conversation, with the names swapped or removed | the same | the same |
| BEAM | that ask for particular messages; abstention has no answer | chats 1 to 5 | chats 6 to 10 |

A hit **answers** from `confident_from` on, **may answer** from `possible_from` on, and else does not answer.

`confident_from` is the least value at which at most {most:.0%} of the unanswerable everyday questions of the fit half
are confident: the mean of the hand-written ones and those whose answers are removed. `possible_from` is the value that
all but {missed:.0%} of the right first hits of the fit half reach.
"""
COLUMNS: Final = (
    "questions", "hits", "right", "ECE", "ECE of first hits", "AUC", "unanswerable, but confident",
    "first hit wrong, but confident", "first hit right, but not confident",
)  # fmt: skip
BELOW: Final = """\
`right`: share of right hits. `ECE`: difference between mean confidence and that share, averaged over {bins} bins of
confidence and weighted by hits. `AUC`: probability that a right hit has a higher confidence than a wrong one.
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its hits.

    Attributes:
        kind: the set.
        half: of the data.
        answerable: whether a stored memory answers it.
        right: bool[k], whether each hit is evidence.
        features: float64[k, f].
    """

    kind: str
    half: Half
    answerable: bool
    right: Mask
    features: Floats


def main(arguments: Sequence[str]) -> None:
    """Fit the profiles, write their tables, and print the page."""
    *options, folder = arguments
    halves: tuple[Half, ...] = ("report",) if options == ["--keep"] else everyday.HALVES
    names = {half: ", ".join(world.name for world in _worlds(half)) for half in everyday.HALVES}
    print(HEAD.format(most=MOST_WRONG, missed=MOST_MISSED, **names))
    for name, asked in measured(Path(folder), [profiles.load(name) for name in PROFILES], halves).items():
        model = _model(profiles.load(name))
        if "fit" in halves:
            model = fitted(asked, list(model.weights))
            write(FOLDER / f"{name}.toml", model)
        print(page(name, model, [one for one in asked if one.half == "report"]))


def _model(profile: Profile) -> Model:
    if profile.confidence is None:
        raise SystemExit(f"profile {profile.name} has no [confidence]")
    return profile.confidence


def _worlds(half: Half) -> list[Conversation]:
    """Return the English worlds of one half."""
    return [one for one in everyday.worlds(half) if not any(question.language for question in one.questions)]


def sets(folder: Path) -> Iterator[tuple[str, Half, Conversation]]:
    """Yield the name of a set, the half and a conversation with the questions to ask."""
    for half in everyday.HALVES:
        for world in everyday.worlds(half):
            is_english = not any(question.language for question in world.questions)
            yield (EVERYDAY if is_english else OTHERS), half, world
            if is_english:
                yield REMOVED, half, replace(world, questions=tuple(one for one in world.questions if one.answerable))
                yield WORDS_ONLY, half, world
        for world in everyday.pair_worlds(half):
            yield PAIRS, half, world
    talks = [one for path in sorted((folder / "locomo").glob("*.json")) for one in datasets.conversations(path)]
    for half in everyday.HALVES:
        group = [one for one in talks if (one.name in FIT["locomo"]) == (half == "fit")]
        across = [foreign(group, FOREIGNERS, naming, seed=0) for naming in ("swap", "strip")]
        for talk in group:
            yield "LoCoMo", half, talk
            asked = (replace(one, scope=Scope()) for found in across for one in found[talk.name])
            yield "LoCoMo, foreign", half, replace(talk, questions=tuple(asked))
    for chat in datasets.conversations(folder / "beam"):
        clear = tuple(one for one in chat.questions if one.category not in UNCLEAR)
        yield "BEAM", "fit" if chat.name in FIT["beam"] else "report", replace(chat, questions=clear)


def measured(folder: Path, ranked: Sequence[Profile], halves: Sequence[Half]) -> dict[str, list[Asked]]:
    """Return name of a profile -> the questions of all sets of some halves with their hits under that profile."""
    model = registry.embedder("minilm", settings.load())
    found: dict[str, list[Asked]] = {profile.name: [] for profile in ranked}
    for kind, half, conversation in sets(folder):
        if half not in halves:
            continue
        print(f"{kind}: {conversation.name}, {len(conversation.questions)} questions", file=sys.stderr)
        with opened(conversation, model, cache_folder()) as store:
            for question in conversation.questions:
                evidence = {id for id, ref in store.refs.items() if question.answerable and ref in question.evidence}
                if question.answerable and not evidence:
                    continue
                gone = [id for id, ref in store.refs.items() if id in evidence or ref in question.outdated]
                for id in gone if kind == REMOVED else ():
                    store.engine.forget(id, user_id=question.scope.user_id)
                for profile in ranked:
                    state = ask(store, profile, question, None if kind == WORDS_ONLY else model)
                    values = np.stack([*features(state).values()], axis=1)
                    right = np.array([str(state.batch.ids[row]) in evidence for row in state.rows], np.bool_)
                    is_answerable = question.answerable and kind != REMOVED
                    found[profile.name].append(Asked(kind, half, is_answerable, right, values))
                for id in gone if kind == REMOVED else ():
                    store.engine.restore(id, user_id=question.scope.user_id)
    return found


def ask(store: ConversationStore, profile: Profile, question: Question, embedder: Embedder | None) -> State:
    """Return the ranking of a question, without an embedding if `embedder` is None."""
    services = store.services
    scope = replace(question.scope, tenant=services.tenant)
    query = Query(text=question.question, scope=scope, limit=LIMIT, now=question.now or store.end, dry_run=True)
    criteria = recalls.read_query(services, profile, query, recalls.instant_of(services, query))
    vectors = None if embedder is None else recalls.embed_query(services, query, criteria.reading.texts)
    criteria = recalls.with_vectors(services, profile, criteria, vectors)
    return recalls.search(services, profile, query, criteria, recalls.Clock())[0]


def fitted(asked: Iterable[Asked], names: Sequence[str]) -> Model:
    """Return the logistic model with the largest likelihood on the fit half, rounded to two decimals."""
    chosen = [one for one in asked if one.half == "fit" and one.kind in WEIGHTS]
    kinds = [one.kind for one in chosen]
    values, right = np.concatenate([one.features for one in chosen]), np.concatenate([one.right for one in chosen])
    of_hit = [np.where(np.arange(len(one.right)) == 0, FIRST, 1.0) for one in chosen]
    weights = np.concatenate(
        [WEIGHTS[one.kind] / kinds.count(one.kind) * hits for one, hits in zip(chosen, of_hit, strict=True)]
    )
    matrix = np.column_stack([np.ones(len(values)), values])
    ridge = np.diag([0.0, *np.full(len(names), RIDGE)])
    beta = np.zeros(len(names) + 1)
    for _ in range(50):  # Newton's method
        chance = 1 / (1 + np.exp(-matrix @ beta))
        gradient = matrix.T @ (weights * (right - chance)) - ridge @ beta
        curvature = (matrix * (weights * chance * (1 - chance))[:, None]).T @ matrix + ridge
        beta += np.linalg.solve(curvature, gradient)
    beta = np.round(beta, 2)
    model = Model(
        float(beta[0]),
        {
            **dict(zip(names, beta[1:].tolist(), strict=True)),
            **{name: weight for name, weight in FIXED.items() if name in names},
        },
    )
    sure = threshold(chosen, model)
    first = np.array([chances(one, model)[0] for one in chosen if one.answerable and one.right[:1].any()])
    possible = np.floor(100 * np.quantile(first, MOST_MISSED)) / 100
    return replace(model, confident_from=sure, possible_from=min(float(possible), sure))


def threshold(asked: Sequence[Asked], model: Model) -> float:
    """Return the least confidence, in hundredths, that `MOST_WRONG` of the unanswerable everyday questions reach.

    The share is the mean of the shares of the two sets, so that the larger one does not decide alone.
    """
    unanswerable = [one for one in asked if one.kind in (EVERYDAY, REMOVED) and not one.answerable]
    kinds = [one.kind for one in unanswerable]
    best = np.array([chances(one, model).max(initial=0.0) for one in unanswerable])
    weights = np.array([1 / kinds.count(kind) for kind in kinds]) / len(set(kinds))
    steps = np.arange(1, 101) / 100
    return float(next(step for step in steps if weights[best >= step].sum() <= MOST_WRONG + EDGE))


def chances(one: Asked, model: Model) -> Floats:
    """Return the confidence of each hit of a question."""
    total: Floats = model.intercept + one.features @ np.array([*model.weights.values()])
    return 1 / (1 + np.exp(-total))


def write(path: Path, model: Model) -> None:
    """Replace the numbers in the `[confidence]` table of a profile."""
    weights = ", ".join(f"{name} = {weight:g}" for name, weight in model.weights.items())
    numbers = (
        f"intercept = {model.intercept:g}\n"
        f"weights = {{ {weights} }}\n"
        f"confident_from = {model.confident_from:g}\n"
        f"possible_from = {model.possible_from:g}\n"
    )  # fmt: skip
    text = path.read_text("utf-8")
    path.write_text(re.sub(r"(?<=\n)(\[confidence\][^\n]*\n)(?:[^\n\[]+\n)*", rf"\1{numbers}", text), "utf-8")


def page(name: str, model: Model, asked: Sequence[Asked]) -> str:
    """Return the section of a profile: its table and its figures on the report half."""
    kinds = [*dict.fromkeys(one.kind for one in asked)]
    rows = {kind: figures([one for one in asked if one.kind == kind], model) for kind in kinds}
    own = [one for one in asked if one.kind == EVERYDAY]
    weights = ", ".join(f"{feature} {weight:g}" for feature, weight in model.weights.items())
    return "\n".join(
        [
            f"## {name}\n",
            f"intercept {model.intercept:g}; weights: {weights}; `confident_from` {model.confident_from:g}\n",
            table(("report half", *COLUMNS), [[kind, *cells] for kind, cells in rows.items()]),
            "\n" + BELOW.format(bins=BINS),
            table((f"{EVERYDAY}: confidence", "hits", "mean confidence", "right"), [*reliability(own, model)]),
            "",
        ]
    )


def figures(asked: Sequence[Asked], model: Model) -> list[str]:
    """Return the cells of a set, as `COLUMNS` names them."""
    found = [chances(one, model) for one in asked]
    chance, right = np.concatenate(found), np.concatenate([one.right for one in asked])
    confident = np.array([bool((one >= model.confident_from).any()) for one in found])
    answerable = np.array([one.answerable for one in asked])
    first = np.array([bool(one.right[:1].any()) for one in asked])
    held = np.array([bool(len(one.right)) for one in asked])
    ahead = np.array([one[0] for one in found if len(one)])
    sure = np.array([bool((one[:1] >= model.confident_from).any()) for one in found])
    return [
        str(len(asked)),
        str(len(chance)),
        f"{right.mean():.2f}",
        f"{calibration_error(chance, right):.3f}",
        f"{calibration_error(ahead, first[held]):.3f}",
        f"{area(chance, right):.3f}" if right.any() and not right.all() else "",
        Rate.where(confident, ~answerable).cell if not answerable.all() else "",
        Rate.where(sure, ~first & held).cell if (~first & held).any() else "",
        Rate.where(~sure, first).cell if first.any() else "",
    ]


def calibration_error(chance: Floats, right: Mask) -> float:
    """Return the expected calibration error over `BINS` bins of equal width."""
    at = np.minimum((chance * BINS).astype(int), BINS - 1)
    return sum(abs(float((chance[at == place] - right[at == place]).sum())) for place in range(BINS)) / len(chance)


def area(chance: Floats, right: Mask) -> float:
    """Return the area under the ROC curve; a tie counts half."""
    good, bad = chance[right], np.sort(chance[~right])
    below, through = np.searchsorted(bad, good, "left"), np.searchsorted(bad, good, "right")
    return float((below + through).mean() / 2 / len(bad))


def reliability(asked: Sequence[Asked], model: Model) -> Iterator[list[str]]:
    """Yield the row of each bin of confidence with hits: hits, mean confidence, share of right ones."""
    chance = np.concatenate([chances(one, model) for one in asked])
    right = np.concatenate([one.right for one in asked])
    at = np.minimum((chance * BINS).astype(int), BINS - 1)
    for place in sorted(set(at.tolist())):
        held = at == place
        name = f"{place / BINS:.1f} to {(place + 1) / BINS:.1f}"
        yield [name, str(int(held.sum())), f"{chance[held].mean():.2f}", f"{right[held].mean():.2f}"]


if __name__ == "__main__":
    main(sys.argv[1:])
