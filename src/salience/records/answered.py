"""What comes back: hits with their scores taken apart, receipts, pages, counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from salience.records.asked import Intent
from salience.records.stored import Memory, OutOfScope


@dataclass(frozen=True, slots=True)
class Part:
    """One signal's share of a score.

    Attributes:
        signal: the signal's name, or the label that the profile gives it.
        raw: what the signal measured.
        weight: what the profile makes of it.
        contribution: `weight * raw` where the part is summed, `raw ** weight` where it multiplies.
        combine: `sum` or `product`.
    """

    signal: str
    raw: float
    weight: float
    contribution: float
    combine: Literal["sum", "product"]


@dataclass(frozen=True, slots=True)
class Via:
    """The memory whose score a hit took over, as a whole or in part: by spreading activation, or as its update.

    Attributes:
        id: the parent memory.
        score: the parent's score.
        factor: what a hop makes of it, > 0.
        hops: how many hops away.
        link: `neighbour` (vectors), `entity` (a shared name), `update` (the hit says the same, later).
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
    """A score taken apart: the sum of the summed parts, times the product of the multiplying ones.

    A part's raw value is also an attribute: `score_detail.similarity`, or by its label, `score_detail.cosine`.

    Attributes:
        parts: in the profile's order.
        final: the score, equal to `recompute()` within 1e-9.
        via: set where another memory gave this one more than its own score.
    """

    parts: tuple[Part, ...]
    final: float
    via: Via | None = None

    def recompute(self) -> float:
        """Return the score from the parts (or from the parent, where the score is one that it gave)."""
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


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that a recall returned, with its score taken apart.

    Attributes:
        memory: the memory as it stood before this recall.
        score: larger is better; the scale is the profile's.
        score_detail: recomputes to `score` within 1e-9.
        via: the parent that gave the hit more than its own score, else None.
        absorbed: ids of the near-duplicates that were collapsed into this hit, best first.
        rerank: the reranker's number, on its own scale, by which the hits stand in order; None where none was at work.
        weak: whether the memory fits the query so little that it may not answer it (the profile's `weak_below`).
    """

    memory: Memory
    score: float
    score_detail: ScoreDetail
    via: Via | None = None
    absorbed: tuple[str, ...] = ()
    rerank: float | None = None
    weak: bool = False

    def __str__(self) -> str:
        """Return one line: score, whether it is weak, short id, kind, day and content, which is shortened."""
        return f"{self.score:.3f} {'weak ' if self.weak else ''}{_line(self.memory)}"

    def __repr__(self) -> str:
        return f"Hit({self})"


def _line(memory: Memory, width: int = 80) -> str:
    """Return a memory on one line: its content has at most `width` characters, those that show nothing as escapes."""
    content = " ".join(memory.content.split())
    short = content if len(content) <= width else content[: width - 1].rstrip() + "…"
    return f"[{memory.short_id}] {repr(memory.kind)[1:-1]} {memory.created_at:%Y-%m-%d} {short!r}"


@dataclass(frozen=True, slots=True)
class Recall(Sequence[Hit]):
    """The answer to a query: a sequence of hits, best first, and how it came about.

    Attributes:
        hits: the hits.
        profile: the name of the profile that ranked them.
        intent: what the query was taken to be after.
        exact: whether no visible memory outside the candidates could have reached the answer.
        degraded: the steps that could not do their work: `embedding` (the answer is lexical), `rerank` (the order is
            the profile's), `touch` (its counters are not written); empty when all is well.
        timings: milliseconds by step.
        reranker: the name of the reranker that put the hits in order; None where it is the profile's order.
        confident: whether at least one hit is not weak; False means that probably no memory answers the query.
        out_of_scope: of an answer without hits: places with memories that a call would see if it named their project,
            user or agent too, those with the most memories first, at most five.
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

    def __repr__(self) -> str:
        count = "1 hit" if len(self.hits) == 1 else f"{len(self.hits):,} hits"
        best = [f"best {self.hits[0]}"] if self.hits else []
        degraded = [f"without {', '.join(self.degraded)}"] if self.degraded else []
        elsewhere = [place.told() for place in self.out_of_scope]
        return f"Recall({'; '.join([f'{count}, profile {self.profile}', *best, *degraded, *elsewhere])})"

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: Any) -> Any:
        return self.hits[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


@dataclass(frozen=True, slots=True)
class Waypoint:
    """One step of a memory's path through a recall.

    Attributes:
        stage: `scope`, `filter`, `candidates`, a stage of the profile, or `rerank`.
        outcome: what became of the memory there; `revived`: activation brought it back.
        note: the number or memory that decided; empty where there is none.
    """

    stage: str
    outcome: Literal["passed", "fell", "revived", "not reached"]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a memory is, or is not, in the answer to a query.

    Its `stage` is `returned`, or what kept the memory from it: `out_of_scope` (the project, user, agent or environment
    of the call hides it), `forgotten` (or put away when its time had run out, or a source of it was changed),
    `not_stored` (at the instant that is asked for), `filtered`, `candidates` (too far down by cosine to be ranked),
    `outranked`, `rerank`, or the stage of the profile at which it fell: `expired`, `superseded`, `outdated`,
    `same_fact`, `importance_floor`, `similarity_floor`, `nonzero`, `threshold`, `cut_off`, `near_duplicate`.

    Attributes:
        id: the memory, by its whole id.
        stage: one of the above.
        reason: the same as a sentence, with its numbers.
        by: id of the other memory that decided: the one that supersedes it, is newer, absorbed it or passed its score
            on to it; of an outranked one, the last in the answer. None where no other did.
        rank: its place, from 1, among the memories with a score that met the stage at which it fell, or in the answer.
            None if it fell before there were scores.
        score_detail: the score taken apart as this recall computed it, whatever became of the memory. What a signal
            measures against other memories, it measures against those in the running. Of a memory that the scope, the
            filter or the list of candidates kept away, it is the score beside the memories that were ranked. None for
            one that was forgotten, or not stored yet.
        path: the steps in order.
        counterfactual: the one change that would have it returned, or else ranked higher, found by ranking again under
            that change; None if there is no simple one.
        profile: the name of the profile.
        degraded: as in `Recall`.
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


Label = Literal["duplicate", "update", "contradiction", "related"]
"""What a new memory is to one that is there and much like it."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A live memory that says nearly what a new one says, and so may conflict with it.

    Attributes:
        memory: the memory that was there.
        similarity: cosine to the new one, [0, 1] (on the profile's threshold scale).
        label: what the two are to each other, as far as rules or a judge tell: `duplicate` (they say the same),
            `update` (the new one says something else of the same thing, later), `contradiction` (both cannot hold),
            `related` (neither).
            None of one that is not among the ten most similar: those are not read.
        because: what gave the label away, such as `number: 30 -> 40`, or who gave it, such as `judge: openai:model`.
    """

    memory: Memory
    similarity: float
    label: Label | None = None
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a write did; when it is returned, the write is durable.

    Attributes:
        memory: the memory as it now stands.
        status: `created`; `superseded` (created, in the place of another one); `pending` (created, its vector is still
            to come: words find it, likeness does not yet); `updated`; `forgotten`; `restored`; `unchanged` (the key,
            id, version or text was already there).
        superseded: id of the memory that recalls no longer return because of this write: the one that it was told to
            supersede, else the former latest one of the same fact; also where the status is `pending`, `updated` or
            `restored`. None: no such memory.
        contradictions: memories that may conflict, most similar first; they never block the write.
        warning: text for an agent to read: which memory this one replaces and how to bring it back, the contradictions,
            why the vector is pending, that the text was already there, or that the memory of the key was forgotten;
            else None.
    """

    memory: Memory
    status: Literal["created", "superseded", "pending", "updated", "forgotten", "restored", "unchanged"]
    contradictions: tuple[Contradiction, ...] = ()
    warning: str | None = None
    superseded: str | None = None

    def __repr__(self) -> str:
        superseded = [f"supersedes {self.superseded}"] if self.superseded else []
        conflicts = [f"contradictions: {len(self.contradictions)}"] if self.contradictions else []
        return f"Receipt({'; '.join([f'{self.status} {_line(self.memory)}', *superseded, *conflicts])})"


@dataclass(frozen=True, slots=True)
class Context:
    """Memories packed for a prompt.

    Attributes:
        text: quoted data, one JSON line a memory; empty when nothing fits.
        hits: what was packed: bootstrap memories first, then hits in their order.
        tokens: the estimate for `text`, never over the budget.
        omitted: how many memories were left out because the budget was full.
        confident: as in `Recall`, of the hits that were recalled for the question.
        out_of_scope: as in `Recall`, where nothing was found.
    """

    text: str
    hits: tuple[Hit, ...]
    tokens: int
    omitted: int = 0
    confident: bool = True
    out_of_scope: tuple[OutOfScope, ...] = ()
