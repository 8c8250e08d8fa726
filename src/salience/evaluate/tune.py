"""Weights that fit one's own data, with the figure that they reach on conversations they were not fitted on."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from salience.errors import InputError, Words
from salience.evaluate.evaluation import Advance
from salience.evaluate.metrics import Estimate, Metric, estimate, paired
from salience.evaluate.trials import Case, value
from salience.loading import require
from salience.rank.profile import Profile, Term
from salience.rank.signals import SIGNALS, Parameter

FOLDS: Final = 10
"""Most folds: of as many conversations, each is held out alone; of more, whole ones go into this many folds."""
STRONGEST: Final = 2.0
"""Largest exponent that is tried for a signal that multiplies."""
SPAN: Final = 4.0
"""A parameter is tried from its value divided by this to its value times this."""
DECIMALS: Final = 4


@dataclass(frozen=True, slots=True)
class Dial:
    """A number of a profile that can be turned.

    Attributes:
        path: in the TOML, such as `signal.similarity.weight`.
        label: of the signal.
        key: `weight`, or a parameter's name.
        low, high: what is tried.
        whole: whether only whole numbers are.
        present: what the profile has.
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
    """What weights that were fitted on the other conversations do on these.

    Attributes:
        conversations: those held out.
        n: their questions.
        before: the metric there under the profile as it was.
        fitted: the metric on the other conversations, which the weights were fitted on.
        held_out: the metric on these.
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
    """What tuning came to.

    Attributes:
        profile: the profile with the weights that were fitted on all conversations.
        metric: what was fitted.
        trials: how many settings were tried in each fit.
        n: questions.
        before: the metric under the profile as it was.
        fitted: the metric under `profile`, on the very questions that it was fitted on: too good to be true.
        held_out: the metric of every question under weights fitted without its conversation: what to expect.
        gain: held_out - before, on the same questions.
        folds: the conversations that were held out, one after the other.
        changes: what is different.
        unfitted: signals that are the same for every memory here, so that nothing can be said of their weight.
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
    """Return the profile with the best weights found, and what to expect of them.

    For each conversation, weights are fitted on the others and measured on it; then they are fitted on all. A fit
    tries the profile's own numbers first, then as many others as the tree of Parzen estimators suggests. The weights of
    summed signals keep their sum, so that scores keep their scale and a least score its meaning.

    Args:
        profile: what to start from.
        cases: the questions, prepared under `profile`.
        metric: what to make as large as can be.
        trials: settings to try in each fit, at least 1.
        seed: of the trials.
        parameters: whether to turn the signals' parameters as well as their weights.
        advance: told of each trial that is done.

    Raises:
        MissingExtraError: optuna is not installed.
        InputError: fewer than two conversations; a profile in which there is nothing to turn.
    """
    require("optuna", "salience tune", "eval")
    dials = tuple(_dials(profile, cases, parameters))
    if not dials:
        remedy = "Give one in which two summed signals, or one that multiplies, tell these memories apart."
        raise InputError("profile", profile.name, remedy, f"{profile.name!r} has nothing to tune")
    parts = split(cases)
    before = [value(case, profile, metric) for case in cases]
    folds, held_out = [], np.zeros(len(cases))
    for names in parts:
        inside = [place for place, case in enumerate(cases) if case.conversation in names]
        others = [case for case in cases if case.conversation not in names]
        fitted, best = fit(profile, others, dials, metric, trials, seed, advance)
        held_out[inside] = [value(cases[place], fitted, metric) for place in inside]
        own = statistics.fmean(before[place] for place in inside)
        folds.append(Fold(names, len(inside), own, best, float(held_out[inside].mean())))
    final, _ = fit(profile, cases, dials, metric, trials, seed, advance)
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
            Change(dial.path, *(_present(one, dial.label, dial.key) for one in (profile, final))) for dial in dials
        ),
        unfitted=tuple(_unfitted(profile, cases)),
    )


def fits(cases: Sequence[Case]) -> int:
    """Return how many fits `tune` makes."""
    return len(split(cases)) + 1


def split(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    """Return the conversations to hold out together: each alone, or in `FOLDS` parts if they are more.

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
    dials: Sequence[Dial],
    metric: Metric,
    trials: int,
    seed: int,
    advance: Advance = lambda _: None,
) -> tuple[Profile, float]:
    """Return the best of the profiles that were tried, and its mean of `metric` over the cases.

    Source: Bergstra, Bardenet, Bengio and Kégl, Algorithms for Hyper-Parameter Optimization (2011), as Optuna has it.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial: Any) -> float:
        chosen = turned(profile, dials, {dial.path: _suggested(trial, dial) for dial in dials})
        reached = statistics.fmean(value(case, chosen, metric) for case in cases)
        advance(1)
        return reached

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.enqueue_trial({dial.path: min(max(_scaled(profile, dial), dial.low), dial.high) for dial in dials})
    study.optimize(objective, n_trials=trials)
    return turned(profile, dials, study.best_params), float(study.best_value)


def _suggested(trial: Any, dial: Dial) -> float:
    if dial.whole:
        return float(trial.suggest_int(dial.path, int(dial.low), int(dial.high)))
    return float(trial.suggest_float(dial.path, dial.low, dial.high))


def turned(profile: Profile, dials: Sequence[Dial], settings: Mapping[str, float]) -> Profile:
    """Return the profile with other numbers; the weights of summed signals are scaled to the sum that they had."""
    own = {(dial.label, dial.key): settings[dial.path] for dial in dials}
    terms = tuple(_turned(term, own) for term in profile.terms)
    summed = [(term.label, "weight") for term in terms if term.combine == "sum" and (term.label, "weight") in own]
    before = sum(term.weight for term in profile.terms if (term.label, "weight") in summed)
    after = sum(own[key] for key in summed)
    scale = before / after if after else 1.0
    scaled = tuple(
        replace(term, weight=round(term.weight * scale, DECIMALS)) if (term.label, "weight") in summed else term
        for term in terms
    )
    return replace(profile, terms=scaled, toml=None)


def _turned(term: Term, own: Mapping[tuple[str, str], float]) -> Term:
    weight = own.get((term.label, "weight"), term.weight)
    parameters = {key: own.get((term.label, key), value) for key, value in term.parameters.items()}
    whole = {key for key in parameters if key in SIGNALS[term.signal].parameters and _is_whole(term, key)}
    kept = {key: _rounded(number, key in whole) for key, number in parameters.items()}
    return replace(term, weight=round(weight, DECIMALS), parameters=kept)


def _is_whole(term: Term, key: str) -> bool:
    return SIGNALS[term.signal].parameters[key].whole


def _rounded(number: Any, whole: bool) -> Any:
    if whole:
        return int(number)
    return round(number, DECIMALS) if isinstance(number, float) else number


def _dials(profile: Profile, cases: Sequence[Case], parameters: bool) -> Iterator[Dial]:
    """Yield what can be turned; signals of which the data says nothing are left as they are."""
    unfitted = set(_unfitted(profile, cases))
    terms = [term for term in profile.terms if term.label not in unfitted]
    summed = [term for term in terms if term.combine == "sum"]
    for term in terms:
        if term.combine == "product" or len(summed) > 1:
            high = 1.0 if term.combine == "sum" else STRONGEST
            yield Dial(f"signal.{term.signal}.weight", term.label, "weight", 0.0, high, False, term.weight)
        if parameters:
            for key, known in SIGNALS[term.signal].parameters.items():
                if isinstance(term.parameters.get(key), (int, float)):
                    yield _dial(term, key, known)


def _dial(term: Term, key: str, known: Parameter) -> Dial:
    present = float(term.parameters[key])
    low, high = (present / SPAN, present * SPAN) if present > 0 else (0.0, 1.0)
    bounds = max(low, known.low), min(high, known.high)
    return Dial(f"signal.{term.signal}.{key}", term.label, key, *bounds, known.whole, present)


def _scaled(profile: Profile, dial: Dial) -> float:
    """Return the profile's own number as a trial has it: weights of summed signals as shares of the largest."""
    combine = {term.label: term.combine for term in profile.terms}
    if dial.key != "weight" or combine[dial.label] != "sum":
        return dial.present
    largest = max(term.weight for term in profile.terms if term.combine == "sum")
    return dial.present / largest if largest else 0.0


def _present(profile: Profile, label: str, key: str) -> float:
    term = next(term for term in profile.terms if term.label == label)
    found: float = term.weight if key == "weight" else term.parameters[key]
    return found


def _unfitted(profile: Profile, cases: Sequence[Case]) -> Iterator[str]:
    """Yield the signals that give every memory that a question could return the same value, in every question."""
    for term in profile.terms:
        columns = (case.parts[term.label][case.state.rows] for case in cases)
        if all(not len(column) or column.min() == column.max() for column in columns):
            yield term.label
