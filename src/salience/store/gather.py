"""A need answered from an arena: which memories are brought. Pure NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from salience.batch import Batch
from salience.ports import Need
from salience.records import NARROWING, TIERS, Filter, OutOfScope, Scope
from salience.store.arena import Arena
from salience.store.bounds import measured
from salience.store.candidates import Activations, Asked, Candidates
from salience.store.distances import nearest, to_query, within
from salience.store.pruned import best, is_prunable
from salience.store.roster import Bools
from salience.store.values import microseconds
from salience.store.view import Places, View, view_of, visible

__all__ = ["Activations", "gather", "out_of_scope", "speakers"]

_NOTHING: Final = Filter()


def gather(arena: Arena, need: Need, activations: Activations) -> Batch:
    """Return the candidates that `need` asks for.

    Args:
        arena: the tenant's memories.
        need: what to bring.
        activations: those of the session that asks; read for `turns_since_activation` alone.
    """
    asked = Asked(arena, view_of(arena, need.scope, microseconds(need.now)), need, activations)
    passing = accepted(asked.view, need.filter)
    if is_prunable(asked):
        return best(asked, passing)
    wanted = np.arange(len(asked.view)) if passing is None else np.flatnonzero(passing)
    if need.ids is None and need.near is None and need.candidates is None:
        return Candidates.at(asked, wanted).batch(beyond=-1.0 if "cosine" in need.columns else 1.0)
    if need.ids is None and need.near is None and need.vector is not None:
        wanted, left = promising(asked, wanted)
        return chosen(asked, wanted, left)
    return chosen(asked, wanted)


def promising(asked: Asked, wanted: Places) -> tuple[Places, float | None]:
    """Return those of the wanted memories that may be among the nearest, or have no vector; and of the others how near.

    What is told of the others is a cosine that none of them exceeds; None where there are none.
    """
    count, embedded = asked.need.candidates, asked.view.embedded
    if count is None or not 0 < count < len(wanted):
        return wanted, None
    about, off = measured(asked, None if len(wanted) == len(asked.view) else wanted)
    about = about[wanted]
    kept = about >= np.partition(about, -count)[-count] - 2 * off
    if embedded is not None:
        kept |= ~embedded[wanted]
    return wanted[kept], None if kept.all() else min(float(about[~kept].max()) + off, 1.0)


def chosen(asked: Asked, places: Places, left: float | None = None) -> Batch:
    """Return, of the memories at some places, those named, near or nearest.

    Args:
        asked: of the need.
        places: in no particular order.
        left: a cosine that none exceeds of those that are wanted too, but not among the nearest; None for none.
    """
    need, wanted = asked.need, Candidates.at(asked, places)
    picked, beyond = np.zeros(len(places), np.bool_), 1.0
    if need.ids is not None:
        rows, there = asked.arena.roster.find(need.ids)
        picked |= np.isin(wanted.slots, asked.arena.order[rows[there]])
    if need.near is not None:
        picked |= _within(asked.view, wanted.places, need)
    is_measured = need.candidates is not None or "cosine" in need.columns
    cosine = to_query(asked.view, wanted.places, need) if is_measured else None
    if need.candidates is not None and cosine is not None:
        picked[nearest(cosine, need.candidates)] = True
        picked |= ~wanted.fixed("has_vector")
    if cosine is not None:
        beyond = max(float(cosine[~picked].max(initial=-1.0)), -1.0 if left is None else left)
    is_all = left is None and bool(picked.all())
    return Candidates.at(asked, wanted.places[picked]).batch(complete=is_all, beyond=beyond)


def _within(view: View, places: Places, need: Need) -> Bools:
    """Return, for each of some places, whether it is near what the need names."""
    order = np.argsort(places, kind="stable")  # vectors are read as they lie
    near = np.zeros(len(places), np.bool_)
    if need.near is not None:
        near[order] = within(view, places[order], need.near)
    return near


def accepted(view: View, filter: Filter) -> Bools | None:
    """Return bool[m], which memories of a view pass `filter`; None where it asks nothing."""
    if filter == _NOTHING:
        return None
    arena, passed = view.arena, np.ones(len(view), np.bool_)
    for tag in filter.tags:
        passed &= _holds(view, tag)
    if filter.fact_keys:
        facts = [number for fact, number in list(arena.numbers.facts.items()) if fact and fact[1] in filter.fact_keys]
        passed &= np.isin(view.column("fact"), facts)
    for name, column in (("kinds", "kind"), ("sessions", "session_id")):
        if asked := getattr(filter, name):
            passed &= np.isin(view.column(column), [arena.number(column, text) for text in asked])
    if filter.tiers:
        passed &= np.isin(view.column("tier"), [TIERS.index(tier) for tier in filter.tiers])
    if filter.since is not None:
        passed &= view.column("created_at") >= microseconds(filter.since)
    if filter.until is not None:
        passed &= view.column("created_at") < microseconds(filter.until)
    if filter.level is not None:
        passed &= (view.column("project") == 0) == (filter.level == "global")
    return passed


def _holds(view: View, tag: str) -> Bools:
    held = np.zeros(len(view), np.bool_)
    places = view.places(view.arena.tags.find(view.arena.numbers.tags.get(tag, -1))[0])
    held[places[places >= 0]] = True
    return held


def speakers(arena: Arena, scope: Scope, names: Sequence[str]) -> list[str]:
    """Return the speakers of memories visible in `scope` whom one of some names means, sorted."""
    meant = arena.numbers.speakers.meant(names)
    if not meant:
        return []
    shown = view_of(arena, scope).heard
    return sorted(speaker for speaker, number in meant.items() if number in shown)


def out_of_scope(arena: Arena, scope: Scope, limit: int) -> list[OutOfScope]:
    """Return how many live memories each place has that `scope.widened()` shows and `scope` does not."""
    hidden = np.flatnonzero(visible(arena, scope.widened()) & ~visible(arena, scope))
    columns = [arena.slots[name][hidden] for name in ("environment", *NARROWING)]
    home = np.zeros(len(hidden), np.int64)
    for column in columns:
        home = home * (int(column.max(initial=0)) + 1) + column
    _, first, counts = np.unique(home, return_index=True, return_counts=True)
    texts = []
    for name, column in zip(("environment", *NARROWING), columns, strict=True):
        text = {number: text for text, number in list(arena.numbers.coded[name].items())}
        texts.append([text[number] for number in column[first].tolist()])
    found = list(zip(counts.tolist(), *texts, strict=True))
    found.sort(key=lambda place: (-place[0], [name or "" for name in place[1:]]))
    return [OutOfScope(Scope(scope.tenant, *names), count) for count, *names in found[:limit]]
