"""The only reader of the environment (`SALIENCE_*`) and of the config file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import platformdirs
from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from salience import checks
from salience.errors import InputError

FOREVER: Final = "forever"
"""Said of what is kept without end."""


def config_file() -> Path:
    """Return the path of the config file: `config.toml` in the platform's config directory."""
    return Path(platformdirs.user_config_dir("salience", appauthor=False)) / "config.toml"


def calibrations_file() -> Path:
    """Return the path of the calibrations made here: `calibrations.toml` beside the config file."""
    return config_file().with_name("calibrations.toml")


def default_target() -> str:
    """Return the store used when none is named: `memory.db` in the platform's data directory."""
    return str(Path(platformdirs.user_data_dir("salience", appauthor=False)) / "memory.db")


def length_of_time(value: object) -> timedelta | None:
    """Return a length of time from seconds, a timedelta, or text such as `30d`; None for `forever`."""
    if value is None or (isinstance(value, str) and value.strip().lower() == FOREVER):
        return None
    try:
        return checks.ttl("length of time", value)
    except InputError:
        remedy = "Give a length of time such as '30d', '24h' or seconds, up to 100 years, or 'forever'"
        raise PydanticCustomError("length_of_time", remedy) from None


Kept = Annotated[timedelta | None, BeforeValidator(length_of_time)]
"""How long something is kept; None: for ever."""


class Settings(BaseSettings):
    """Choices of the installation. Each is read from `SALIENCE_<NAME>`, then from the config file, then as below.

    Raises (from `load`):
        InputError: a value that does not fit, or an unknown key in the config file.
    """

    model_config = SettingsConfigDict(env_prefix="SALIENCE_", extra="forbid", frozen=True)

    url: str = Field(default_factory=default_target, description="where memories live when no target is named")
    tenant: str = Field("default", min_length=1, max_length=256, description="the tenant of local stores")
    language: str = Field("english", description="language of stop words and stemming; `none` for many languages")
    content_limit: int = Field(65_536, ge=1, description="longest content of a memory, bytes in UTF-8")
    busy_timeout: float = Field(30.0, gt=0, le=3600, description="seconds to wait for another's write, or for a server")
    pool_size: int = Field(10, ge=1, le=1000, description="most connections of one engine to PostgreSQL at a time")
    statement_timeout: float = Field(60.0, gt=0, le=86_400, description="seconds that one statement there may take")
    prepared_statements: bool = Field(True, description="whether PostgreSQL keeps statements; not behind some poolers")
    exact_rows: int = Field(5_000, ge=0, le=1_000_000, description="memories in sight up to which each is scored there")
    cached_rows: int = Field(
        100_000, ge=0, le=100_000_000, description="rows of PostgreSQL that a process keeps at hand"
    )
    keep_versions: Kept = Field(None, description="how long old versions are kept after their end: `30d`, `forever`")
    keep_touches: Kept = Field(
        timedelta(days=90), description="how long the recall counters of an earlier time stay known, likewise"
    )
    embed_patience: float | None = Field(
        10.0, gt=0, le=3600, description="seconds that a write waits for a remote embedder"
    )
    entities: str = Field("rules", description="who finds entities: `rules`, or a spaCy pipeline as `spacy:NAME`")
    extractor: str = Field("rules", description="who reads facts: `rules`, or `openai` where the rules find none")
    llm_extract_timeout: float = Field(3.0, gt=0, le=3600, description="seconds that a write waits for the latter")
    judge: str = Field("none", description="who labels conflicts: `none` (the rules), `openai` or `nli`")
    judge_model: str | None = Field(None, min_length=1, description="model of the nli judge, unless it is its own")
    judge_timeout: float = Field(5.0, gt=0, le=3600, description="seconds that a write waits for the judge")

    embedder_threads: int = Field(0, ge=0, le=1024, description="threads of the minilm embedder; 0: one per core")
    embedder_cache: int = Field(1024, ge=0, description="query vectors kept in memory")
    minilm_weights: Path | None = Field(None, description="another copy of model.onnx for the minilm embedder")
    fastembed_model: str = Field("BAAI/bge-small-en-v1.5", description="model of the fastembed embedder")
    fastembed_cache: Path | None = Field(None, description="where fastembed keeps its models")
    openai_base_url: str = Field("https://api.openai.com/v1", description="endpoint of the openai embedder")
    openai_api_key: SecretStr | None = Field(None, description="key of the openai embedder")
    openai_model: str = Field("text-embedding-3-small", description="model of the openai embedder")
    openai_dimension: int = Field(1536, ge=1, le=65_536, description="length of its vectors")
    openai_send_dimension: bool = Field(False, description="whether to ask the endpoint for vectors of that length")
    openai_timeout: float = Field(20.0, gt=0, le=3600, description="seconds to wait for one of its answers")
    openai_retries: int = Field(3, ge=0, le=20, description="further tries after a failure that may pass")

    calibrations: Path = Field(default_factory=calibrations_file, description="what cosines mean, by embedder")

    reranker: str = Field("none", description="who reorders recalls: `none`, `fastembed` or `sentence-transformers`")
    reranker_model: str | None = Field(None, min_length=1, description="its model, unless it is the reranker's own")
    rerank_top: int = Field(20, ge=1, le=1000, description="how many of the best it reads; the limit, if that is more")

    summariser: str = Field("none", description="who writes reflections: `none` (the medoid's text) or `openai`")
    llm_base_url: str = Field("https://api.openai.com/v1", description="endpoint of every language model asked")
    llm_api_key: SecretStr | None = Field(None, description="its key")
    llm_model: str = Field("gpt-4.1-mini", min_length=1, description="its model")
    llm_timeout: float = Field(60.0, gt=0, le=3600, description="seconds to wait for one of its answers")
    llm_retries: int = Field(2, ge=0, le=20, description="further tries after a failure that may pass")
    reflect_tightness: float = Field(0.55, ge=0, le=1, description="least relatedness of memories that go together")
    reflect_share: float = Field(0.6, ge=0.05, le=1, description="least share that they are of all on their subject")
    reflect_least: int = Field(3, ge=2, le=1000, description="fewest memories that a reflection sums up")
    reflect_greatest: int = Field(20, ge=2, le=1000, description="most of them")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read what is given, then the environment, then the config file; never a `.env` of some other project."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=config_file())


def load(**given: Any) -> Settings:
    """Return the settings, with `given` before every other source."""
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        shown = "***" if "key" in name else first["input"]
        remedy = f"{first['msg']}. Set SALIENCE_{name.upper()} or the key in {config_file()}."
        raise InputError(name, shown, remedy) from None
