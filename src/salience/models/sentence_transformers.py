"""Cross-encoders of the library sentence-transformers: a reranker, and a judge by natural language inference.

The library downloads a model when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from salience.batch import Floats
from salience.deadline import Pause
from salience.errors import JudgeError
from salience.extract.conflicts import names_change
from salience.loading import Once, mapped, require
from salience.records import Label

DEFAULT_CROSS_ENCODER: Final = "cross-encoder/ms-marco-MiniLM-L6-v2"
"""Default reranker: English, trained on MS MARCO."""
DEFAULT_NLI: Final = "cross-encoder/nli-deberta-v3-small"
"""Default judge: English, trained on SNLI and MultiNLI."""
CLASSES: Final = ("contradiction", "entailment", "neutral")
"""Classes of natural language inference."""
MAX_JUDGED: Final = 1000
"""Longest text, in characters, that `NLIJudge` labels: both texts must fit in the 512 tokens of such models."""
REST: Final = 60.0
"""Seconds without a new attempt after a model could not be loaded."""
_REMEDY: Final = "Check the network, or point SALIENCE_JUDGE_MODEL at a folder that holds the model."


class CrossEncoderReranker:
    """Scores of a cross-encoder with one output. The first `scores` downloads and loads the model.

    Args:
        model: a name on the Hugging Face Hub, or the path of a folder.

    Raises:
        MissingExtraError: the library is not installed.
    """

    def __init__(self, model: str = DEFAULT_CROSS_ENCODER) -> None:
        require("sentence_transformers", "the reranker 'sentence-transformers'", "sentence-transformers")
        self.name = f"sentence-transformers:{model}"
        self._model = Once(lambda: self._load(model))

    def scores(self, query: str, texts: Sequence[str], /) -> Floats:
        """Return float64[len(texts)], larger for a better answer.

        Raises:
            RerankerError: the model could not be downloaded, or failed.
        """
        if not texts:
            return np.empty(0)
        model = self._model()
        with mapped(self.name, "score", "Check the memory that is left.", "reranker"):
            pairs = [(query, text) for text in texts]
            return np.asarray(model.predict(pairs, show_progress_bar=False), np.float64)

    def _load(self, model: str) -> Any:
        remedy = "Check the network, or point SALIENCE_RERANKER_MODEL at a folder that holds the model."
        with mapped(self.name, "be fetched and loaded", remedy, "reranker"):
            from sentence_transformers import CrossEncoder

            return CrossEncoder(model)


class NLIJudge:
    """Labels of a cross-encoder with the classes contradiction, entailment and neutral, in any order.

    The first `judge` downloads and loads the model, which takes longer than a write waits; the first writes of a
    process may therefore get the labels of the rules. The model reads each pair in both directions. Texts that entail
    each other are duplicates. Two texts contradict each other if that class is the likeliest on average over both
    directions; a contradiction is an update if the words name a later time.

    Args:
        model: a name on the Hugging Face Hub, or the path of a folder.

    Raises:
        MissingExtraError: the library is not installed.
    """

    def __init__(self, model: str = DEFAULT_NLI) -> None:
        require("sentence_transformers", "the judge 'nli'", "sentence-transformers")
        self.name = f"nli:{model}"
        self._model = Once(lambda: self._load(model))
        self._rest = Pause(REST)

    def judge(self, pairs: Sequence[tuple[str, str]], /) -> list[Label | None]:
        """Return the label of each pair of a new text and an older one; None if a text is too long.

        Raises:
            JudgeError: the model could not be downloaded, has other classes, or failed.
        """
        short = [pair for pair in pairs if max(map(len, pair)) <= MAX_JUDGED]
        if not short:
            return [None] * len(pairs)
        if self._rest.is_on:
            raise JudgeError(f"judge {self.name!r} could not be loaded recently and is not tried for now. {_REMEDY}")
        model, positions = self._model()
        with mapped(self.name, "judge", "Check the memory that is left.", "judge"):
            both = [*((old, new) for new, old in short), *short]
            given = model.predict(both, apply_softmax=True, show_progress_bar=False)
            shares = np.asarray(given, np.float64)[:, positions].reshape(2, len(short), len(CLASSES))
        if not np.isfinite(shares).all():
            raise JudgeError(f"judge {self.name!r} gave no finite numbers. Choose another: set SALIENCE_JUDGE_MODEL.")
        labels = {pair: label(shares[:, place], *pair) for place, pair in enumerate(short)}
        return [labels.get(pair) for pair in pairs]

    def _load(self, model: str) -> tuple[Any, list[int]]:
        try:
            with mapped(self.name, "be fetched and loaded", _REMEDY, "judge"):
                from sentence_transformers import CrossEncoder

                loaded = CrossEncoder(model)
                return loaded, self._positions(loaded.config.id2label)
        except JudgeError:
            self._rest.begin()
            raise

    def _positions(self, classes: Mapping[int, str]) -> list[int]:
        """Return the position of each of `CLASSES` in the model's output."""
        found = {str(name).lower(): int(position) for position, name in classes.items()}
        if not found.keys() >= set(CLASSES):
            remedy = f"Choose a model with the classes {', '.join(CLASSES)}: set SALIENCE_JUDGE_MODEL."
            raise JudgeError(f"judge {self.name!r} has other classes than natural language inference. {remedy}")
        return [found[name] for name in CLASSES]


def label(shares: Floats, new: str, old: str) -> Label:
    """Return the label of a new text and an older one.

    Args:
        shares: float64[2, 3], the probability of each of `CLASSES`, first for old before new, then for new before old.
        new: the new text.
        old: the older text.
    """
    entailment = CLASSES.index("entailment")
    if (shares.argmax(axis=1) == entailment).all():
        return "duplicate"
    if CLASSES[int(shares.mean(axis=0).argmax())] != "contradiction":
        return "related"
    return "update" if names_change(new, old) else "contradiction"
