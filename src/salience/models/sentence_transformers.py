"""Models of the library sentence-transformers: an embedder, a reranker, and a judge by natural language inference.

The library downloads a model when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from salience.batch import Floats, Tokens, Vectors32, unit_vectors
from salience.deadline import Pause
from salience.errors import JudgeError
from salience.extract.conflicts import names_change
from salience.loading import Once, mapped, require
from salience.models.tokens import TOKEN_SIZE, margins, random_projection
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


class SentenceTransformer:
    """Sentence vectors of a model, and token vectors of length 64. `dimension` downloads and loads the model.

    Args:
        model: a name on the Hugging Face Hub, or the path of a folder.
        query_prefix, passage_prefix: texts that the engine puts before each query and each stored text; empty for the
            model's own prompts `query` and `document` (or `passage`).
        tokens: whether stores should keep token vectors too.

    Raises:
        MissingExtraError: the library is not installed.
    """

    def __init__(self, model: str, *, query_prefix: str = "", passage_prefix: str = "", tokens: bool = True) -> None:
        require("sentence_transformers", "the embedder 'sentence-transformers'", "sentence-transformers")
        self.name = f"sentence-transformers:{model}"
        self.token_size = TOKEN_SIZE if tokens else 0
        self._given = query_prefix, passage_prefix
        self._model = Once(lambda: self._load(model))

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        model = self._model()
        length = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
        return int(length())

    @property
    def query_prefix(self) -> str:
        """Text that the engine puts before each query."""
        return self._given[0] or self._prompt("query")

    @property
    def passage_prefix(self) -> str:
        """Text that the engine puts before each stored text."""
        return self._given[1] or self._prompt("document") or self._prompt("passage")

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], rows of length 1.

        Raises:
            EmbedderError: the model could not be downloaded, or failed.
        """
        model = self._model()
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        with mapped(self.name, "embed", "Check the memory that is left."):
            # an empty prompt, since the engine has put the prefix before the text
            vectors = np.asarray(model.encode(list(texts), prompt="", show_progress_bar=False), np.float32)
        return unit_vectors(vectors, self.name, len(texts), self.dimension)

    def embed_tokens(self, texts: Sequence[str], /) -> tuple[Vectors32, list[Tokens]]:
        """Return what `embed` returns, and for each text int8[t, 64], without special tokens and those of a prefix.

        Raises:
            EmbedderError: as `embed`.
        """
        model, tokens = self._model(), list[Tokens]()
        if not texts:
            return np.empty((0, self.dimension), np.float32), tokens
        prefixes = [prefix for prefix in (self.query_prefix, self.passage_prefix) if prefix]
        with mapped(self.name, "embed", "Check the memory that is left."):
            made = model.encode(list(texts), prompt="", output_value=None, show_progress_bar=False)
            vectors = np.stack([one["sentence_embedding"].float().cpu().numpy() for one in made])
            for text, one in zip(texts, made, strict=True):
                states = one["token_embeddings"].float().cpu().numpy()
                states = states[np.asarray(one["attention_mask"].cpu()) > 0]  # without padding, left or right
                prefix = next((prefix for prefix in prefixes if text.startswith(prefix)), "")
                before, after = margins(model.tokenizer.backend_tokenizer, text, prefix)
                tokens.append(random_projection(states.shape[1])(states[before : max(len(states) - after, before)]))
        return unit_vectors(vectors, self.name, len(texts), self.dimension), tokens

    def _prompt(self, name: str) -> str:
        prompts: Mapping[str, str] = getattr(self._model(), "prompts", None) or {}
        return prompts.get(name) or ""

    def _load(self, model: str) -> Any:
        remedy = "Check the network, or give a folder that holds the model: sentence-transformers:FOLDER."
        with mapped(self.name, "be fetched and loaded", remedy):
            from sentence_transformers import SentenceTransformer as Library

            return Library(model)


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

    `shares` is float64[2, 3], the probability of each of `CLASSES`, first for old before new, then for new before old.
    """
    entailment = CLASSES.index("entailment")
    if (shares.argmax(axis=1) == entailment).all():
        return "duplicate"
    if CLASSES[int(shares.mean(axis=0).argmax())] != "contradiction":
        return "related"
    return "update" if names_change(new, old) else "contradiction"
