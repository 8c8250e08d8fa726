"""Fit a profile's weights to questions with known answers, and measure them on conversations held out.

A question is prepared once, up to the stage `score`: a trial of other weights then only combines and ranks. A test
compares the result with that of `rank`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np

from salience import recall as recalls
from salience.batch import Floats
from salience.errors import InputError, Words
from salience.evaluate.datasets import Conversation, Question
from salience.evaluate.metrics import Estimate, Metric, estimate, paired
from salience.evaluate.run import BASELINES, Advance, Gathered, Terms, gathered, narrowed
from salience.evaluate.stores import ConversationStore, opened
from salience.loading import require
from salience.ports import Embedder
from salience.rank import profiles
from salience.rank.profile import Profile
from salience.rank.run import advanced
from salience.rank.signals import SIGNALS
from salience.rank.stages import SCORE, SHORTLIST, TIME, State, late_column, score

FOLDS: Final = 10
"""Maximum folds; up to as many conversations are each held out alone."""
STRONGEST: Final = 2.0
"""Largest exponent of a signal that multiplies."""
SPAN: Final = 4.0
"""A parameter is tried from its value divided by this to its value times this."""
DECIMALS: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A question with evidence, prepared for scoring.

    Attributes:
        conversation: the store in which it was asked.
        state: the rows after the stages before the first one that computes scores.
        parts: label -> raw values of the signal under the profile's own parameters.
        evidence: rows that hold the answer.
        total: memories that hold it, at least 1; a profile with candidates may not see all.
    """

    conversation: str
    state: State
    parts: Mapping[str, Floats]
    evidence: frozenset[int]
    total: int


def cases(
    held: Sequence[Conversation],
    profile: Profile,
    limit: int,
    embedder: Embedder,
    categories: frozenset[str] | None = None,
    cache: Path | None = None,
    advance: Advance = lambda _: None,
) -> list[Case]:
    """Prepare each question whose evidence is stored."""
    found: list[Case] = []
    for conversation in held:
        with opened(conversation, embedder, cache) as store:
            for question in questions(conversation, categories):
                known = gathered(store, question, Terms({"": profile}, limit))[""]
                case = prepared(store, question, known, profile)
                found += [] if case is None else [case]
                advance(1)
    return found


def prepared(store: ConversationStore, question: Question, known: Gathered, profile: Profile) -> Case | None:
    """Run the stages before `score`; None if no evidence is stored."""
    named, batch = set(question.evidence), narrowed(known.batch, profile.candidate_count(known.criteria.limit))
    total = sum(store.refs[one] in named for one in known.batch.ids)
    if not total:
        return None
    evidence = frozenset(row for row, one in enumerate(batch.ids) if store.refs[one] in named)
    tokens = recalls.token_reader(store.services, known.query, known.criteria)
    state = State.start(profile, batch, known.criteria, tokens)
    for step in range(_scoring(profile)):
        state = advanced(state, step)
    parts = score(state).parts
    if SHORTLIST in profile.stages:  # a trial has a shortlist of its own
        state = replace(state, batch=replace(batch, late=late_column(state, np.arange(len(batch)))))
    return Case(store.name, state, parts, evidence, total)


def _scoring(profile: Profile) -> int:
    """Return the number of the first stage that computes scores."""
    return profile.stages.index(SHORTLIST if SHORTLIST in profile.stages else SCORE)


def questions(conversation: Conversation, categories: frozenset[str] | None) -> Iterator[Question]:
    """Yield the questions to tune on: all with an answer, or all of `categories`."""
    for question in conversation.questions:
        chosen = question.answerable if categories is None else question.category in categories
        if chosen and question.question.strip():
            yield question


def value(case: Case, profile: Profile, metric: Metric) -> float:
    """Return the metric of a question under a profile that differs from the case's only in weights and parameters."""
    places = [place for place, row in enumerate(ranked(case, profile), 1) if row in case.evidence]
    return metric.of(places, case.total)


def ranked(case: Case, profile: Profile) -> list[int]:
    """Return the rows that `profile` returns, best first, as `rank` does."""
    state = rescored(case, profile)
    for step in range(profile.stages.index(SCORE) + 1, len(profile.stages)):
        state = advanced(state, step)
    rows: list[int] = state.rows.tolist()
    return rows


def rescored(case: Case, profile: Profile) -> State:
    """Return the state after `score`; a signal is computed again only if a parameter of it differs."""
    own = {term.label: term for term in case.state.profile.terms}
    same = {
        term.label: case.parts[term.label]
        for term in profile.terms
        if term.parameters == own[term.label].parameters and term.signal != TIME  # an order depends on the weights
    }
    state = replace(case.state, profile=profile, parts=same)
    for step in range(_scoring(profile), profile.stages.index(SCORE) + 1):
        state = advanced(state, step)
    return state


@dataclass(frozen=True, slots=True)
class Setting:
    """A number of a profile that can be fitted, from `low` to `high`.

    Attributes:
        path: in the TOML, such as `signal.similarity.weight`.
        label: of the signal.
        key: `weight`, or the name of a parameter.
        whole: whether only whole numbers are valid.
        present: the profile's value.
    """

    path: str
    label: str
    key: str
    low: float
    high: float
    whole: bool
    present: float


@dataclass(frozen=True, slots=True)
class Fold:
    """The figures of conversations held out.

    Attributes:
        conversations: those held out.
        n: their questions.
        before: the metric on them under the original profile.
        fitted: the metric on the other conversations, on which the weights were fitted.
        held_out: the metric on them under the fitted weights.
    """

    conversations: tuple[str, ...]
    n: int
    before: float
    fitted: float
    held_out: float


@dataclass(frozen=True, slots=True)
class Change:
    """A number of the profile, before and after."""

    path: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of tuning.

    Attributes:
        profile: with the weights fitted on all conversations.
        metric: name of the metric.
        trials: per fit.
        n: questions.
        before: the metric under the original profile.
        fitted: the metric under `profile`, on the questions it was fitted on: too optimistic.
        held_out: the metric of every question under weights fitted without its conversation: what to expect.
        gain: held_out - before, on the same questions.
        folds: one per part held out.
        changes: the numbers that differ.
        unfitted: signals with the same value for every memory here, which cannot be fitted.
    """

    profile: Profile
    metric: str
    trials: int
    n: int
    before: Estimate
    fitted: Estimate
    held_out: Estimate
    gain: Estimate
    folds: tuple[Fold, ...]
    changes: tuple[Change, ...]
    unfitted: tuple[str, ...]


def tune(
    profile: Profile,
    cases: Sequence[Case],
    metric: Metric,
    trials: int,
    seed: int,
    parameters: bool = False,
    advance: Advance = lambda _: None,
) -> Tuned:
    """Fit the weights of a profile.

    For each conversation, weights are fitted on the others and measured on it; then they are fitted on all. The weights
    of summed signals keep their sum, so that scores keep their scale and a minimum score its meaning.
    `cases` are the questions, prepared under `profile`; `parameters` says whether to fit the signals' parameters too.

    Raises:
        MissingExtraError: optuna is not installed.
        InputError: fewer than two conversations, or nothing to fit in the profile.
    """
    require("optuna", "salience tune", "eval")
    unfitted = tuple(_unfitted(profile, cases))
    tunable = tuple(_settings(profile, unfitted, parameters))
    if not tunable:
        remedy = "Give one in which two summed signals, or one that multiplies, tell these memories apart."
        raise InputError("profile", profile.name, remedy, f"{profile.name!r} has nothing to tune")
    parts = split(cases)
    before = [value(case, profile, metric) for case in cases]
    folds, held_out = [], np.zeros(len(cases))
    for names in parts:
        inside = [place for place, case in enumerate(cases) if case.conversation in names]
        others = [case for case in cases if case.conversation not in names]
        fitted, best = fit(profile, others, tunable, metric, trials, seed, advance)
        held_out[inside] = [value(cases[place], fitted, metric) for place in inside]
        own = statistics.fmean(before[place] for place in inside)
        folds.append(Fold(names, len(inside), own, best, float(held_out[inside].mean())))
    final, _ = fit(profile, cases, tunable, metric, trials, seed, advance)
    return Tuned(
        profile=final,
        metric=str(metric),
        trials=trials,
        n=len(cases),
        before=estimate(before, seed),
        fitted=estimate([value(case, final, metric) for case in cases], seed),
        held_out=estimate(held_out, seed),
        gain=paired(held_out, before, seed),
        folds=tuple(folds),
        changes=tuple(
            Change(setting.path, _present(profile, setting), _present(final, setting)) for setting in tunable
        ),
        unfitted=unfitted,
    )


def fits(cases: Sequence[Case]) -> int:
    """Return the number of fits that `tune` makes."""
    return len(split(cases)) + 1


def split(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    """Return the conversations to hold out together: each alone, or in `FOLDS` parts.

    Raises:
        InputError: fewer than two conversations with questions.
    """
    names = list(dict.fromkeys(case.conversation for case in cases))
    if len(names) < 2:
        found = Words(f"{len(names)} conversation with questions")
        raise InputError("path", found, "Give files of at least two, so that one can be held out.")
    count = min(len(names), FOLDS)
    return [tuple(names[start::count]) for start in range(count)]


def fit(
    profile: Profile,
    cases: Sequence[Case],
    tunable: Sequence[Setting],
    metric: Metric,
    trials: int,
    seed: int,
    advance: Advance = lambda _: None,
) -> tuple[Profile, float]:
    """Return the best profile tried, the original first, and its mean of `metric` over the cases.

    Source: Bergstra, Bardenet, Bengio and Kégl, Algorithms for Hyper-Parameter Optimization (2011), as in Optuna.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    combine = {term.label: term.combine for term in profile.terms}
    largest = max((term.weight for term in profile.terms if term.combine == "sum"), default=0.0)

    begin = {}
    for setting in tunable:  # weights of summed signals are tried as shares of the largest
        share = setting.key == "weight" and combine[setting.label] == "sum"
        value_now = (setting.present / largest if largest else 0.0) if share else setting.present
        begin[setting.path] = min(max(value_now, setting.low), setting.high)

    def suggested(trial: Any, setting: Setting) -> float:
        suggest, kind = (trial.suggest_int, int) if setting.whole else (trial.suggest_float, float)
        return float(suggest(setting.path, kind(setting.low), kind(setting.high)))

    def objective(trial: Any) -> float:
        chosen = changed(profile, tunable, {setting.path: suggested(trial, setting) for setting in tunable})
        reached = statistics.fmean(value(case, chosen, metric) for case in cases)
        advance(1)
        return reached

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.enqueue_trial(begin)
    study.optimize(objective, n_trials=trials)
    return changed(profile, tunable, study.best_params), float(study.best_value)


def changed(profile: Profile, tunable: Sequence[Setting], settings: Mapping[str, float]) -> Profile:
    """Return the profile with other numbers; the weights of summed signals are scaled to their original sum."""
    own = {(setting.label, setting.key): settings[setting.path] for setting in tunable}
    summed = [term.label for term in profile.terms if term.combine == "sum" and (term.label, "weight") in own]
    before = sum(term.weight for term in profile.terms if term.label in summed)
    after = sum(own[label, "weight"] for label in summed)
    scale = before / after if after else 1.0
    terms = []
    for term in profile.terms:
        weight = round(own.get((term.label, "weight"), term.weight), DECIMALS)
        weight = round(weight * scale, DECIMALS) if term.label in summed else weight
        parameters = {}
        for key, old in term.parameters.items():
            number, known = own.get((term.label, key), old), SIGNALS[term.signal].parameters.get(key)
            parameters[key] = (
                number
                if isinstance(number, bool) or not isinstance(number, int | float)
                else (int(number) if known is not None and known.integer else round(number, DECIMALS))
            )
        terms.append(replace(term, weight=weight, parameters=parameters))
    return replace(profile, terms=tuple(terms), toml=None)


def _settings(profile: Profile, unfitted: Sequence[str], parameters: bool) -> Iterator[Setting]:
    """Yield the numbers that can be fitted."""
    terms = [term for term in profile.terms if term.label not in unfitted]
    summed = [term for term in terms if term.combine == "sum"]
    for term in terms:
        if term.combine == "product" or len(summed) > 1:
            high = 1.0 if term.combine == "sum" else STRONGEST
            yield Setting(f"signal.{term.signal}.weight", term.label, "weight", 0.0, high, False, term.weight)
        for key, known in SIGNALS[term.signal].parameters.items() if parameters else ():
            if isinstance(term.parameters.get(key), (int, float)):
                present = float(term.parameters[key])
                low, high = (present / SPAN, present * SPAN) if present > 0 else (0.0, 1.0)
                bounds = max(low, known.low), min(high, known.high)
                yield Setting(f"signal.{term.signal}.{key}", term.label, key, *bounds, known.integer, present)


def _present(profile: Profile, setting: Setting) -> float:
    term = next(term for term in profile.terms if term.label == setting.label)
    found: float = term.weight if setting.key == "weight" else term.parameters[setting.key]
    return found


def _unfitted(profile: Profile, cases: Sequence[Case]) -> Iterator[str]:
    """Yield the signals that have one value for all memories that a question could return, in every question."""
    for term in profile.terms:
        columns = (case.parts[term.label][case.state.rows] for case in cases)
        if all(not len(column) or column.min() == column.max() for column in columns):
            yield term.label


def source(name: str) -> str:
    """Return the TOML of an included profile, a baseline or a file."""
    if name in BASELINES:
        return BASELINES[name]
    return profiles.source(name) if name in profiles.NAMES else Path(name).read_text("utf-8")


def toml(tuned: Tuned, text: str, files: Sequence[str], embedder: str, day: date) -> str:
    """Return the TOML of the tuned profile, with the other keys and comments of `text`, the original.

    Raises:
        MissingExtraError: tomlkit is not installed.
    """
    require("tomlkit", "salience tune", "eval")
    import tomlkit

    document: Any = tomlkit.parse(text)
    name = str(document["name"])
    document["name"] = name if name.endswith("-tuned") else f"{name}-tuned"
    for change in tuned.changes:
        _, signal, key = change.path.split(".")
        document["signal"][signal][key] = change.after
    held_out, before = (f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in (tuned.held_out, tuned.before))
    lines = [
        f"Made by `salience tune` on {day.isoformat()} from {name}, with the embedder {embedder}.",
        f"Data: {', '.join(files)}; n = {tuned.n:,} questions, one memory a turn.",
        f"{tuned.metric}: {held_out} on conversations held out, {before} before;",
        f"{tuned.fitted.mean:.3f} on the data that it was fitted on, which is no promise.",
        f"Best of {tuned.trials:,} trials. The comments below are those of {name}.",
    ]
    if tuned.unfitted:
        lines.append(f"Not fitted, since the data does not vary in it: {', '.join(tuned.unfitted)}.")
    head = "".join(f"# {line}\n" for line in lines)
    return f"{head}#\n{tomlkit.dumps(document).lstrip()}"
