"""Models by name: each dict lists the choices of one setting.

To add a model, write a class with the methods of its port and add one entry here. Libraries are imported when a model
is chosen or loaded, not with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from salience.errors import InputError, SalienceError, Words, unknown
from salience.models import llm
from salience.models.bge import BGE
from salience.models.cache import Cached
from salience.models.facts import LLMFactReader
from salience.models.fastembed import DEFAULT_RERANKER, FastEmbed, FastEmbedReranker
from salience.models.minilm import MiniLM
from salience.models.multilingual import Multilingual
from salience.models.sentence_transformers import DEFAULT_CROSS_ENCODER, DEFAULT_NLI, CrossEncoderReranker, NLIJudge
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


EMBEDDERS: Final[Choices[Embedder]] = {
    "minilm": lambda settings: MiniLM(settings.minilm_weights, settings.embedder_threads, settings.token_vectors),
    "static": lambda _: Static(),
    "bge": lambda settings: BGE(settings.embedder_threads),
    "multilingual": lambda settings: Multilingual(settings.embedder_threads),
    "fastembed": lambda settings: FastEmbed(
        settings.fastembed_model,
        settings.fastembed_cache,
        query_prefix=settings.query_prefix,
        passage_prefix=settings.passage_prefix,
    ),
    "openai": _openai_embedder,
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


def embedder(chosen: object, settings: Settings) -> Embedder:
    """Return the chosen embedder behind a cache of `settings.embedder_cache` query vectors.

    `chosen` is a name from `EMBEDDERS`, an object with `name`, `dimension` and `embed(texts)`, or None for the setting.

    Raises:
        InputError: an unknown name, or an object that does not follow the protocol.
        MissingExtraError: the embedder's library is not installed.
    """
    chosen = settings.embedder if chosen is None else chosen
    made: Embedder = _made("embedder", chosen, EMBEDDERS, settings)
    if not isinstance(chosen, str):
        checks.whole("embedder.dimension", made.dimension, 1, MAX_DIMENSION)
    return Cached(made, settings.embedder_cache)


def embedder_for(name: str, dimension: int, settings: Settings) -> Embedder | None:
    """Return the embedder that matches the model pin of a store; None if none of `EMBEDDERS` does."""
    for make in EMBEDDERS.values():
        with suppress(SalienceError):  # the library is not installed, or does not know the model
            made = make(settings)
            if (made.name, made.dimension) == (name, dimension):
                return made
    return None


def reranker(chosen: object, settings: Settings) -> Reranker | None:
    """Return the chosen reranker; None keeps the order of the profile.

    `chosen` is a name from `RERANKERS`, an object with `name` and `scores(query, texts)`, or None for the setting.

    Raises:
        InputError: an unknown name, or an object that does not follow the protocol.
        MissingExtraError: the reranker's library is not installed.
        RerankerError: the library does not know the model.
    """
    made: Reranker | None = _made("reranker", settings.reranker if chosen is None else chosen, RERANKERS, settings)
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
