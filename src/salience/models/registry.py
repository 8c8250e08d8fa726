"""Models by name: each dict lists the choices of one setting.

To add a model, write a class with the methods of its port and add one entry here. Libraries are imported when a model
is chosen or loaded, not with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from salience.errors import InputError, SalienceError, Words, unknown
from salience.models import llm
from salience.models.bge import BGE
from salience.models.cache import Cached, WithTokens
from salience.models.facts import LLMFactReader
from salience.models.fastembed import DEFAULT_RERANKER, FastEmbed, FastEmbedReranker
from salience.models.minilm import MiniLM
from salience.models.multilingual import Multilingual
from salience.models.onnx_folder import from_folder
from salience.models.sentence_transformers import (
    DEFAULT_CROSS_ENCODER,
    DEFAULT_NLI,
    CrossEncoderReranker,
    NLIJudge,
    SentenceTransformer,
)
from salience.models.static import Static
from salience.models.tasks import LLMJudge, LLMSummariser
from salience.ports import Embedder, FactReader, Judge, Reranker, Summariser
from salience.records import checks
from salience.settings import Settings

T = TypeVar("T")
Choices = Mapping[str, Callable[[Settings], T]]
MAX_DIMENSION: Final = 65_536
PROTOCOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "embedder": ("name", "dimension", "embed"),
    "reranker": ("name", "scores"),
    "summariser": ("name", "summarise"),
}
"""Members that a caller's own object needs; the last one is a method."""
WITH_MINILM: Final = ("multilingual", "fastembed", "openai")
"""Embedders without token vectors that get those of minilm. Not `static`, which is chosen for its speed."""
MODELS: Final[Mapping[str, Mapping[str, str]]] = {
    "embedder": {
        "fastembed": "fastembed_model",
        "openai": "openai_model",
        "onnx": "embedder_model",
        "sentence-transformers": "embedder_model",
    },
    "reranker": {
        "fastembed": "reranker_model",
        "sentence-transformers": "reranker_model",
    },
}
"""Choices that take a model as `NAME:MODEL`, and the setting that holds it."""


def _openai_embedder(settings: Settings) -> Embedder:
    from salience.models.openai import OpenAI  # importing httpx takes longer than the rest of this package

    key = settings.openai_api_key
    return OpenAI(
        settings.openai_base_url,
        settings.openai_model,
        settings.openai_dimension,
        key.get_secret_value() if key else None,
        settings.openai_timeout,
        settings.openai_retries,
        send_dimension=settings.openai_send_dimension,
        query_prefix=settings.query_prefix,
        passage_prefix=settings.passage_prefix,
    )


def _keeps_tokens(settings: Settings) -> bool:
    return settings.token_vectors != "off"  # noqa: S105 - not that sort of token


def _model_of(settings: Settings, choice: str) -> str:
    if settings.embedder_model is None:
        raise InputError("embedder", choice, f"Name its model: {choice}:MODEL.", "has no model")
    return settings.embedder_model


def _onnx_embedder(settings: Settings) -> Embedder:
    return from_folder(
        Path(_model_of(settings, "onnx")).expanduser(),
        settings.query_prefix,
        settings.passage_prefix,
        settings.embedder_threads,
        _keeps_tokens(settings),
    )


def _minilm(settings: Settings) -> MiniLM:
    return MiniLM(settings.minilm_weights, settings.embedder_threads, _keeps_tokens(settings))


EMBEDDERS: Final[Choices[Embedder]] = {
    "minilm": _minilm,
    "static": lambda _: Static(),
    "bge": lambda settings: BGE(settings.embedder_threads, _keeps_tokens(settings)),
    "multilingual": lambda settings: Multilingual(settings.embedder_threads),
    "fastembed": lambda settings: FastEmbed(
        settings.fastembed_model,
        settings.fastembed_cache,
        query_prefix=settings.query_prefix,
        passage_prefix=settings.passage_prefix,
    ),
    "openai": _openai_embedder,
    "onnx": _onnx_embedder,
    "sentence-transformers": lambda settings: SentenceTransformer(
        _model_of(settings, "sentence-transformers"),
        query_prefix=settings.query_prefix,
        passage_prefix=settings.passage_prefix,
        tokens=_keeps_tokens(settings),
    ),
}
RERANKERS: Final[Choices[Reranker | None]] = {
    "none": lambda _: None,
    "fastembed": lambda settings: FastEmbedReranker(
        settings.reranker_model or DEFAULT_RERANKER, settings.fastembed_cache
    ),
    "sentence-transformers": lambda settings: CrossEncoderReranker(settings.reranker_model or DEFAULT_CROSS_ENCODER),
}
SUMMARISERS: Final[Choices[Summariser | None]] = {
    "none": lambda _: None,
    "openai": lambda settings: LLMSummariser(llm.from_settings(settings, "summariser")),
}
JUDGES: Final[Choices[Judge | None]] = {
    "none": lambda _: None,
    "openai": lambda settings: LLMJudge(llm.from_settings(settings, "judge", settings.judge_timeout)),
    "nli": lambda settings: NLIJudge(settings.judge_model or DEFAULT_NLI),
}
FACT_READERS: Final[Choices[FactReader | None]] = {
    "rules": lambda _: None,
    "openai": lambda settings: LLMFactReader(llm.from_settings(settings, "extractor", settings.llm_extract_timeout)),
}


def embedder(chosen: object, settings: Settings) -> Cached:
    """Return the chosen embedder behind a cache of `settings.embedder_cache` query vectors.

    `chosen` is a name from `EMBEDDERS`, if it takes a model as `NAME:MODEL`; an object with `name`, `dimension` and
    `embed(texts)`; or None for the setting.

    Raises:
        InputError: an unknown name, or an object that does not follow the protocol.
        MissingExtraError: the embedder's library is not installed.
    """
    chosen = settings.embedder if chosen is None else chosen
    made: Embedder = _made("embedder", chosen, EMBEDDERS, settings)
    is_named = isinstance(chosen, str)
    if not is_named:
        checks.whole("embedder.dimension", made.dimension, 1, MAX_DIMENSION)
    made = _with_tokens(made, settings, chosen)
    return Cached(made, settings.embedder_cache, measures=is_named)


def _with_tokens(made: Embedder, settings: Settings, chosen: object) -> Embedder:
    """Return the embedder, with the token vectors of minilm if the setting `token_vectors` says so."""
    is_slow = isinstance(chosen, str) and chosen.partition(":")[0] in WITH_MINILM
    asked = {"auto": is_slow, "minilm": True, "off": False}[settings.token_vectors]
    return WithTokens(made, _minilm(settings)) if asked and not isinstance(made, MiniLM) else made


def embedder_for(name: str, dimension: int, settings: Settings) -> Cached | None:
    """Return the embedder that matches the model pin of a store; None if neither the setting nor `EMBEDDERS` do."""
    for choice in (settings.embedder, *EMBEDDERS):
        with suppress(SalienceError):  # the library is not installed, or does not know the model
            made = _with_tokens(_made("embedder", choice, EMBEDDERS, settings), settings, choice)
            if made.name == name and made.dimension == dimension:
                return Cached(made, 0, measures=True)
    return None


def reranker(chosen: object, settings: Settings) -> Reranker | None:
    """Return the chosen reranker; None keeps the order of the profile.

    `chosen` is a name from `RERANKERS`, which may be followed by a model as `NAME:MODEL`; the URL of an endpoint (see
    `EndpointReranker`); an object with `name` and `scores(query, texts)`; or None for the setting.

    Raises:
        InputError: an unknown name, a URL that cannot be used, or an object that does not follow the protocol.
        MissingExtraError: the reranker's library is not installed.
        RerankerError: the library does not know the model.
    """
    chosen = settings.reranker if chosen is None else chosen
    if isinstance(chosen, str) and chosen.lower().startswith(("http://", "https://")):
        from salience.models.rerank_endpoint import EndpointReranker  # httpx is slow to import

        key = settings.reranker_api_key
        return EndpointReranker(chosen, key.get_secret_value() if key else None, settings.rerank_timeout)
    made: Reranker | None = _made("reranker", chosen, RERANKERS, settings)
    return made


def summariser(chosen: object, settings: Settings) -> Summariser | None:
    """Return the chosen summariser; None makes a reflection use the text of its medoid.

    `chosen` is a name from `SUMMARISERS`, an object with `name` and `summarise(sources)`, or None for the setting.

    Raises:
        InputError: an unknown name, an object that does not follow the protocol, or a URL or key that cannot be sent.
        MissingExtraError: the summariser's library is not installed.
    """
    chosen = settings.summariser if chosen is None else chosen
    made: Summariser | None = _made("summariser", chosen, SUMMARISERS, settings)
    return made


def judge(settings: Settings) -> Judge | None:
    """Return the judge that the settings name; None keeps the labels of the rules.

    Raises:
        InputError: an unknown name, or a URL or key that cannot be sent.
        MissingExtraError: the judge's library is not installed.
    """
    return _named("judge", settings.judge, JUDGES, settings)


def fact_reader(settings: Settings) -> FactReader | None:
    """Return the reader of facts that the rules miss, as the setting `extractor` says; None for no reader.

    Raises:
        InputError: an unknown name, or a URL or key that cannot be sent.
        MissingExtraError: the reader's library is not installed.
    """
    return _named("extractor", settings.extractor, FACT_READERS, settings)


def _named(field: str, name: str, choices: Choices[T], settings: Settings) -> T:
    if name not in choices:
        raise unknown(field, name, choices)
    return choices[name](settings)


def _made(field: str, chosen: object, choices: Choices[Any], settings: Settings) -> Any:
    """Return the choice of this name, or the given object if it follows the protocol."""
    members, made = PROTOCOLS[field], chosen
    if isinstance(chosen, str):
        chosen, separator, model = chosen.partition(":")
        if separator and chosen in MODELS.get(field, {}):
            settings = settings.model_copy(update={MODELS[field][chosen]: model})
        elif separator:
            chosen += separator + model
        if chosen not in choices:
            remedy = f"Choose one of: {', '.join(sorted(choices))}; or give an object with {', '.join(members)}."
            raise unknown(field, chosen, (), remedy)
        made = choices[chosen](settings)
    else:
        missing = [member for member in members if not hasattr(chosen, member)]
        if missing or isinstance(chosen, type) or not callable(getattr(chosen, members[-1])):
            found = f"an object of {type(chosen).__name__} without {', '.join(missing) or f'a method {members[-1]}'}"
            remedy = f"Give one of {', '.join(sorted(choices))}, or an instance with {', '.join(members)}."
            raise InputError(field, Words(found), remedy)
    if made is not None:
        checks.name(f"{field}.name", made.name)  # type: ignore[attr-defined]  # fails if its library lacks the model
    return made
