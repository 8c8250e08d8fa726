"""Search an index for the candidates of a need, and read their columns. Pure NumPy; exact.

A pruned search returns the memories that may be among the best by score. It computes an upper bound of every score: the
inner products of int8 vectors give each cosine within a proven error, and the shares of terms and names are exact. It
scores the memories with the greatest bounds exactly, and leaves out memories whose bound is below the score that enough
of them reach.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import (
    COLUMNS,
    CORRECTED,
    PRODUCTS,
    ROUNDING,
    Batch,
    Column,
    Entities,
    Floats,
    Lexicon,
    Postings,
    Ragged,
    Rows,
    Vectors,
    Vectors32,
    cosines,
    int8_products,
    offsets_of,
    rows_above,
)
from salience.ports import Need, Pruning, Selection, SessionSpan
from salience.records import FACETS, NARROWING, TAG, TIERS, Filter, OutOfScope, Scope
from salience.store.index.columns import NEVER, Bools, Index, distinction_codes, quantised
from salience.store.index.view import Floats32, Occurrences, Places, View, live, view_of, visible
from salience.store.values import MICROSECONDS, instant, microseconds
from salience.text import similar_term, similar_terms

_NO_FILTER: Final = Filter()
_SLACK: Final = 1e-4
"""More than rounding changes a score whose weights sum to 1."""
_UNPRUNED: Final = 256
"""Up to this many memories are all returned: pruning would save nothing."""
_FILTERED: Final = 256
"""If at most 1/256 of the view passes the filter, these are all returned: scoring them is faster than a first pass."""
_FEW: Final = 8
"""Memories outside the scope to return."""
_SCORED_FIRST: Final = 3
"""Memories scored exactly first, per wanted memory, to find the score from which memories are returned."""
_MARGIN: Final = 0.95
"""Factor on that score, since factors unknown to the store differ between memories."""
_BLOCKS: Final = 64
_LEVELS: Final = 512
"""Steps per unit of cosine in the table of relatedness bounds."""
_SECOND: Final = 1.0
"""More than rounding moves an instant, in seconds."""


@dataclass(frozen=True, slots=True)
class Activations:
    """The recalls of a session: its clock, and id -> the turn at which it last returned that memory."""

    clock: int = 0
    turns: Mapping[str, int] = field(default_factory=dict)


def gather(
    index: Index, need: Need, activations: Activations = Activations(), having: Sequence[str] | None = None
) -> Batch:
    """Return the candidates of `need`, ordered by id.

    Args:
        index: the tenant's memories.
        need: the request.
        activations: those of the query's session; read only for the column `turns_since_activation`.
        having: ids of the memories whose metadata meets the filter; the index has no metadata. None without conditions.
    """
    now = microseconds(need.now)
    view = view_of(index, need.scope, now)
    found = _within(Search(index, view, need, activations), accepted(view, need.filter, having))
    if not need.outside or need.vector is None or not len(elsewhere := view_of(index, need.scope, now, outside=True)):
        return found
    passing = accepted(elsewhere, need.filter, having)
    usable = elsewhere.column("has_vector") & elsewhere.valid
    wanted = np.flatnonzero(usable if passing is None else usable & passing)
    return replace(found, outside=Search(index, elsewhere, need, activations).few(wanted)) if len(wanted) else found


def _within(search: Search, passing: Bools | None) -> Batch:
    """Return the candidates among the memories of the view that pass the filter."""
    need, view = search.need, search.view
    if need.pruning is not None and need.vector is not None and len(view.slots):
        return search.best(need.pruning, passing)
    wanted = np.arange(len(view.slots)) if passing is None else np.flatnonzero(passing)
    if need.ids is None and need.near is None and need.candidates is None:
        return search.batch(wanted, beyond=-1.0 if "cosine" in need.columns else 1.0)
    return search.picked(wanted)


@dataclass(frozen=True, eq=False)
class Search:
    """The search for one need.

    Attributes:
        index: the snapshot, with the counters as they are now.
        view: the memories visible in the scope.
        need: the request.
        activations: those of the query's session.
    """

    index: Index
    view: View
    need: Need
    activations: Activations

    @cached_property
    def texts(self) -> Occurrences:
        """Where the terms of the need, or those searched instead, occur in the texts of the view."""
        if not self.corrected:
            return self._as_written
        return self._occurrences([self.corrected.get(term, term) for term in self.need.terms])

    @cached_property
    def windows(self) -> Occurrences:
        """Where they occur in windows."""
        return self.view.in_windows(self.texts)

    @cached_property
    def _as_written(self) -> Occurrences:
        return self._occurrences(self.need.terms)

    def _occurrences(self, terms: Sequence[str]) -> Occurrences:
        known = self.index.codes.terms
        return self.view.occurrences([known.get(term, -1) for term in terms])

    @cached_property
    def corrected(self) -> Mapping[str, str]:
        """Term of the need that no memory of the view contains -> the similar term that one contains.

        Expired memories contain none.
        """
        need, known, valid = self.need, self.index.codes.terms, self.view.valid
        if not need.correctable:
            return need.corrections

        def documents(found: Occurrences) -> list[int]:
            counts = np.bincount(found.terms[valid[found.places]], minlength=len(found.documents))
            return [int(count) for count in counts]

        counted = zip(need.terms, documents(self._as_written), strict=True)
        unknown = [term for term, count in counted if term in need.correctable and not count]
        similar = [other for term in unknown for each in similar_terms(term) for other in each if other in known]
        counts = dict(zip(similar, documents(self._occurrences(similar)), strict=True)) if similar else {}
        found = {term: similar_term(term, lambda other: counts.get(other, 0)) for term in unknown}
        return {term: other for term, other in found.items() if other is not None and other not in need.terms}

    @cached_property
    def entities(self) -> dict[int, Places]:
        """Entity of the need -> places of the memories that name it; only entities that some memory names."""
        naming = {
            number: self.view.naming_entity(number) for number in self.index.codes.entities.known(self.need.names)
        }
        return {number: places for number, places in naming.items() if len(places)}

    @cached_property
    def named(self) -> Bools | None:
        """bool[m], memories whose speaker the need names, or, without a speaker, that name one; None for none."""
        codes = self.index.codes
        if not (self.need.speakers or self.need.is_of_user):
            return None
        named = np.isin(self.view.speaker, list(codes.speakers.matching(self.need.speakers).values()))
        for number in codes.entities.known(self.need.speakers):
            places = self.view.naming_entity(number)
            named[places[self.view.speaker[places] == 0]] = True
        if self.need.is_of_user and self.view.speaker.any():
            named |= self.view.speaker == 0
        return named if named.any() else None

    # Candidates

    def picked(self, wanted: Places) -> Batch:
        """Return, of the wanted memories, those named by `ids`, those `near` and the nearest."""
        need, view = self.need, self.view
        picked, beyond = np.zeros(len(view.slots), np.bool_), 1.0
        if need.ids is not None:
            slots = self.index.slots_of(need.ids)
            places = view.places(slots[slots >= 0])
            picked[places[places >= 0]] = True
        if need.near is not None and len(need.near.vectors):
            picked[self._near(wanted, need.near.vectors, need.near.above)] = True
        is_measured = need.vector is not None and (need.candidates is not None or "cosine" in need.columns)
        approximate, error = (
            self._approximate_cosines() if is_measured else (np.zeros(len(view.slots), np.float32), 0.0)
        )
        if need.candidates is not None:
            picked[self._nearest(wanted, need.candidates, approximate, error)] = True
            if view.embedded is not None:
                picked |= ~view.embedded
        is_wanted = np.zeros(len(view.slots), np.bool_)
        is_wanted[wanted] = True
        picked &= is_wanted
        if need.candidates is not None or "cosine" in need.columns:
            left = approximate[is_wanted & ~picked]
            beyond = min(float(left.max()) + error, 1.0) if len(left) else -1.0
        places = np.flatnonzero(picked)
        return self.batch(places, complete=len(places) == len(wanted), beyond=beyond)

    def _nearest(self, wanted: Places, count: int, approximate: Floats32, error: float) -> Places:
        """Return the `count` wanted memories nearest to the query, by id where equal; `error` bounds their error."""
        if not 0 < count < len(wanted):
            return wanted[:count]
        close = approximate[wanted]
        least = np.partition(close, -count)[-count] - 2 * error
        close = wanted[close >= least]
        by_id = self.view.column("row")[close]
        found: Places = close[np.lexsort((by_id, -self.cosines(close)))][:count]
        return found

    def _near(self, wanted: Places, vectors: Vectors32, above: float) -> Places:
        """Return the wanted memories, which ascend, with a cosine above `above` to any of the vectors."""
        view, found = self.view, [np.empty(0, np.intp)]
        if view.embedded is not None:
            wanted = wanted[view.embedded[wanted]]
        size = max(1, PRODUCTS // len(vectors))
        for block in (wanted[first : first + size] for first in range(0, len(wanted), size)):
            approximate, error = self._products(block, vectors)
            maybe = block[(approximate > above - error).any(axis=1)]
            matrix, at = _rows_of(self.index.slots["vector"], view.slots[maybe])
            close = [rows for rows, _ in rows_above(vectors, matrix[at], above)]
            found.append(maybe[np.unique(np.concatenate(close))])
        return np.concatenate(found)

    def few(self, wanted: Places) -> Batch:
        """Return the `_FEW` wanted memories that may score best, by bounds of their scores, else by their cosines."""
        if len(wanted) > _FEW:
            pruning = self.need.pruning
            if pruning is None:
                bound, _ = self._approximate_cosines()
            else:
                bound = self._other_channels(pruning) + self._similarity_bound(pruning)
            wanted = wanted[np.argpartition(-bound[wanted], _FEW)[:_FEW]]
        return self.batch(wanted)

    def best(self, pruning: Pruning, passing: Bools | None) -> Batch:
        """Return the memories that may be among the best by score, and all memories without a vector.

        `passing` is bool[m], the memories that pass the filter; None for all.
        """
        view = self.view
        current = view.current(pruning.drops)
        if passing is not None:
            current = passing if current is None else current & passing
        count = len(view.slots) if current is None else int(np.count_nonzero(current))
        known: dict[str, Any] = {"complete": False, "participants": count}
        if count <= max(_UNPRUNED, _SCORED_FIRST * pruning.keep, len(view.slots) // _FILTERED):
            everything = np.arange(len(view.slots)) if current is None else np.flatnonzero(current)
            return self.batch(everything, floor=-np.inf, **known)
        others = self._other_channels(pruning)
        bound = others + self._similarity_bound(pruning)
        if current is not None:
            bound[~current] = -np.inf
        slack = _SLACK * max(1.0, pruning.total)
        places, scores, measured = np.empty(0, np.intp), np.empty(0), np.empty((2, 0))
        if pruning.least is None:
            places = _largest(bound, min(_SCORED_FIRST * pruning.keep, count))
            scores, measured = self._scores(pruning, places, others)
            least = _MARGIN * float(np.sort(scores)[-pruning.keep])
        else:
            least = max(pruning.least / pruning.most - pruning.rest, -1.0)  # every bound is at least 0
        if view.embedded is not None:
            bound[~view.embedded if current is None else current & ~view.embedded] = np.inf
        bound[places] = -np.inf
        rest = np.flatnonzero(bound >= least - slack)
        if len(rest):
            others_scores, others_measured = self._scores(pruning, rest, others)
            places, scores = np.concatenate((places, rest)), np.concatenate((scores, others_scores))
            measured = np.concatenate((measured, others_measured), axis=1)
        kept = scores >= least - slack
        if view.embedded is not None:
            kept |= ~view.embedded[places]
        if pruning.heirs and view.replaced is not None:
            needed = view.with_heirs(places[kept], current)
            if len(needed) > np.count_nonzero(kept):
                places, kept = needed, np.ones(len(needed), np.bool_)
                scores, measured = self._scores(pruning, places, others)
        floor = (least + pruning.rest) * pruning.most
        return self.batch(places[kept], measured[:, kept], floor=-np.inf if kept.sum() == count else floor, **known)

    def _other_channels(self, pruning: Pruning) -> Floats32:
        """Return float32[m], the share of all channels but the similarities in each score.

        Exact for terms, entities and the named speaker; an upper bound for the channels in `pruning.by_column`
        and `pruning.by_window`.
        """
        view, others = self.view, np.zeros(len(self.view.slots), np.float32)
        for matching, is_window in ((pruning.lexical, False), (pruning.context_lexical, True)):
            if matching is None:
                continue
            found = self.windows if is_window else self.texts
            rarity = np.log1p((len(view.slots) - found.documents + 0.5) / (found.documents + 0.5))
            weights = matching.weight * rarity / (rarity.sum() or 1.0)
            length, average = view.lengths(is_window)
            saturation = matching.k1 * (1 - matching.b + matching.b * length[found.places] / max(average, 1.0))
            shares = weights[found.terms] * found.frequency / (found.frequency + saturation)
            others += np.bincount(found.places, shares, len(view.slots))
        if pruning.entity and self.entities:
            most = np.zeros(len(view.slots), np.float32)
            for places in self.entities.values():
                share = np.float32(pruning.entity * (1 - (len(places) - 1) / len(view.slots)))
                most[places] = np.maximum(most[places], share)
            others += most
        if pruning.speaker and self.named is not None:
            others[self.named] += np.float32(pruning.speaker)
        for bound in pruning.by_column:
            values = self.index.slots[bound.column][slice(None) if view.is_all else view.slots]  # counters as of now
            if values.dtype == np.int64:  # an instant
                values = values / MICROSECONDS
            step = np.clip((values - bound.low) / bound.width, 0, bound.most.shape[1] - 1).astype(np.intp)
            others += bound.most[view.column("tier") if len(bound.most) > 1 else 0, step].astype(np.float32)
        for window in pruning.by_window:
            starts, ends = view.column(window.first) / MICROSECONDS, view.column(window.last) / MICROSECONDS
            overlaps = (starts < window.end + _SECOND) & (ends > window.start - _SECOND)
            others += np.where(overlaps, np.float32(window.inside), np.float32(window.outside))
        return others

    def _similarity_bound(self, pruning: Pruning) -> Floats32:
        """Return float32[m], an upper bound of the share of the similarity channels in each score."""
        view = self.view
        approximate, error = self._approximate_cosines()
        levels = np.arange(1, 2 * _LEVELS + 2) / _LEVELS - 1 + error  # the end of each step
        related = pruning.scale.similarity(levels).astype(np.float32)
        bound = np.float32(pruning.similarity) * related.take(_levels(approximate), mode="clip")
        if pruning.context_similarity:
            padded = np.append(approximate, np.float32(0))
            context = (approximate + padded[view.neighbours[0]] + padded[view.neighbours[1]]) * view.context_share
            bound += np.float32(pruning.context_similarity) * related.take(_levels(context), mode="clip")
        return bound

    def _scores(self, pruning: Pruning, places: Places, others: Floats32) -> tuple[Floats, Floats]:
        """Return the sum of the known channels of some memories, float64[k], and their cosines, float64[2, k]."""
        with_context = pruning.context_similarity > 0 or "context_cosine" in self.need.columns
        measured = self.context_cosines(places) if with_context else np.stack([self.cosines(places)] * 2)
        own, context = pruning.scale.similarity(measured)
        scores = others[places] + pruning.similarity * own
        if pruning.context_similarity:
            scores += pruning.context_similarity * context
        return scores, measured

    # Cosines

    def _approximate_cosines(self) -> tuple[Floats32, float]:
        """Return float32[m], the approximate cosine of each memory to the query, and the maximum error."""
        view, need = self.view, self.need
        has_speaker = view.speaker > 0
        queries = [vector for vector in (need.vector, need.first_person_vector) if vector is not None]
        if need.first_person_vector is not None and (has_speaker.all() or not has_speaker.any()):
            queries = queries[1:] if has_speaker.all() else queries[:1]
        approximate, error = self._products(slice(None), np.stack(queries))
        return approximate[:, 0] if len(queries) == 1 else np.where(
            has_speaker, approximate[:, 1], approximate[:, 0]
        ), error

    def _products(self, places: Places | slice, queries: Vectors32) -> tuple[Floats32, float]:
        """Return float32[n, k], the approximate cosines of n memories to k queries, and the maximum error.

        With x = x' + e and q = q' + f, where x' and q' are the quantised vectors, x.q - x'.q' = e.q + x'.f. By Cauchy
        and Schwarz that is at most |e| |q| + |x'| |f| <= |e| + (1 + |e|) |f| for unit vectors.
        """
        kernel, slots = int8_products(), self.view.slots[places]
        if kernel is None or "quantised" not in self.index.slots.arrays:
            matrix, at = _rows_of(self.index.slots["vector"], slots)
            products: Floats32 = (matrix @ queries.T)[at]
            return products, ROUNDING
        numbers, steps, errors = quantised(queries)
        matrix, at = _rows_of(self.index.slots["quantised"], slots)
        products = kernel(matrix, numbers)[at]
        products *= self.view.step[places][:, None]
        products *= steps
        return products, float(self.index.error + (1 + self.index.error) * errors.max()) + ROUNDING

    def cosines(self, places: Places) -> Floats:
        """Return float64[k], the cosine of some memories to the query; in the first person for those with a speaker.

        0 if the need or the memory has no vector.
        """
        need, view = self.need, self.view
        if need.vector is None or not len(places):
            return np.zeros(len(places))
        matrix, at = _rows_of(self.index.slots["vector"], view.slots[places])
        found = cosines(matrix, need.vector)[at]
        return (
            found
            if need.first_person_vector is None
            else np.where(view.speaker[places] > 0, cosines(matrix, need.first_person_vector)[at], found)
        )

    def context_cosines(self, places: Places) -> Floats:
        """Return float64[2, k], the cosine of each, and its mean over the memory and its two nearest neighbours.

        The mean is over the memories with a vector; 0 if none has one.
        """
        beside = self.view.neighbours[:2, places]
        needed, at = np.unique(np.concatenate(([-1], places, beside.ravel())), return_inverse=True)
        found = np.concatenate(([0.0], self.cosines(needed[1:])))[at[1:]].reshape(3, len(places))
        embedded = self.view.embedded
        if embedded is None:
            count = 1 + (beside >= 0).sum(axis=0)
        else:
            count = embedded[places] + ((beside >= 0) & embedded[beside]).sum(axis=0)
        return np.stack((found[0], (found[0] + found[1] + found[2]) / np.maximum(count, 1)))

    # The batch

    def batch(self, places: Places, measured: Floats | None = None, **others: Any) -> Batch:
        """Return some memories with all columns and parts that the need lists.

        The places come in any order. `measured` is float64[2, k], their `context_cosines`, if known.
        """
        need, index = self.need, self.index
        order = np.argsort(index.slots["row"][self.view.slots[places]])
        places = places[order]
        slots = self.view.slots[places]
        if measured is not None:
            measured = measured[:, order]
        elif "context_cosine" in need.columns:
            measured = self.context_cosines(places)
        else:
            measured = self.cosines(places)[None]
        vectors = entities = None
        if "vectors" in need.parts:
            matrix = index.slots["vector"]
            matrix.flags.writeable = False  # of this view of the array alone
            vectors = Vectors(matrix, np.where(index.slots["has_vector"][slots], slots, -1))
        if "entities" in need.parts:
            frequency = np.array([len(naming) for naming in self.entities.values()], np.float64)
            known = np.array(list(self.entities), np.int64)
            entities = Entities(self._ragged("entities", slots), known, frequency, len(self.view.slots))
        return Batch(
            index.ids(slots),
            self._columns(slots, places, measured),
            vectors,
            self._lexicon(places, is_window=False) if need.terms else None,
            self._lexicon(places, is_window=True) if "windows" in need.parts and need.terms else None,
            entities,
            self._ragged("distinctions", slots) if "distinctions" in need.parts else None,
            distinction_codes(need.asked) if "distinctions" in need.parts else None,
            self._rivals(places, slots) if need.rivals else {},
            neighbours=self._neighbours(places) if "neighbours" in need.parts else None,
            successors=self._successors(places) if "successors" in need.parts else None,
            corrected=self.corrected,
            **others,
        )

    def _columns(self, slots: Rows, places: Places, cosines: Floats) -> dict[str, Column]:
        """Return the needed columns of some memories."""
        table, view, columns = self.index.slots.arrays, self.view, dict[str, Column]()
        for name in sorted(self.need.columns):
            values: Any
            if name == "cosine":
                values = cosines[0]
            elif name == "context_cosine":
                values = cosines[1]
            elif name == "code":
                values = slots
            elif name == "embedded":
                values = table["has_vector"][slots]
            elif name == "is_global":
                values = table["project"][slots] == 0
            elif name in ("created_at", "updated_at", "accessed_at"):
                values = table[name][slots] / MICROSECONDS
            elif name in ("expires_at", "event_start", "event_end"):
                instants = table[name][slots]
                values = np.where(np.abs(instants) == NEVER, np.inf * np.sign(instants), instants / MICROSECONDS)
            elif name in ("fact", "speaker"):
                values = np.where(table[name][slots] == 0, -1, table[name][slots])
            elif name == "speaker_named":
                values = np.zeros(len(slots), np.bool_) if self.named is None else self.named[places]
            elif name == "replaced":
                values = np.zeros(len(slots)) if view.replaced is None else view.replaced[1][places]
            elif name == "supersedes":
                targets = view.index.replaced[table[name][slots]]
                is_visible = np.zeros(self.index.slots.length + 1, np.bool_)  # the last one for no target, -1
                is_visible[view.slots] = True
                values = np.where(is_visible[targets], targets, -1)
            elif name == "turns_since_activation":
                clock, turns = self.activations.clock, self.activations.turns
                values = [clock - turns.get(key, -np.inf) for key in self.index.ids(slots).tolist()]
            else:
                values = table[name][slots]
            columns[name] = np.asarray(values, COLUMNS[name].dtype)
        return columns

    def _lexicon(self, places: Places, *, is_window: bool) -> Lexicon:
        """Return the term statistics of the view's texts, or of their windows, with the postings of some memories."""
        found, (length, average) = self.windows if is_window else self.texts, self.view.lengths(is_window)
        of = np.full(len(self.view.slots), -1)
        of[places] = np.arange(len(places))
        rows = of[found.places]
        there = rows >= 0
        terms, rows, frequency = found.terms[there], rows[there], found.frequency[there]
        order = np.argsort(terms * len(places) + rows)
        if self.corrected:
            frequency *= np.array([CORRECTED if name in self.corrected else 1.0 for name in self.need.terms])[terms]
        return Lexicon(
            documents=len(self.view.slots),
            average_length=average,
            document_frequency=found.documents.astype(np.float64),
            postings=Postings(
                rows[order], frequency[order], offsets_of(np.bincount(terms, minlength=len(found.documents)))
            ),
            length=length[places],
        )

    def _rivals(self, places: Places, slots: Rows) -> dict[str, Rows]:
        """Return term or distinction of `Need.rivals` -> the rows that contain it, of some memories."""
        row_of = np.full(len(self.view.slots), -1)
        row_of[places] = np.arange(len(places))
        found = self._occurrences(self.need.rivals)
        owners, codes = self._ragged("distinctions", slots).pairs()
        rivals = {}
        for place, word in enumerate(self.need.rivals):
            is_term = ":" not in word
            rows = row_of[found.places[found.terms == place]] if is_term else owners[codes == distinction_codes([word])]
            rivals[word] = np.unique(rows[rows >= 0])
        return rivals

    def _neighbours(self, places: Places) -> NDArray[np.object_]:
        """Return object[k, 2], the ids of the memories before and after some memories in their sessions."""
        beside = self.view.neighbours[:2, places].T
        ids = np.full(beside.shape, "", np.object_)
        ids[beside >= 0] = self.index.ids(self.view.slots[beside[beside >= 0]])
        return ids

    def _successors(self, places: Places) -> NDArray[np.object_]:
        """Return object[k], the id of the memory that replaces each of some memories, "" for none."""
        ids = np.full(len(places), "", np.object_)
        if self.view.replaced is not None:
            slots = self.view.replaced[0][places]
            ids[slots >= 0] = self.index.ids(slots[slots >= 0])
        return ids

    def _ragged(self, name: str, slots: Rows) -> Ragged:
        """Return the lists `entities` or `distinctions` of some slots."""
        lengths, numbers = self.index.runs(name, slots)
        return Ragged(offsets_of(lengths), numbers.astype(np.int64, copy=False))


def _levels(cosine: Floats32) -> Rows:
    """Return the step of each cosine in the table of relatedness."""
    return ((cosine + np.float32(1)) * np.float32(_LEVELS)).astype(np.intp)


def _largest(values: Floats32, count: int) -> Places:
    """Return the places of the largest values, at least `count` of them, unordered.

    The `count` greatest block maxima are `count` values, so the least of them is a valid threshold.
    """
    length = len(values) // _BLOCKS
    if length < 4 * count:
        return np.argpartition(values, len(values) - count)[len(values) - count :]
    maxima = values[: length * _BLOCKS].reshape(_BLOCKS, length).max(axis=0)
    return np.flatnonzero(values >= np.partition(maxima, length - count)[length - count])


def _rows_of(matrix: Column, slots: Rows) -> tuple[Column, Rows | slice]:
    """Return rows of a matrix that include some slots, and the place of each slot; a view if the slots are dense."""
    if not len(slots):
        return matrix[:0], slice(None)
    first, last = int(slots.min()), int(slots.max()) + 1
    if last - first > 2 * len(slots):
        return matrix[slots], slice(None)
    if last - first == len(slots) and bool((slots[1:] > slots[:-1]).all()):
        return matrix[first:last], slice(None)
    return matrix[first:last], slots - first


def accepted(view: View, filter: Filter, having: Sequence[str] | None) -> Bools | None:
    """Return bool[m], which memories of a view pass `filter`, and are in `having`; None for an empty filter."""
    if filter == _NO_FILTER:
        return None
    codes, passed = view.index.codes, np.ones(len(view.slots), np.bool_)
    for tag in filter.tags:
        passed &= view.tagged(tag)
    if having is not None:
        there = np.zeros(len(passed) + 1, np.bool_)
        there[view.places_of(view.index.slots_of(having))] = True
        passed &= there[:-1]
    if filter.fact_keys:
        facts = [number for fact, number in list(codes.facts.items()) if fact and fact[1] in filter.fact_keys]
        passed &= np.isin(view.column("fact"), facts)
    for name, column in (("kinds", "kind"), ("sessions", "session_id")):
        if wanted := getattr(filter, name):
            passed &= np.isin(view.column(column), [codes.coded[column].get(text, -1) for text in wanted])
    if filter.tiers:
        passed &= np.isin(view.column("tier"), [TIERS.index(tier) for tier in filter.tiers])
    if filter.since is not None:
        passed &= view.column("created_at") >= microseconds(filter.since)
    if filter.until is not None:
        passed &= view.column("created_at") < microseconds(filter.until)
    if filter.level is not None:
        passed &= (view.column("project") == 0) == (filter.level == "global")
    return passed


def speakers(index: Index, scope: Scope, names: Sequence[str]) -> list[str]:
    """Return the speakers of memories visible in `scope` that any of `names` matches, sorted."""
    matching = index.codes.speakers.matching(names)
    if not matching:
        return []
    shown = np.unique(view_of(index, scope).speaker)
    return sorted(speaker for speaker, number in matching.items() if number in shown)


def sessions(index: Index, scope: Scope) -> list[SessionSpan]:
    """Return the sessions of memories visible in `scope`, in the order of their first memory."""
    view = view_of(index, scope)
    number, made = view.column("session"), view.column("created_at")
    held = np.flatnonzero(number > 0)
    held = held[np.lexsort((made[held], number[held]))]
    first = np.flatnonzero(np.diff(number[held], prepend=0))
    last = np.append(first[1:], len(held))[: len(first)] - 1
    ids = [key[2] for key in list(index.codes.sessions) if key is not None]  # numbered from 1
    spans = [
        SessionSpan(ids[place - 1], instant(start), instant(end))
        for place, start, end in zip(
            number[held[first]].tolist(), made[held[first]].tolist(), made[held[last]].tolist(), strict=True
        )
    ]
    return sorted(spans, key=lambda span: (span.start, span.id))


def out_of_scope(index: Index, scope: Scope, filter: Filter, now: datetime, limit: int) -> list[OutOfScope]:
    """Return the places with live memories that pass `filter` and that only `scope.widened()` sees, with counts."""
    view = view_of(index, scope.widened(), microseconds(now))
    passed = accepted(view, filter, None)
    among = view.slots[view.valid if passed is None else view.valid & passed]
    hidden = among[~visible(index, scope)[among]]
    names = ("environment", *NARROWING)
    homes, counts = np.unique([index.slots[name][hidden] for name in names], axis=1, return_counts=True)
    texts = []
    for name, numbers in zip(names, homes.tolist(), strict=True):
        text = {number: text for text, number in list(index.codes.coded[name].items())}
        texts.append([text[number] for number in numbers])
    found = list(zip(counts.tolist(), *texts, strict=True))
    found.sort(key=lambda place: (-place[0], [name or "" for name in place[1:]]))
    return [OutOfScope(Scope(scope.tenant, *place), count) for count, *place in found[:limit]]


def facet_counts(
    index: Index, selection: Selection, ids: Sequence[str] | None = None
) -> tuple[int, dict[str, Counter[str]]]:
    """Return the number of selected live memories, and for each facet value -> number.

    The scope, tags, values and instant of the selection are applied. `ids` are those of the live memories that its
    other conditions accept; None for all.
    """
    codes, slots = index.codes, index.slots
    texts: dict[str, list[str]] = {"tier": list(TIERS), "status": ["live"]}
    texts |= {name: [text or "" for text in list(codes.coded[name])] for name in FACETS if name in codes.coded}
    numbers = {name: slots[name] if name in slots.arrays else np.zeros(slots.length, np.int8) for name in FACETS}
    seen = live(index, selection.scope, selection.now)
    for accepted in [index.tags.find([codes.tags.get(tag, -1)])[1] for tag in selection.filter.tags]:
        seen &= _mask(slots.length, accepted)
    if ids is not None:
        found = index.slots_of(ids)
        seen &= _mask(slots.length, found[found >= 0])
    refuses = {
        name: np.array([text not in values for text in texts[name]])[numbers[name]]
        for name, values in selection.values.items()
    }
    refused = sum(refuses.values(), np.zeros(slots.length, np.int8))
    counts = {}
    for name in FACETS:  # of the memories that the conditions on all other facets accept
        among = seen & (refused == refuses.get(name, 0))
        number = np.bincount(numbers[name][among])
        counts[name] = Counter({texts[name][code]: int(number[code]) for code in np.flatnonzero(number).tolist()})
    selected = seen & (refused == 0)
    tags, number = list(codes.tags), index.tags.counts(selected)
    counts[TAG] = Counter({tags[code]: int(number[code]) for code in np.flatnonzero(number).tolist()})
    return int(np.count_nonzero(selected)), counts


def _mask(length: int, slots: Rows) -> Bools:
    mask = np.zeros(length, np.bool_)
    mask[slots] = True
    return mask
