"""Rows of live memories as columns of numbers: what an arena keeps of them, but for their vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Final

import numpy as np

from salience.batch import KINDS, Codes, Column, Rows, upto
from salience.records import TIERS
from salience.store import words
from salience.store.ids import Held, held
from salience.store.numbering import CODED, Numbers, paired
from salience.store.postings import Numbers32

Texts = Mapping[str, Sequence[Any]]
"""Columns of rows as the database has them, by their names."""
NEVER: Final = np.iinfo(np.int64).max
"""As `expires_at`: no expiry."""
COUNTERS: Final = {"importance": np.float64, "accessed_at": np.int64, "access_count": np.int64}
"""Columns that change without a new version."""
_PLAIN: Final = {"weight": np.float64, "created_at": np.int64, "updated_at": np.int64, "version": np.int32}
FIXED: Final[Mapping[str, Any]] = {
    **dict.fromkeys(CODED, np.int32),
    **COUNTERS,
    **_PLAIN,
    "tier": np.int8,
    "expires_at": np.int64,
    "id": np.int32,
    "supersedes": np.int32,
    "fact": np.int32,
    "length": np.int32,
    "home": np.int32,
    "session": np.int32,
    "turn": np.int64,
    "speaker": np.int32,
    "has_vector": np.bool_,
    "entities": np.int32,
    "entities_from": np.int32,
    "distinctions": np.int32,
    "distinctions_from": np.int32,
}
"""Columns of one number for each memory."""
ORDER: Final = ("turn", "created_at", "session", "home")
"""Columns by which memories lie, the last one first."""
_RUNS: Final = ("entities", "distinctions")
_TIERS: Final = {tier: number for number, tier in enumerate(TIERS)}
_KINDS: Final = {kind: number for number, kind in enumerate(KINDS)}
_NUMBER: Final = (1 << 60) - 1
"""Bits of a distinction's number; with its kind, its code fits in 63."""


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """Some live memories, in any order.

    Attributes:
        ids: as bytes.
        columns: those of `FIXED`, but for `id`, `supersedes` and what is read later on; runs of the lists below are as
            `runs` has them.
        supersedes: the place of each memory that names one, and the id that it names.
        terms, tags: int32 each, the numbers of all in one; `tag_counts` says how many of the tags each has.
        mentions: int32, the numbers of entities.
        distinctions: int64, the codes of distinctions.
    """

    ids: Held
    columns: Mapping[str, Column]
    supersedes: Mapping[int, str]
    terms: Column
    tags: Column
    tag_counts: Codes
    mentions: Column
    distinctions: Codes

    @classmethod
    def of(cls, numbers: Numbers, texts: Texts, known: words.Known | None = None) -> Parsed:
        """Return memories from their rows, whose texts are numbered on the way; `known` as in `words.numbered`."""
        lengths, terms = words.numbered(numbers.terms, texts["terms"], known or words.Known())
        told, distinctions = _split(texts["distinctions"], "\n")
        tag_counts, tags = _flat(_parsed(texts["tags"], list))
        names, mentions = _flat(_parsed(texts["entities"], lambda names: _distinct(numbers, names)))
        columns = {**_fixed(numbers, texts), "length": lengths, "entities": names, "distinctions": told}
        return cls(
            held(texts["id"]),
            {**columns, **{f"{name}_from": np.cumsum(columns[name]) - columns[name] for name in _RUNS}},
            {place: named for place, named in enumerate(texts["supersedes"]) if named is not None},
            terms,
            numbers.tags.of(tags, len(tags)),
            tag_counts,
            np.array(mentions, np.int32),
            codes(distinctions),
        )

    @classmethod
    def joined(cls, parts: Sequence[Parsed]) -> Parsed:
        """Return all memories of some parts, at least one, in one."""
        if len(parts) == 1:
            return parts[0]
        columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
        for name, starts in zip(_RUNS, zip(*map(_totals, parts), strict=True), strict=True):
            offsets = np.cumsum((0, *starts[:-1]))
            columns[f"{name}_from"] += np.repeat(offsets, [len(part.ids) for part in parts])
        firsts = np.cumsum([0, *(len(part.ids) for part in parts[:-1])]).tolist()
        supersedes = {
            first + place: named
            for first, part in zip(firsts, parts, strict=True)
            for place, named in part.supersedes.items()
        }
        lists = ("terms", "tags", "tag_counts", "mentions", "distinctions")
        others = {name: np.concatenate([getattr(part, name) for part in parts]) for name in lists}
        return cls(np.concatenate([part.ids for part in parts]), columns, supersedes, **others)

    def order(self) -> Rows:
        """Return the memories in the order in which they are to lie."""
        by_id = np.argsort(self.ids, kind="stable")
        return by_id[laid({name: self.columns[name][by_id] for name in ORDER})]


def laid(columns: Mapping[str, Column]) -> Rows:
    """Return memories in the order in which they are to lie: what is looked at together lies together.

    That is one user's after another's, in these one session's after another's, and in these the order of time, turn and
    id; those that are not of a session come first.

    Args:
        columns: those of `ORDER`, by id.
    """
    return np.lexsort([columns[name] for name in ORDER])


def _totals(part: Parsed) -> tuple[int, int]:
    return len(part.mentions), len(part.distinctions)


def runs(starts: Column, lengths: Column) -> Rows:
    """Return the places of runs of `lengths` that begin at `starts`, one run after the other."""
    ends = lengths.cumsum()
    first: Rows = (starts - ends + lengths).repeat(lengths)
    return first + upto(len(first))


def codes(distinctions: Sequence[str]) -> Codes:
    """Return the codes of distinctions: as `batch.coded`, with a hash of the text for its number.

    So no text has to be kept to tell which are the same. That any two of a million share a hash has a chance of one in
    two million, and only those of memories that answer one question are compared.
    """
    numbers = np.fromiter(map(hash, distinctions), np.int64, len(distinctions)) & _NUMBER
    kinds = map(itemgetter(0), map(str.partition, distinctions, repeat(":")))
    return numbers * len(KINDS) + np.fromiter(map(_KINDS.__getitem__, kinds), np.int64, len(distinctions))


def code(distinction: str) -> int:
    """Return the code of one."""
    return (hash(distinction) & _NUMBER) * len(KINDS) + _KINDS[distinction.partition(":")[0]]


def counters(texts: Texts) -> dict[str, Column]:
    """Return the columns of `COUNTERS`; a memory that no recall returned counts as accessed when it was made."""
    accessed = texts["accessed_at"]
    if None in accessed:
        pairs = zip(accessed, texts["created_at"], strict=True)
        accessed = [created if moment is None else moment for moment, created in pairs]
    return _plain({**texts, "accessed_at": accessed}, COUNTERS)


def _fixed(numbers: Numbers, texts: Texts) -> dict[str, Column]:
    """Return the columns that are of one value of the row each."""
    coded = {name: _numbered(numbers.coded[name], texts[name]) for name in CODED}
    homes = paired(numbers.homes, coded["environment"], coded["user_id"])
    sessions = paired(numbers.sessions, homes, coded["session_id"])
    return {
        **coded,
        **counters(texts),
        **_plain(texts, _PLAIN),
        "tier": _numbered(_TIERS, texts["tier"]).astype(np.int8),
        "expires_at": _array(_filled(texts["expires_at"], NEVER), np.int64),
        "fact": _facts(numbers, texts),
        "home": homes,
        "session": np.where(coded["session_id"] > 0, sessions, np.int32(0)),
        "turn": _array(_filled(texts["turn"], 0), np.int64),
        "speaker": _numbered(numbers.speakers, texts["speaker"]),
        "has_vector": _array(texts["has_vector"], np.bool_),
    }


def _plain(texts: Texts, types: Mapping[str, Any]) -> dict[str, Column]:
    """Return those columns of numbers that are there."""
    return {name: _array(texts[name], dtype) for name, dtype in types.items() if name in texts}


def _numbered(numbering: Mapping[Any, int], texts: Sequence[Any]) -> Numbers32:
    """Return the number of each text, of which there often is but one."""
    if texts.count(texts[0]) == len(texts):
        return np.full(len(texts), numbering[texts[0]], np.int32)
    return np.fromiter(map(numbering.__getitem__, texts), np.int32, len(texts))


def _facts(numbers: Numbers, texts: Texts) -> Numbers32:
    """Return the number of the fact that each states, with whose it is; 0 for none, as most do."""
    facts = np.zeros(len(texts["id"]), np.int32)
    for place, fact in enumerate(texts["fact_key"]):
        if fact is not None:
            facts[place] = numbers.facts[texts["user_id"][place], fact]
    return facts


def _array(values: Sequence[Any], dtype: Any) -> Column:
    return np.fromiter(values, dtype, len(values))


def _filled(values: Sequence[Any], default: int) -> Sequence[Any]:
    """Return values with something in the place of None."""
    return [default if value is None else value for value in values] if None in values else values


def _distinct(numbers: Numbers, names: Sequence[str]) -> list[int]:
    return list(dict.fromkeys(map(numbers.entities.__getitem__, names)))


def _split(texts: Sequence[str], sign: str) -> tuple[Codes, list[str]]:
    """Return how many parts, between which `sign` stands, each text has, and those of all texts in one list."""
    joined = sign.join(filter(None, texts))
    return words.parts(texts, sign), joined.split(sign) if joined else []


def _parsed(texts: Sequence[str], read: Callable[[list[str]], list[Any]]) -> list[list[Any]]:
    """Return what `read` makes of each JSON list of names; texts that are equal, as most are, are read once.

    Raises:
        TypeError, ValueError: a text that is none.
    """
    distinct = list(dict.fromkeys(texts))
    found = json.loads(f"[{','.join(distinct)}]")
    "".join(chain.from_iterable(found))  # which takes nothing but text
    lists = dict(zip(distinct, map(read, found), strict=True))
    return [lists[text] for text in texts]


def _flat(lists: Sequence[Sequence[Any]]) -> tuple[Codes, list[Any]]:
    """Return how many items each list has, and those of all in one."""
    return np.fromiter(map(len, lists), np.int64, len(lists)), list(chain.from_iterable(lists))
