"""Answers of recalls and writes: hits with their score details, explanations, receipts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final, Literal, get_args

from salience.records.ids import short_id
from salience.records.memory import Memory, OutOfScope, Scope
from salience.records.query import Intent


@dataclass(frozen=True, slots=True)
class Part:
    """One signal's share of a score.

    Attributes:
        signal: the signal's name, or the label that the profile gives it.
        raw: value of the signal.
        weight: weight of the signal in the profile.
        contribution: `weight * raw` if the part is added, `raw ** weight` if it multiplies.
        combine: `sum` or `product`.
    """

    signal: str
    raw: float
    weight: float
    contribution: float
    combine: Literal["sum", "product"]


@dataclass(frozen=True, slots=True)
class Via:
    """The memory that gave a hit its score: by spreading activation, or because the hit replaces it.

    Attributes:
        id: the parent memory.
        score: the parent's score.
        factor: factor of one hop, > 0.
        hops: number of hops.
        link: `neighbour` (similar vectors), `entity` (a shared name), `update` (the hit replaces the parent).
    """

    id: str
    score: float
    factor: float
    hops: int
    link: Literal["neighbour", "entity", "update"]

    @property
    def activation(self) -> float:
        """The score that reaches the hit: `score * factor ** hops`."""
        return self.score * self.factor**self.hops


@dataclass(frozen=True, slots=True)
class ScoreDetail:
    """The parts of a score: the sum of the `sum` parts times the product of the `product` parts.

    The raw value of a part is also an attribute: `score_detail.similarity`, or by its label, `score_detail.cosine`.

    Attributes:
        parts: in the profile's order.
        final: the score, equal to `recompute()` within 1e-9.
        via: the memory that gave this one a higher score than its own, if any.
    """

    parts: tuple[Part, ...]
    final: float
    via: Via | None = None

    def recompute(self) -> float:
        """Return the score computed from the parts, or from `via`."""
        if self.via is not None:
            return self.via.activation
        summed = [part.contribution for part in self.parts if part.combine == "sum"]
        score = sum(summed) if summed else 1.0
        for part in self.parts:
            if part.combine == "product":
                score *= part.contribution
        return score

    def __getattr__(self, name: str) -> float:
        if name != "parts":  # missing while the object is unpickled
            for part in self.parts:
                if part.signal == name:
                    return float(part.raw)
        raise AttributeError(f"score_detail has no part {name!r}")

    def as_dict(self) -> dict[str, Any]:
        """Return the detail as JSON values."""
        parts = {
            part.signal: {
                "raw": part.raw,
                "weight": part.weight,
                "contribution": part.contribution,
                "combine": part.combine,
            }
            for part in self.parts
        }
        via = None if self.via is None else {item.name: getattr(self.via, item.name) for item in fields(self.via)}
        return {"parts": parts, "final": self.final, "via": via}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ScoreDetail:
        """Return the detail that `as_dict` wrote."""
        parts = tuple(Part(signal=name, **part) for name, part in data["parts"].items())
        return cls(parts, data["final"], None if data["via"] is None else Via(**data["via"]))


Verdict = Literal["answers", "may answer", "does not answer"]
"""Whether a memory answers a question, as its confidence says."""
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
"""The verdicts, the best first."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that a recall returned, with its score.

    Attributes:
        memory: the memory before this recall.
        score: larger is better; the scale depends on the profile.
        score_detail: recomputes to `score` within 1e-9.
        via: the memory that gave the hit a higher score than its own, if any.
        absorbed: ids of near-duplicates that were collapsed into this hit, best first.
        rerank: the reranker's score, which orders the hits; None without a reranker.
        verdict: `answers` if its confidence is at least the profile's `confident_from`, `may answer` if it is at least
            `possible_from`, else `does not answer`. Without a `[confidence]`, a score below `weak_below` does not.
        weak: whether the verdict is not `answers`.
        confidence: calibrated probability, [0, 1], that the memory answers the query; None if the profile has no
            `[confidence]`. A reranker does not change it.
    """

    memory: Memory
    score: float
    score_detail: ScoreDetail
    via: Via | None = None
    absorbed: tuple[str, ...] = ()
    rerank: float | None = None
    weak: bool = False
    confidence: float | None = None
    verdict: Verdict = "answers"

    def __str__(self) -> str:
        """Return one line: score, verdict unless it answers, and the line of the memory."""
        return " ".join((f"{self.score:.3f}", *said(self), str(self.memory)))

    def __repr__(self) -> str:
        return f"Hit({self})"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 session`, `2,000 sessions`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def said(hit: Hit) -> tuple[str, ...]:
    """Return the verdict of a hit, if a reader has to know it: unless the hit answers."""
    return () if hit.verdict == "answers" else (hit.verdict,)


def emptied(names: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence such as `tags and kinds leave out every memory in view`; empty without names."""
    return (f"{' and '.join(names)} {'leave' if names[1:] else 'leaves'} out every memory in view",) if names else ()


def replacement(memory: Memory) -> tuple[str, ...]:
    """Return by what a memory is replaced, such as `replaced on 3 May 2026 by c7a0db33`; empty if it is not."""
    return () if memory.replaced_by is None else (str(memory.replaced_by),)


@dataclass(frozen=True, slots=True)
class Recall(Sequence[Hit]):
    """The answer to a query: a sequence of hits, best first.

    Attributes:
        hits: the hits.
        profile: name of the profile that ranked them.
        intent: the detected intent of the query.
        exact: whether no visible memory outside the candidates could have reached the answer.
        degraded: steps that failed: `embedding` (the answer is lexical), `rerank` (the order is the profile's),
            `touch` (the recall counters are not written).
        timings: milliseconds by step.
        reranker: name of the reranker that ordered the hits; None: the order is the profile's.
        confident: whether at least one hit answers, which `verdict` says in three words.
        out_of_scope: if there are no hits, at most five places with memories that the call would see if it named their
            project, user or agent; those with the most memories first. With hits from a file, the place of a memory
            that would be above the first one.
        corrected: misspelt word of the query, which no visible memory contains -> the similar word that was searched.
        emptied_by: if there are no hits, the arguments that leave out every visible memory: a `limit` of 0, an `as_of`
            before the first of them, a `min_score` above all scores; or the conditions of which each, left out alone,
            would let some pass; else all conditions, if they do so together.
    """

    hits: tuple[Hit, ...]
    profile: str
    intent: Intent = Intent()
    exact: bool = True
    degraded: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)
    reranker: str | None = None
    confident: bool = True
    out_of_scope: tuple[OutOfScope, ...] = ()
    corrected: Mapping[str, str] = field(default_factory=dict)
    emptied_by: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The best verdict of the hits; `does not answer`, also without hits: no memory clearly answers the query."""
        return min((hit.verdict for hit in self.hits), key=VERDICTS.index, default="does not answer")

    def __repr__(self) -> str:
        count = "1 hit" if len(self.hits) == 1 else f"{len(self.hits):,} hits"
        best = [f"best {self.hits[0]}"] if self.hits else []
        degraded = [f"without {', '.join(self.degraded)}"] if self.degraded else []
        hints = [*(place.describe() for place in self.out_of_scope), *emptied(self.emptied_by)]
        return f"Recall({'; '.join([f'{count}, profile {self.profile}', *best, *degraded, *hints])})"

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: Any) -> Any:
        return self.hits[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


@dataclass(frozen=True, slots=True)
class LoggedHit:
    """A hit of a logged recall: the id of its memory, and `score`, `confidence` and `score_detail` as in `Hit`."""

    id: str
    score: float
    confidence: float | None
    score_detail: ScoreDetail


@dataclass(frozen=True, slots=True)
class LoggedRecall:
    """An entry of the recall log.

    Attributes:
        id: ids sort by the time of the recalls.
        at: instant of the recall.
        expires_at: when the entry is deleted.
        scope: of the caller.
        question: the text of the query.
        profile: name of the profile that ranked the hits.
        limit, min_score, now, as_of: as the caller gave them.
        filter: the conditions on memories that the caller gave, as JSON values by their names in `Filter`.
        confident: as in `Recall`.
        count: number of hits of the answer.
        hits: the first of them, at most 20.
        timings: milliseconds by step.
    """

    id: str
    at: datetime
    expires_at: datetime
    scope: Scope
    question: str
    profile: str
    limit: int | None = None
    min_score: float | None = None
    filter: Mapping[str, Any] = field(default_factory=dict)
    now: datetime | None = None
    as_of: datetime | None = None
    confident: bool = True
    count: int = 0
    hits: tuple[LoggedHit, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)

    @property
    def cited(self) -> frozenset[str]:
        """The ids of all memories that the entry names."""
        vias = (hit.score_detail.via for hit in self.hits)
        return frozenset([*(hit.id for hit in self.hits), *(via.id for via in vias if via is not None)])


class Erased(int):
    """The number of memories that `erase` deletes.

    Attributes:
        recalls: number of entries of the recall log that it deletes.
        pending: whether bytes of the texts may be left in unused pages of a file, or in its log, until upkeep has run.
    """

    recalls: int
    pending: bool

    def __new__(cls, erased: int, recalls: int = 0, pending: bool = False) -> Erased:
        """Return the number `erased` with the attributes `recalls` and `pending`."""
        made = super().__new__(cls, erased)
        made.recalls = recalls
        made.pending = pending
        return made


@dataclass(frozen=True, slots=True)
class Waypoint:
    """One step of a memory on its way through a recall.

    Attributes:
        stage: `scope`, `filter`, `candidates`, a stage of the profile, or `rerank`.
        outcome: result for the memory; `revived`: spreading activation brought it back.
        note: the deciding number or memory, or empty.
    """

    stage: str
    outcome: Literal["passed", "fell", "revived", "not reached"]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a memory is, or is not, in the answer to a query.

    `stage` is `returned`, or the reason why not: `out_of_scope` (another project, agent or environment, or no user),
    `forgotten` (or expired, or stale), `not_stored` (at the instant of the query), `filtered`, `candidates` (its cosine
    is too low to be ranked), `outranked`, `rerank`, or the stage of the profile that dropped it: `expired`,
    `superseded`, `replaced`, `same_fact`, `importance_floor`, `similarity_floor`, `shortlist`, `nonzero`, `threshold`,
    `cut_off`, `same_statement`, `near_duplicate`.

    Attributes:
        id: whole id of the memory.
        stage: one of the above.
        reason: the same as a sentence, with numbers.
        by: id of the other memory that decided: it supersedes this one, is newer, is the one that this one was
            collapsed into, or passed its score on; for a rank below the first, the first hit. None: no other memory.
        rank: position from 1 among the scored memories at the stage that dropped it, or in the answer; None if it was
            dropped before scoring.
        score_detail: the score that this recall computes for the memory. A memory that scope, filter or candidates left
            out is scored beside the ranked ones. None for a memory that is forgotten or not stored.
        path: the steps in order.
        counterfactual: the change that would put the memory first, else return it, else rank it higher, found by
            ranking again with that change; None if there is no simple one.
        change: the counterfactual as arguments: of recall (`limit`, `min_score`, a coordinate of the scope; a filter
            is None, to leave it out), of `update` of the memory (`importance`, `weight`, `ttl`, `fact_key`,
            `supersedes`, `tags`), `dismiss`, the arguments of that verb, or `forget`, the id of another memory. Empty
            if there is none, or no argument makes it.
        profile: name of the profile.
        degraded: as in `Recall`.
        confidence: the hit's confidence; None if the memory is not returned, or the profile has no `[confidence]`.
        confidence_parts: the terms of a sum x with `confidence` = 1 / (1 + exp(-x)): the intercept, then the features.
        above: what put the first hit, `by`, above this memory: a part per signal, each with the first hit's value and
            contribution minus this memory's; the contributions add up to the difference of the scores. The part `via`
            is what a score passed on adds to one's own. Empty if the memory is the first, or is not ranked.
    """

    id: str
    stage: str
    reason: str
    by: str | None
    rank: int | None
    score_detail: ScoreDetail | None
    path: tuple[Waypoint, ...]
    counterfactual: str | None
    profile: str
    degraded: tuple[str, ...] = ()
    confidence: float | None = None
    confidence_parts: tuple[Part, ...] = ()
    change: Mapping[str, Any] = field(default_factory=dict)
    above: tuple[Part, ...] = ()

    def __repr__(self) -> str:
        rank = "" if self.rank is None else f" at rank {self.rank}"
        change = [self.counterfactual] if self.counterfactual else []
        return f"Explanation([{short_id(self.id)}] {self.stage}{rank}: {' '.join([self.reason, *change])})"


@dataclass(frozen=True, slots=True)
class Missed:
    """A memory that a recall does not return: its score, the stage that dropped it, and its rank, if it was ranked."""

    memory: Memory
    stage: str
    score: float
    rank: int | None


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of all candidates of a recall.

    Attributes:
        candidates: number of ranked memories.
        dropped: stage, as in `Explanation` -> number of memories that it dropped, in the order of the stages.
        histogram: numbers of scored memories in equal bins from 0 to `high`.
        high: the greatest score.
        cut: the least score in the answer; None for an empty answer.
        missed: the best memories that are not returned, best first.
    """

    candidates: int
    dropped: Mapping[str, int]
    histogram: tuple[int, ...]
    high: float
    cut: float | None
    missed: tuple[Missed, ...]


@dataclass(frozen=True, slots=True)
class DecayCurve:
    """How the score of a memory fades: the share that its age leaves, [0, 1], at equal steps from now on."""

    id: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ProfileSignal:
    """A signal of a profile: its label in `score_detail`, its name, how it counts, and its parameters."""

    label: str
    signal: str
    combine: Literal["sum", "product"]
    weight: float
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProfileInfo:
    """A ranking profile.

    Attributes:
        name, summary: shown to users.
        limit: default number of hits.
        toml: its text, which `recall` accepts too; None for a profile that was changed after it was read.
        is_default: whether recalls that name no profile use it.
        signals: with their weights and parameters, such as half-lives.
        stages, stage_parameters: names of the stages in order, and parameters by name.
        decay: the share that age leaves of the score of an episodic memory that no recall returns, after 0, 1, ... 30
            days; empty if the ranking does not depend on age.
    """

    name: str
    summary: str
    limit: int
    toml: str | None
    is_default: bool
    signals: tuple[ProfileSignal, ...]
    stages: tuple[str, ...]
    stage_parameters: Mapping[str, Mapping[str, Any]]
    decay: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SignalInfo:
    """A signal that a profile can use: its meaning, the range of its values, and whether it favours recent memories."""

    name: str
    meaning: str
    low: float
    high: float
    decays: bool


@dataclass(frozen=True, slots=True)
class StageInfo:
    """A stage that a profile can use, and its meaning."""

    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Profiles:
    """The ranking profiles, and the signals and stages of which profiles are made."""

    profiles: tuple[ProfileInfo, ...]
    signals: tuple[SignalInfo, ...]
    stages: tuple[StageInfo, ...]


Label = Literal["duplicate", "update", "contradiction", "related"]
"""Relation of a new memory to a similar older one."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A live memory that is similar to a new one and may conflict with it.

    Attributes:
        memory: the older memory.
        similarity: cosine to the new one, [0, 1], on the profile's threshold scale.
        label: relation found by rules or a judge: `duplicate` (both say the same), `update` (the new one says
            something else about the same thing), `contradiction` (both cannot be true), `related` (none of these).
            None: not among the ten most similar, which alone are compared.
        because: evidence for the label, such as `number: 30 -> 40` or `judge: openai:model`.
    """

    memory: Memory
    similarity: float
    label: Label | None = None
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of a write, which is durable when the receipt is returned.

    Attributes:
        memory: the memory after the write.
        status: `created`; `superseded` (created, and another memory replaced); `pending` (created without a vector for
            now: searches find its words only); `updated`; `forgotten`; `restored`; `unchanged` (the key, id, version or
            text was stored already).
        superseded: id of the memory that recalls no longer return because of this write: the superseded one, else the
            former latest one of the same fact; also with the status `pending`, `updated` or `restored`.
        contradictions: memories that may conflict, most similar first; they never block the write.
        warning: text for an agent to read: the replaced memory and how to bring it back, the contradictions, why the
            vector is pending, that the text was stored already, or that the memory of the key was forgotten.
    """

    memory: Memory
    status: Literal["created", "superseded", "pending", "updated", "forgotten", "restored", "unchanged"]
    contradictions: tuple[Contradiction, ...] = ()
    warning: str | None = None
    superseded: str | None = None

    def __repr__(self) -> str:
        superseded = [f"supersedes {self.superseded}"] if self.superseded else []
        conflicts = [f"contradictions: {len(self.contradictions)}"] if self.contradictions else []
        return f"Receipt({'; '.join([f'{self.status} {self.memory}', *superseded, *conflicts])})"


@dataclass(frozen=True, slots=True)
class Context:
    """Memories as text for a prompt.

    Attributes:
        text: a line per memory (short id, day, marks, content), as quoted data; further lines of a content are
            indented. Empty if nothing fits.
        hits: the memories in the text: bootstrap memories first, then hits in order. The text may have only the
            beginning of the first hit, and then says so.
        tokens: estimated tokens of `text`, never over the budget.
        omitted: number of memories left out because the budget was full.
        confident, verdict: as in `Recall`, for the recalled hits.
        out_of_scope, degraded, emptied_by: as in `Recall`.
    """

    text: str
    hits: tuple[Hit, ...]
    tokens: int
    omitted: int = 0
    confident: bool = True
    out_of_scope: tuple[OutOfScope, ...] = ()
    verdict: Verdict = "answers"
    degraded: tuple[str, ...] = ()
    emptied_by: tuple[str, ...] = ()
