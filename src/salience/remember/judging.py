"""The labels of a write's conflicts by a model that reads both texts, after the rules and in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, get_args

from salience.deadline import places
from salience.ports import Services
from salience.records import Contradiction, Label, Receipt
from salience.remember.asking import asked
from salience.remember.conflicts import WARNED

JUDGED: Final = WARNED
"""Most conflicts of a memory that are judged, the most similar ones."""
SETTLED: Final = ("same words", "speaker")
"""Evidence of the rules that no reading changes: the texts are equal, or an "I" of one is not that of the other."""
LABELS: Final[tuple[Label, ...]] = get_args(Label)
_waiting: Final = places()


def judged(services: Services, receipts: Sequence[Receipt]) -> list[Receipt]:
    """Return receipts whose conflicts have the labels of the configured judge, if there is one and it answers in time.

    Where it fails, is late or gives no label, that of the rules stands.
    """
    judge = services.judge
    if judge is None:
        return list(receipts)
    pairs = list(dict.fromkeys(pair for receipt in receipts for pair in _doubtful(receipt)))
    labels = dict(zip(pairs, asked(pairs, judge.judge, services.judge_timeout, _waiting), strict=True))

    def relabelled(new: str, found: Contradiction) -> Contradiction:
        label = labels.get((new, found.memory.content)) if _is_open(found) else None
        return replace(found, label=label, because=(f"judge: {judge.name}",)) if label in LABELS else found

    return [
        replace(
            receipt, contradictions=tuple(relabelled(receipt.memory.content, one) for one in receipt.contradictions)
        )
        for receipt in receipts
    ]


def _doubtful(receipt: Receipt) -> list[tuple[str, str]]:
    """Return the texts, the new one first, of a memory and of each that it may conflict with, if the label is open."""
    return [
        (receipt.memory.content, found.memory.content) for found in receipt.contradictions[:JUDGED] if _is_open(found)
    ]


def _is_open(found: Contradiction) -> bool:
    return not any(reason.partition(":")[0] in SETTLED for reason in found.because)
