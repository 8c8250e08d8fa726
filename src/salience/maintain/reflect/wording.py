"""What a reflection says and carries: a summariser's text or the medoid's, and what its sources have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np

from salience.batch import Vectors32, cosines
from salience.errors import EmbedderError, InputError, SummariserError
from salience.maintain.reflect.groups import Group
from salience.ports import Calibration, Services, Summary
from salience.records import Memory, checks
from salience.steps import embed

LABELS: Final = 5
"""Most entities, and most tags, that a reflection takes over from its sources."""
LABELLED: Final = 1 / 3
"""Least share of the sources that name an entity or tag which the reflection takes over; at least two do."""


@dataclass(frozen=True, slots=True, eq=False)
class Worded:
    """The text of a reflection.

    Attributes:
        content: the text.
        vector: of the text, float32[d].
        sources: ids of the memories that it rests on.
        is_summary: whether a summariser wrote it.
    """

    content: str
    vector: Vectors32
    sources: tuple[str, ...]
    is_summary: bool = False

    def likeness(self, group: Group, calibration: Calibration) -> float:
        """Return the mean relatedness of the text to those that it rests on, [0, 1]: how well it stands for them."""
        rests = np.array([memory.id in self.sources for memory in group.members])
        cosine = cosines(group.vectors[rests], self.vector)
        return float(np.interp(cosine, calibration.cosine, calibration.relatedness).mean())


@dataclass(eq=False)
class Writer:
    """Words reflections; asks the summariser once for each group, however often the writing is tried anew.

    Attributes:
        services: the ports.
        fell_back: keys of the groups whose text the summariser could not write.
    """

    services: Services
    fell_back: set[str] = field(default_factory=set)
    _known: dict[tuple[str, ...], Worded] = field(default_factory=dict)

    def word(self, group: Group, ask: bool = True) -> Worded:
        """Return the text for a group: the summariser's if there is one and it is to be asked, else the medoid's."""
        plain = Worded(group.medoid.content, group.vector, tuple(memory.id for memory in group.members))
        if self.services.summariser is None or not ask:
            return plain
        read = tuple(memory.id + memory.content_hash for memory in group.members)
        if read not in self._known:
            try:
                self._known[read] = summarised(self.services, group)
            except (SummariserError, EmbedderError):
                self.fell_back.add(group.key)
                self._known[read] = plain
        return self._known[read]


def summarised(services: Services, group: Group) -> Worded:
    """Return the summariser's text for a group, checked and embedded.

    Raises:
        SummariserError: it failed in whatever way, or answered something else than a text on some of the sources. What
            its own error says is left out, since it may quote a text.
        EmbedderError: the text could not be embedded.
    """
    if services.summariser is None:
        raise SummariserError("summariser: there is none. Set SALIENCE_SUMMARISER.")
    try:
        summary = services.summariser.summarise([(memory.id, told(memory)) for memory in group.members])
        return _checked(services, group, summary)
    except (SummariserError, EmbedderError):
        raise
    except Exception as error:
        what = type(error).__name__
        raise SummariserError(f"summariser: it failed with {what}. Check it and try again.") from None


def _checked(services: Services, group: Group, summary: Summary) -> Worded:
    ids = [memory.id for memory in group.members]
    try:
        content = checks.text("summary", summary.text, services.content_limit)
    except InputError as error:
        raise SummariserError(f"summariser: {error}") from None
    if not summary.sources or not set(summary.sources) <= set(ids):
        raise SummariserError("summariser: the text rests on no source, or on another than those given. Check it.")
    vector = embed(services, [content])[0]
    return Worded(content, vector, tuple(one for one in ids if one in summary.sources), is_summary=True)


def told(memory: Memory) -> str:
    """Return a memory as a summariser reads it: the day and the speaker, without which "I" and "today" say nothing."""
    speaker = f"{memory.speaker}: " if memory.speaker else ""
    return f"{memory.created_at:%Y-%m-%d} {speaker}{memory.content}"


def carried(group: Group, worded: Worded, calibration: Calibration) -> dict[str, Any]:
    """Return the fields of a reflection that follow from its sources.

    Importance is their mean: what they have in common is as important as they are together, while the most important
    of them is still there to be found for itself. So is weight, times the likeness of the text: it stands for them only
    as far as it is like them, and a question that one of them answers finds that one first. It expires with the first
    of them. It was said when its medoid was, or, where it is a summary, when the last of them was.
    """
    sources = [memory for memory in group.members if memory.id in worded.sources]
    sure = sum(memory.weight for memory in sources) / len(sources)
    expiries = [memory.expires_at for memory in sources if memory.expires_at is not None]
    return {
        "content": worded.content,
        "importance": sum(memory.importance for memory in sources) / len(sources),
        "weight": max(sure * worded.likeness(group, calibration), 0.1),
        "entities": labels(memory.entities for memory in sources),
        "tags": labels(memory.tags for memory in sources),
        "metadata": checks.Frozen({"medoid": group.medoid.id, "subject": group.subject}),
        "speaker": None if worded.is_summary else group.medoid.speaker,
        "created_at": _said_at(group, sources, worded),
        "expires_at": min(expiries, default=None),
        "sources": worded.sources,
        "key": group.key,
    }


def _said_at(group: Group, sources: list[Memory], worded: Worded) -> datetime:
    return max(memory.created_at for memory in sources) if worded.is_summary else group.medoid.created_at


def labels(named: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names that the sources have in common, the most frequent first; of equal ones, as they first come."""
    lists = [tuple(dict.fromkeys(names)) for names in named]
    counted = Counter(name for names in lists for name in names)
    least = max(2.0, LABELLED * len(lists))
    return tuple(name for name, count in counted.most_common() if count >= least)[:LABELS]
