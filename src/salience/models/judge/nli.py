"""Labels from a cross-encoder that was trained on natural language inference, by the library sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from salience.batch import Floats
from salience.deadline import Rest
from salience.errors import JudgeError
from salience.loading import Once, mapped, require
from salience.records import Label

MODEL: Final = "cross-encoder/nli-deberta-v3-small"
"""The model unless another is chosen: English, trained on SNLI and MultiNLI."""
CLASSES: Final = ("contradiction", "entailment", "neutral")
"""What natural language inference tells of a premise and a hypothesis."""
LONGEST: Final = 1000
"""Most characters of a text that is judged: both together are to stay within the 512 tokens of such models."""
REST: Final = 60.0
"""Seconds for which a model that could not be loaded is not tried again."""
_REMEDY: Final = "Check the network, or point SALIENCE_JUDGE_MODEL at a folder that holds the model."


class NLI:
    """Labels of a cross-encoder with the classes contradiction, entailment and neutral, in any order.

    The model is fetched and loaded at the first `judge`, for longer than a write waits, so that the first writes of a
    process may have the labels of the rules. Each pair is read in both directions, since entailment has one: texts that
    follow from each other are duplicates. Two texts contradict each other if that is the likeliest on the mean of both
    directions; that is an update where the words tell of a later time.

    Args:
        model: a name on the Hugging Face Hub, or the path of a folder.

    Raises:
        MissingExtraError: the library is not installed.
    """

    def __init__(self, model: str = MODEL) -> None:
        require("sentence_transformers", "the judge 'nli'", "sentence-transformers")
        self.name = f"nli:{model}"
        self._model = Once(lambda: self._load(model))
        self._rest = Rest(REST)

    def judge(self, pairs: Sequence[tuple[str, str]], /) -> list[Label | None]:
        """Return the label of each pair of a new text and an older one; None for one that is too long.

        Raises:
            JudgeError: the model could not be fetched, has other classes, or failed.
        """
        short = [pair for pair in pairs if max(map(len, pair)) <= LONGEST]
        if not short:
            return [None] * len(pairs)
        labels = dict(zip(short, self._labels(short), strict=True))
        return [labels.get(pair) for pair in pairs]

    def _labels(self, pairs: Sequence[tuple[str, str]]) -> list[Label]:
        if self._rest.is_on:
            raise JudgeError(f"judge {self.name!r} could not be loaded lately and is given a rest. {_REMEDY}")
        model, places = self._model()
        with mapped(self.name, "judge", "Check the memory that is left.", "judge"):
            both = [*((old, new) for new, old in pairs), *pairs]
            given = model.predict(both, apply_softmax=True, show_progress_bar=False)
            shares = np.asarray(given, np.float64)[:, places].reshape(2, len(pairs), len(CLASSES))
        if not np.isfinite(shares).all():
            raise JudgeError(f"judge {self.name!r} gave no finite numbers. Choose another: set SALIENCE_JUDGE_MODEL.")
        return [label(shares[:, place], *pair) for place, pair in enumerate(pairs)]

    def _load(self, model: str) -> tuple[Any, list[int]]:
        try:
            with mapped(self.name, "be fetched and loaded", _REMEDY, "judge"):
                from sentence_transformers import CrossEncoder

                loaded = CrossEncoder(model)
                return loaded, self._places(loaded.config.id2label)
        except JudgeError:
            self._rest.begin()
            raise

    def _places(self, classes: Mapping[int, str]) -> list[int]:
        """Return where the model gives each of `CLASSES`."""
        found = {str(name).lower(): int(place) for place, name in classes.items()}
        if not found.keys() >= set(CLASSES):
            remedy = f"Choose a model with the classes {', '.join(CLASSES)}: set SALIENCE_JUDGE_MODEL."
            raise JudgeError(f"judge {self.name!r} has other classes than those of inference. {remedy}")
        return [found[name] for name in CLASSES]


def label(shares: Floats, new: str, old: str) -> Label:
    """Return what a new text is to an older one.

    Args:
        shares: float64[2, 3], how likely each of `CLASSES` is, old before new and the other way round, each [0, 1].
        new: the new text.
        old: the older one.
    """
    entailment = CLASSES.index("entailment")
    if (shares.argmax(axis=1) == entailment).all():
        return "duplicate"
    if CLASSES[int(shares.mean(axis=0).argmax())] != "contradiction":
        return "related"
    return "update" if _is_later(new, old) else "contradiction"


def _is_later(new: str, old: str) -> bool:
    """Return whether the words of two texts tell of a change, or that the older one holds for a time only."""
    from salience.extract.relation_reading import phrases, read  # its patterns take long to compile

    mine, theirs = read(new), read(old)
    return bool(mine.later or (mine.ended and not theirs.ended) or phrases("FOR_NOW", theirs.words))
