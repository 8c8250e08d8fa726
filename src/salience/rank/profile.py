"""Ranking profiles: signals with weights, and stages in order. `parse` reads and checks the TOML of a profile."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal

from salience.batch import PARTS
from salience.errors import InputError, ProfileError, Words, shown, wrong_type
from salience.rank.confidence import FEATURES, READS, Model
from salience.rank.signals import SIGNALS, Parameter
from salience.rank.stages import SCORE, STAGES, State
from salience.records import ScoreDetail, checks

Combine = Literal["sum", "product"]
REPEATABLE: Final = ("threshold",)
"""Stages that a profile can name more than once."""
LIMIT: Final = 1000
"""Most memories that one recall can return."""


@dataclass(frozen=True, slots=True)
class Term:
    """One signal of a profile: its name, label in `score_detail`, weight, how it combines, and its parameters."""

    signal: str
    label: str
    weight: float
    combine: Combine
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class IntentRule:
    """Words that signal an intent, and the weights that apply under it."""

    words: tuple[str, ...]
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class OnRecall:
    """Changes that a recall makes to the memories that it returns.

    Attributes:
        access_count, importance: increments; importance stops at 1.
        accessed_at: whether to set `accessed_at` to now.
        activate: whether to prime the memories in the caller's session.
    """

    access_count: int = 0
    importance: float = 0.0
    accessed_at: bool = False
    activate: bool = False

    def __bool__(self) -> bool:
        return self != OnRecall()


@dataclass(frozen=True)
class Profile:
    """A ranking profile.

    Attributes:
        name, summary: shown to users.
        terms: the signals.
        stages, stage_parameters: names of the stages in order, and parameters by name.
        limit, max_limit: default and maximum number of hits.
        min_score: default least score; None for no minimum.
        weak_below: score without the signal `speaker` below which a hit does not answer; None: every hit answers. Not
            used with a `confidence`.
        confidence: model of the confidence of hits; None: hits have no confidence.
        threshold_scale: scale of similarities and thresholds: raw cosines or calibrated relatedness.
        candidates: (factor, minimum): rank the factor x limit nearest by cosine, at least the minimum; None ranks every
            visible memory.
        intents: name of an intent -> its words and weights, in order of precedence.
        on_recall: changes that a recall makes.
        contradiction_above: least similarity at which a new memory is reported as a possible conflict; None for never.
        graph_weight, max_hops: defaults of `graph_recall`.
        first_person: whether to also embed a question about a speaker in that speaker's own voice.
        toml: the source text; None for a profile that was changed after parsing.
        columns, parts: columns and other parts of the batch that the signals and stages read.
        steps: the stages as functions of the state.
        sums: whether any signal is summed.
        favours_latest: whether any signal decays.
        intent_words: name of an intent -> its words.
        reads_time: whether the time that a query names matters.
    """

    name: str
    summary: str
    terms: tuple[Term, ...]
    stages: tuple[str, ...]
    stage_parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limit: int = 5
    max_limit: int = LIMIT
    min_score: float | None = None
    weak_below: float | None = None
    confidence: Model | None = None
    threshold_scale: Literal["raw", "calibrated"] = "raw"
    candidates: tuple[int, int] | None = None
    intents: Mapping[str, IntentRule] = field(default_factory=dict)
    on_recall: OnRecall = OnRecall()
    contradiction_above: float | None = None
    graph_weight: float = 0.3
    max_hops: int = 2
    first_person: bool = False
    toml: str | None = field(default=None, compare=False, repr=False)

    columns: frozenset[str] = field(init=False, compare=False, repr=False)
    parts: frozenset[str] = field(init=False, compare=False, repr=False)
    steps: tuple[Callable[[State], State], ...] = field(init=False, compare=False, repr=False)
    sums: bool = field(init=False, compare=False, repr=False)
    favours_latest: bool = field(init=False, compare=False, repr=False)
    intent_words: Mapping[str, tuple[str, ...]] = field(init=False, compare=False, repr=False)
    reads_time: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        signals, stages = [SIGNALS[term.signal] for term in self.terms], [STAGES[name] for name in self.stages]
        inputs = [signal.inputs(term.parameters) for signal, term in zip(signals, self.terms, strict=True)]
        reads = frozenset().union(*inputs, *(stage.reads for stage in stages), READS if self.confidence else ())
        derived = {
            "columns": reads - PARTS,
            "parts": reads & PARTS,
            "steps": tuple(
                partial(stage.step, **self.stage_parameters.get(name, {}))
                for name, stage in zip(self.stages, stages, strict=True)
            ),
            "sums": any(term.combine == "sum" for term in self.terms),
            "favours_latest": any(signal.decays for signal in signals),
            "intent_words": {name: tuple(rule.words) for name, rule in self.intents.items()},
            "reads_time": any(term.signal == "time" for term in self.terms),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def weights(self, intent: str) -> dict[str, float]:
        """Return label -> weight under an intent."""
        own = {term.label: term.weight for term in self.terms}
        return own | dict(self.intents[intent].weights) if intent in self.intents else own

    def candidate_count(self, limit: int) -> int | None:
        """Return how many of the nearest memories to rank for `limit`; None for every visible memory."""
        return None if self.candidates is None else max(self.candidates[0] * limit, self.candidates[1])

    def with_weights(self, weights: Mapping[str, float]) -> Profile:
        """Return the profile with other weights, which apply under every intent.

        Raises:
            InputError: not a mapping, an unknown label, or a weight that is not a number from 0 to 100.
        """
        if not isinstance(weights, Mapping):
            raise wrong_type("weights", weights, 'Give labels with numbers, such as {"similarity": 2.0}.')
        if not weights:
            return self
        labels = [term.label for term in self.terms]
        clean = {checks.choice("weights", label, labels): _weight(f"weights.{label}", weight)
                 for label, weight in weights.items()}  # fmt: skip
        terms = tuple(replace(term, weight=clean.get(term.label, term.weight)) for term in self.terms)
        intents = {name: replace(rule, weights={**rule.weights, **clean}) for name, rule in self.intents.items()}
        return replace(self, terms=terms, intents=intents, toml=None)

    def for_graph(self, graph_weight: float, max_hops: int) -> Profile:
        """Return the profile of `graph_recall`: (1 - w) x similarity + w x graph proximity, with the same stages.

        Source: zeromemory, GraphRAG Scoring.
        """
        terms = (
            Term("similarity", "similarity", 1 - graph_weight, "sum", {}),
            Term("graph_proximity", "graph_proximity", graph_weight, "sum", {"per_hop": 0.5, "max_hops": max_hops}),
        )
        return replace(self, terms=terms, intents={}, candidates=None, toml=None)


def parse(text: str, source: str) -> Profile:
    """Return the profile of a TOML text.

    Error messages name `source`, such as its path.

    Raises:
        ProfileError: invalid TOML, or an unknown, missing or invalid key; the message names the key and lists the known
            keys.
    """
    try:
        return replace(_profile(tomllib.loads(text)), toml=text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(source, str(error), "Write it in TOML.", f"is not TOML ({shown(Words(error))})") from None
    except InputError as error:
        raise ProfileError(f"{source}: {error.field}", error.value, error.remedy, error.problem) from None
    except (RecursionError, ValueError):  # raised by the TOML parser itself
        problem = "is nested too deeply, or has a number too long"
        raise ProfileError(source, Words(problem), "Write less.", problem) from None


KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "name": ("required", "Name of the profile, shown by `salience profiles` and in each answer."),
    "summary": ("required", "The profile in one sentence."),
    "combine": ("required", '`"sum"` or `"product"`, for signals that do not set their own.'),
    "stages": ("required", "Names of the stages in order, with `score` once and `trim` last."),
    "limit": ("5", "Number of hits, unless the call gives one."),
    "max_limit": ("1000", "Maximum number of hits that a call can ask for."),
    "min_score": (
        "none", "Lowest score of a hit, unless the call gives one. `threshold` and `similarity_floor` read it.",
    ),
    "weak_below": (
        "none", "Score, without the signal `speaker`, below which a hit does not answer. Excludes `[confidence]`.",
    ),
    "threshold_scale": ('`"raw"`', '`"raw"` cosines, or `"calibrated"`: the relatedness that people judge.'),
    "first_person": ("`false`", "Also embed a question about a speaker in that speaker's own voice."),
    "candidates": (
        "every visible memory", "Rank only the nearest memories by cosine: `per_limit` x limit, at least `minimum`.",
    ),
    "confidence": (
        "none",
        "Model of the probability that a hit answers the question: `intercept`; `weights` by feature (`match`, `rank`, "
        "labels of signals); `confident_from` (0.5), the probability from which a hit answers; `possible_from` (0.25), "
        "from which it may answer.",
    ),
    "signal": (
        "required",
        "`[signal.NAME]` adds a signal: `weight` (1), from 0 to 100; `combine`; `label` (the signal's name), its name "
        "in `score_detail`; and its own parameters.",
    ),
    "stage": ("none", "`[stage.NAME]` sets the parameters of a stage."),
    "intent": ("none", "`[intent.NAME]`: `words` that signal an intent, and the `weights`, by label, that then apply."),
    "on_recall": (
        "no change",
        "Changes of a recall to its hits: `access_count` and `importance` (numbers to add), `accessed_at` (`true`: set "
        "to now), `activate` (`true`: prime the memory in the session).",
    ),
    "on_remember": (
        "never", "`contradiction_above`: least similarity at which a new memory is compared for contradictions.",
    ),
    "graph": ("0.3 and 2", "Defaults of `graph_recall`: `weight` and `max_hops`."),
}  # fmt: skip
"""Key of a profile's TOML -> its default, and its description; for the reference."""


def _profile(data: dict[str, Any]) -> Profile:
    _known("", data, KEYS)
    combine: Any = checks.choice("combine", _required("combine", data), ("sum", "product"))
    terms = tuple(_term(name, table, combine) for name, table in _tables("signal", data).items())
    if not terms:
        raise ProfileError("signal", {}, f"Give at least one of: {', '.join(sorted(SIGNALS))}.", "is empty")
    labels = Counter(term.label for term in terms)
    for term in terms:
        if labels[term.label] > 1 or hasattr(ScoreDetail, term.label):
            raise ProfileError(
                f"signal.{term.signal}.label",
                term.label,
                "Give it a label that nothing else has.",
                f"{shown(term.label)} is taken",
            )
    stages = _stages(_required("stages", data))
    graph = _known("graph", data.get("graph", {}), ("weight", "max_hops"))
    remember = _known("on_remember", data.get("on_remember", {}), ("contradiction_above",))
    max_limit = checks.whole("max_limit", data.get("max_limit", LIMIT), 1, LIMIT)
    scale: Any = checks.choice("threshold_scale", data.get("threshold_scale", "raw"), ("raw", "calibrated"))
    return Profile(
        name=checks.name("name", _required("name", data)),
        summary=checks.text("summary", _required("summary", data)),
        terms=terms,
        stages=stages,
        stage_parameters=_stage_parameters(_tables("stage", data), stages),
        limit=checks.whole("limit", data.get("limit", 5), 1, max_limit),
        max_limit=max_limit,
        min_score=_optional("min_score", data.get("min_score"), 0.0, 100.0),
        weak_below=_optional("weak_below", data.get("weak_below"), 0.0, 100.0),
        confidence=_confidence(data, terms),
        threshold_scale=scale,
        candidates=_candidates(data),
        intents={name: _intent(name, table, terms) for name, table in _tables("intent", data).items()},
        on_recall=_on_recall(data.get("on_recall", {})),
        contradiction_above=_optional("on_remember.contradiction_above", remember.get("contradiction_above"), 0.0, 1.0),
        graph_weight=checks.number("graph.weight", graph.get("weight", 0.3), 0.0, 1.0),
        max_hops=checks.whole("graph.max_hops", graph.get("max_hops", 2), 0, 10),
        first_person=checks.flag("first_person", data.get("first_person", False)),
    )  # fmt: skip


def _term(name: str, table: Mapping[str, Any], combine: Combine) -> Term:
    path = f"signal.{name}"
    if name not in SIGNALS:
        raise ProfileError(path, name, f"Choose one of: {', '.join(sorted(SIGNALS))}.", "is not a signal")
    signal = SIGNALS[name]
    _known(path, table, ("weight", "combine", "label", *signal.parameters, *signal.choices))
    how: Any = checks.choice(f"{path}.combine", table.get("combine", combine), ("sum", "product"))
    parameters = _parameters(path, table, signal.parameters)
    for key, words in signal.choices.items():
        parameters[key] = checks.choice(f"{path}.{key}", table.get(key, words[0]), words)
    signal.check(path, parameters)
    label = checks.name(f"{path}.label", table.get("label", name))
    return Term(name, label, _weight(f"{path}.weight", table.get("weight", 1.0)), how, parameters)


def _weight(path: str, value: object) -> float:
    return checks.number(path, value, 0.0, 100.0)


def _parameters(path: str, table: Mapping[str, Any], known: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the parameters that are set or have a default, after checks."""
    found: dict[str, Any] = {}
    for name, parameter in known.items():
        value = table.get(name, parameter.default)
        if value is None:
            continue
        if parameter.keys:
            _known(f"{path}.{name}", value, parameter.keys)
            found[name] = {
                key: checks.number(f"{path}.{name}.{key}", value.get(key), parameter.low, parameter.high)
                for key in parameter.keys
            }
        else:
            check: Any = checks.whole if parameter.integer else checks.number
            found[name] = check(f"{path}.{name}", value, parameter.low, parameter.high)
    return found


def _stages(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ProfileError("stages", value, "Give a list of stage names.")
    stages = tuple(checks.choice("stages", name, STAGES) for name in value)
    if stages.count(SCORE) != 1 or stages[-1:] != ("trim",):
        raise ProfileError("stages", list(stages), "Name 'score' once and 'trim' last.")
    for name, count in Counter(stages).items():
        if count > 1 and name not in REPEATABLE:
            raise ProfileError("stages", name, "Name it once.", f"has {shown(name)} twice")
    for position, name in enumerate(stages):
        if name != SCORE and STAGES[name].after_score != (position > stages.index(SCORE)):
            where = "after" if STAGES[name].after_score else "before"
            raise ProfileError("stages", name, f"Put it {where} 'score'.", f"has {shown(name)} in the wrong place")
    return stages


def _stage_parameters(tables: Mapping[str, Any], stages: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
    _known("stage", tables, stages)
    for name, table in tables.items():
        _known(f"stage.{name}", table, STAGES[name].parameters)
    return {name: _parameters(f"stage.{name}", tables.get(name, {}), STAGES[name].parameters) for name in set(stages)}


def _intent(name: str, table: Mapping[str, Any], terms: Iterable[Term]) -> IntentRule:
    path = f"intent.{name}"
    _known(path, table, ("words", "weights"))
    weights = _known(f"{path}.weights", _required("weights", table, path), [term.label for term in terms])
    words = checks.names(f"{path}.words", _required("words", table, path))
    return IntentRule(words, {label: _weight(f"{path}.weights.{label}", value) for label, value in weights.items()})


def _on_recall(table: object) -> OnRecall:
    known = _known("on_recall", table, ("access_count", "importance", "accessed_at", "activate"))
    return OnRecall(
        access_count=checks.whole("on_recall.access_count", known.get("access_count", 0), 0, 1000),
        importance=checks.number("on_recall.importance", known.get("importance", 0.0), 0.0, 1.0),
        accessed_at=checks.flag("on_recall.accessed_at", known.get("accessed_at", False)),
        activate=checks.flag("on_recall.activate", known.get("activate", False)),
    )


def _candidates(data: Mapping[str, Any]) -> tuple[int, int] | None:
    if "candidates" not in data:
        return None
    table = _known("candidates", data["candidates"], ("per_limit", "minimum"))
    names = (("per_limit", 1, 1000), ("minimum", 1, 100_000))
    per_limit, minimum = (
        checks.whole(f"candidates.{name}", _required(name, table, "candidates"), low, high) for name, low, high in names
    )
    return per_limit, minimum


def _confidence(data: Mapping[str, Any], terms: Iterable[Term]) -> Model | None:
    if "confidence" not in data:
        return None
    if "weak_below" in data:
        problem = "excludes the table [confidence], which judges hits"
        raise ProfileError("weak_below", data["weak_below"], "Leave out one of them.", problem)
    table = _known("confidence", data["confidence"], ("intercept", "weights", "confident_from", "possible_from"))
    names = [*FEATURES, *(term.label for term in terms)]
    weights = _known("confidence.weights", _required("weights", table, "confidence"), names)
    return Model(
        checks.number("confidence.intercept", _required("intercept", table, "confidence"), -100.0, 100.0),
        {name: checks.number(f"confidence.weights.{name}", weight, -100.0, 100.0) for name, weight in weights.items()},
        checks.number("confidence.confident_from", table.get("confident_from", 0.5), 0.0, 1.0),
        checks.number("confidence.possible_from", table.get("possible_from", 0.25), 0.0, 1.0),
    )


def _optional(path: str, value: object, low: float, high: float) -> float | None:
    return None if value is None else checks.number(path, value, low, high)


def _tables(name: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    tables: Any = data.get(name, {})
    if not isinstance(tables, Mapping) or not all(isinstance(table, Mapping) for table in tables.values()):
        raise ProfileError(name, tables, f"Write its entries as tables: [{name}.NAME].")
    return tables


def _known(path: str, table: object, keys: Iterable[str]) -> Mapping[str, Any]:
    """Return `table` if it is a table with no other keys than `keys`."""
    if not isinstance(table, Mapping):
        raise ProfileError(path, table, f"Write it as a table: [{path}].")
    choices = sorted(set(keys))
    for key in table:
        if key not in choices:
            where = f"{path}.{key}" if path else key
            raise ProfileError(where, key, f"Known keys here: {', '.join(choices) or 'none'}.", "is an unknown key")
    return table


def _required(key: str, table: Mapping[str, Any], path: str = "") -> Any:
    if key not in table:
        raise ProfileError(f"{path}.{key}" if path else key, None, "Set it.")
    return table[key]
