"""What the engine asks of the world, and the values it asks with: protocols, needs and changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, runtime_checkable

from salience.batch import Batch, Floats, Vectors32
from salience.records import Filter, Intent, Memory, Receipt, Scope
from salience.text import Tokeniser

EDGE: Final = 1e-6
"""Cosines are float32: two numbers nearer than this count as equal where one is a threshold."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the cosines of an embedder mean.

    Attributes:
        cosine, relatedness: knots of a rising line from raw cosine to the relatedness that people see, [0, 1].
        paraphrase: raw cosine from which two texts count as saying the same.
        source: the data that it was fitted on.
    """

    cosine: tuple[float, ...]
    relatedness: tuple[float, ...]
    paraphrase: float
    source: str


@runtime_checkable
class Embedder(Protocol):
    """Texts to vectors. `name` and `dimension` are pinned to the store at its first write."""

    @property
    def name(self) -> str:
        """The model, as it is pinned."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], a row a text; the engine scales rows to length 1."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Reads a query and a text together and says how well the one answers the other."""

    @property
    def name(self) -> str:
        """The model, as it is told in a recall."""
        ...

    def scores(self, query: str, texts: Sequence[str], /) -> Floats:
        """Return float64[len(texts)], larger for a better answer; the scale is the model's own."""
        ...


@dataclass(frozen=True, slots=True)
class Extract:
    """What a text says of itself: importance in [0, 1] and the entities that it names."""

    importance: float
    entities: tuple[str, ...]


class Extractor(Protocol):
    """Reads a text for what its caller did not say."""

    def extract(self, content: str) -> Extract:
        """Return the importance and entities of `content`."""
        ...


Distinguish = Callable[[str, str | None], tuple[str, ...]]
"""From a text and its speaker to `Stored.distinctions`."""


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """Ask for the memories whose cosine to any of `vectors` (float32[m, d], unit rows) is above `above` (raw)."""

    vectors: Vectors32
    above: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Need:
    """What a store has to bring, and what ranking has to know besides.

    Candidates are the live memories that are visible in `scope` and pass `filter`; of these, those named by `ids`,
    those `near` some vectors, or the `candidates` nearest to `vector` (ties by id). Expired and superseded memories
    are among them: to drop those is a matter of ranking.

    The context of a memory are the memories before and after it in its session, in the order of `created_at`, then
    `turn`, then id: those that are live, visible in `scope` and not expired at `now`, whether they pass `filter` or
    not. It is read anew each time, so that a turn that comes late, an edit and a forgotten neighbour are all heeded.
    An expired memory, and one of no session, is alone.

    The `successor` of a memory is the one that supersedes it, else the one of the same fact that was updated last (of
    two at one instant, the one with the greater id): among those that are live, visible and not expired, whether they
    pass `filter` or not. Of several that supersede it, it is the one with the greatest id.

    Attributes:
        columns: names from `batch.COLUMNS` to bring.
        vector: unit vector of the query, float32[d]; None leaves `cosine` at 0.
        terms: distinct terms of the query; not empty asks for `Batch.lexicon`.
        voice: unit vector of the query as a speaker whom it names would put it; `cosine` and `context_cosine` of a
            memory that somebody said are to it, if it is given, those of others to `vector`.
        windows: whether to bring `Batch.windows` too, if there are terms.
        names: casefolded names that the query may mean; `Batch.entities.of_query` are those known among them.
        speakers: names of those who speak, in normal form; `speaker_named` tells the memories of a speaker whom one
            of them means (see `Store.speakers`), and those that nobody said and whose entities hold one of them.
        anchor: those of `terms` that name the event which bounds the query's time (see `TimeCue`).
        entities, vectors, distinctions: whether to bring `Batch.entities`, `Batch.vectors`, `Batch.distinctions`.
        now, limit, min_score, intent: for ranking.
        depth: how many of the best ranking is to return where a reranker chooses among them; None: as many as `limit`.
        calibration: what cosines mean under the engine's embedder; `calibrated` asks for similarities on its scale.
    """

    scope: Scope
    now: datetime
    filter: Filter = Filter()
    columns: frozenset[str] = frozenset()
    vector: Vectors32 | None = None
    voice: Vectors32 | None = None
    terms: tuple[str, ...] = ()
    windows: bool = False
    names: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    anchor: tuple[str, ...] = ()
    entities: bool = False
    vectors: bool = False
    distinctions: bool = False
    candidates: int | None = None
    ids: tuple[str, ...] | None = None
    near: Near | None = None
    limit: int = 5
    depth: int | None = None
    min_score: float | None = None
    intent: Intent = Intent()
    calibration: Calibration | None = None
    calibrated: bool = False

    @property
    def wanted(self) -> int:
        """How many of the best ranking is to return."""
        return self.limit if self.depth is None else self.depth


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A memory with what is derived from it.

    Attributes:
        memory: the record.
        vector: float32[d] of length 1; None while no vector is known.
        terms: terms of the text in order, with repetitions.
        activations: session key -> turn at which a recall in that session last returned the memory.
        distinctions: what tells the text from others, each `kind:value` with a kind of `batch.KINDS`; none: unknown.
    """

    memory: Memory
    vector: Vectors32 | None
    terms: tuple[str, ...]
    activations: Mapping[str, int]
    distinctions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Add:
    """Store a new memory.

    A memory whose idempotency key is taken in its home, or whose id is taken in its tenant, is left as it is
    (`unchanged`) when the content is the same, and refused with `ConflictError` when it is not, or when it is a later
    version of what is there. A memory in a session without a `turn` gets the session's next one.

    Attributes:
        stored: the memory.
        history: its older versions, oldest first, where it comes from another store; kept as its versions here.
    """

    stored: Stored
    history: tuple[Stored, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Revise:
    """Put the next version in the place of a memory; the version before it is kept.

    The recall counters are never stepped back, and importance, which recalls raise too, is left as it stands unless
    the change is meant to set it.

    Attributes:
        memory: the new version; `memory.version - 1` must be the current one, else `StaleError`.
        sets_importance: whether `memory.importance` is to be taken.
        vector, terms, distinctions: None where the content is as before.
    """

    memory: Memory
    vector: Vectors32 | None = None
    terms: tuple[str, ...] | None = None
    sets_importance: bool = False
    distinctions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """Record that a recall returned memories; counters, not versions. Ids that are gone are passed over.

    Attributes:
        scope: whose recall; its `session_key` (if any) moves on by one turn.
        accessed_at: None leaves it, and so does an instant before the one that is there.
        access_count, importance: added; importance stops at 1.
        activate: note the session's new turn on each memory.
    """

    scope: Scope
    ids: tuple[str, ...]
    accessed_at: datetime | None = None
    access_count: int = 0
    importance: float = 0.0
    activate: bool = False


Change = Add | Revise | Touch


class Store(Protocol):
    """Where memories are kept. `testing/store_contract.py` is the law that every store keeps."""

    def apply(self, changes: Sequence[Change]) -> list[Receipt]:
        """Make all changes in one transaction or none; return a receipt for each `Add` and `Revise`, in order."""
        ...

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id."""
        ...

    def fetch(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        """Return the live memories of these ids (whole or short) visible in `scope`, as asked, absent ones left out.

        A short id that fits several visible memories fits none.
        """
        ...

    def speakers(self, scope: Scope, names: Sequence[str]) -> list[str]:
        """Return who said live memories visible in `scope` and is meant by one of some names, sorted and distinct.

        A name, in normal form, means the speakers whose own name, or the first word of it, is equal to it in that form.
        """
        ...

    def keyed(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories, forgotten ones too, that live at `home` under these idempotency keys, in any order."""
        ...

    def scan(
        self,
        scope: Scope,
        after: str = "",
        limit: int = 100,
        filter: Filter = Filter(),
        *,
        forgotten: bool = False,
        versions: bool = False,
    ) -> list[Stored]:
        """Return up to `limit` visible memories whose id is greater than `after`, in the order of ids.

        `forgotten` includes forgotten ones. `versions` adds the older versions of each, before the current one; they
        do not count towards `limit`.
        """
        ...

    def close(self) -> None:
        """Release the file or connection; further calls raise `StoreError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class World:
    """What an engine stands on, handed to every story.

    Attributes:
        store, embedder, extractor: the ports.
        tokeniser: text to terms, in the store's language.
        calibration: what the embedder's cosines mean.
        clock: returns an aware UTC instant.
        new_id: returns a new id for an instant; ids sort by the order of the calls.
        tenant: of every memory and query.
        content_limit: longest content or query, bytes in UTF-8.
        reranker: puts the best memories of a recall in another order; None: the profile's order stands.
        rerank_top: how many of the best it reads, or as many as are asked for where that is more.
    """

    store: Store
    embedder: Embedder
    extractor: Extractor
    tokeniser: Tokeniser
    calibration: Calibration
    clock: Callable[[], datetime]
    new_id: Callable[[datetime], str]
    tenant: str
    content_limit: int
    reranker: Reranker | None = None
    rerank_top: int = 20
