"""Settings, read from the environment (`SALIENCE_*`) and from `config.toml`. No other module reads either."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import platformdirs
from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from salience.errors import ConfigError, InputError, Words
from salience.records import checks

FOREVER: Final = "forever"
OFF: Final = "off"
PREFIX: Final = "SALIENCE_"
MASK: Final = "***"
_PASSWORD: Final = re.compile(r"(://[^/?#@:]*:).*(?=@)", re.DOTALL)
_SECRET_PARAMETER: Final = re.compile(
    r"(?<=[?&])([^=&#]*(?:password|secret|token|api[_-]?key)[^=&#]*=)[^&#]*", re.IGNORECASE
)
_UNITS: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def config_file() -> Path:
    """Return the path of `config.toml` in the platform's config directory."""
    return Path(platformdirs.user_config_dir("salience", appauthor=False)) / "config.toml"


def default_target() -> str:
    """Return the default store: `memory.db` in the platform's data directory."""
    return str(Path(platformdirs.user_data_dir("salience", appauthor=False)) / "memory.db")


def standard_otlp_endpoint() -> str | None:
    """Return the value of OpenTelemetry's own variable for the endpoint of traces, if it is set."""
    return os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None


def length_of_time(value: object, *, none: str = FOREVER) -> timedelta | None:
    """Return a length of time from seconds, a timedelta or text such as `24h`, `30d` or `2w`; None for `none`."""
    if value is None or (isinstance(value, str) and value.strip().lower() == none):
        return None
    try:
        return checks.duration("length of time", value)
    except InputError:
        remedy = f"Give a length of time such as '24h', '30d', '2w' or seconds, up to 100 years, or '{none}'"
        raise PydanticCustomError("length_of_time", remedy) from None


def _split(value: object) -> object:
    """Return the items of a comma-separated text."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


Duration = Annotated[timedelta | None, BeforeValidator(length_of_time)]
"""A length of time; None: forever."""
_OR_OFF: Final = BeforeValidator(partial(length_of_time, none=OFF))
Retention = Annotated[timedelta | None, _OR_OFF]
"""A length of time; None: off."""
_NONE_IF_OFF: Final = BeforeValidator(lambda value: None if value == OFF else value)
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""A list; comma-separated in the environment."""


class Settings(BaseSettings):
    """The settings of an installation: arguments first, then `SALIENCE_<NAME>`, the config file, the default.

    Raises (from `load`):
        ConfigError: the config file cannot be read.
        InputError: an invalid value, or an unknown key in the config file.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, validate_default=True)

    url: str = Field(default_factory=default_target, description="Store to open when no target is given")
    tenant: str = Field("default", min_length=1, max_length=256, description="Tenant of local stores")
    language: str | None = Field(
        None,
        description="Language of the texts: a name, `auto` (detected for each text) or `none` (words are not stemmed). "
        "Default: the language that the store was written for, or `auto` for a new one",
    )
    content_limit: int = Field(65_536, ge=1, description="Maximum size of a memory's content, in UTF-8 bytes")
    busy_timeout: float = Field(30.0, gt=0, le=3600, description="Seconds to wait for another writer or for a server")
    arena: Literal["memory", "mapped"] = Field(
        "memory", description="Deprecated and ignored; the vectors of a file are held in memory"
    )
    pool_size: int = Field(10, ge=1, le=1000, description="Maximum PostgreSQL connections per engine")
    statement_timeout: float = Field(60.0, gt=0, le=86_400, description="Timeout of a PostgreSQL statement, in seconds")
    node_timeout: float = Field(
        1.0, ge=0, le=3600, description="Seconds to wait for a node of a Citus cluster that is down"
    )
    prepared_statements: bool = Field(True, description="Use prepared statements; turn off behind some poolers")
    exact_rows: int = Field(
        250_000, ge=0, le=1_000_000, description="Maximum memories in view that PostgreSQL scores without an index"
    )
    cached_rows: int = Field(250_000, ge=0, le=100_000_000, description="PostgreSQL rows cached per process")
    keep_versions: Duration = Field(None, description="How long to keep old versions: `30d`, `2w`, `forever`")
    keep_touches: Duration = Field(timedelta(days=90), description="How long to keep past recall counters")
    keep_requests: Duration = Field(
        timedelta(days=7), description="How long to keep the answer to a write that has an idempotency key"
    )
    recall_log: Retention = Field(
        None, description="How long to keep a log of recalls with their questions: `30d`; unset or `off`: no log"
    )
    embed_patience: float | None = Field(
        10.0, gt=0, le=3600, description="Seconds that a write waits for a remote embedding model"
    )
    entities: str = Field("rules", description="Entity extractor: `rules`, or a spaCy pipeline as `spacy:NAME`")
    extractor: str = Field("rules", description="Fact extractor: `rules`, or `openai` where the rules find no fact")
    llm_extract_timeout: float = Field(3.0, gt=0, le=3600, description="Seconds that a write waits for the extractor")
    judge: str = Field("none", description="Conflict judge: `none` (rules only), `openai` or `nli`")
    judge_model: str | None = Field(None, min_length=1, description="Model of the nli judge; unset: its default")
    judge_timeout: float = Field(5.0, gt=0, le=3600, description="Seconds that a write waits for the judge")

    embedder: str = Field(
        "minilm",
        description="Embedder: `minilm`, `static`, `bge`, `multilingual`, `fastembed`, `openai`, `onnx:FOLDER` or "
        "`sentence-transformers:MODEL`",
    )
    embedder_model: str | None = Field(
        None, min_length=1, description="Model of the embedders `onnx` (a folder) and `sentence-transformers`"
    )
    embedder_threads: int = Field(0, ge=0, le=1024, description="Threads of a local embedder; 0: one per core")
    token_vectors: Literal["auto", "minilm", "off"] = Field(
        "auto",
        description="Vectors of a memory's tokens, 64 bytes each: `auto` (of the embedder; of minilm, if it has none), "
        "`minilm` or `off`",
    )
    warm: bool = Field(False, description="Load the embedding model and the memories when a store is opened")
    embedder_cache: int = Field(1024, ge=0, description="Query vectors cached in memory")
    minilm_weights: Path | None = Field(None, description="Path of an alternative model.onnx for the minilm embedder")
    query_prefix: str = Field("", description="Text before each query, if the model needs one")
    passage_prefix: str = Field("", description="Text before each stored text")
    fastembed_model: str = Field("BAAI/bge-small-en-v1.5", description="Model of the fastembed embedder")
    fastembed_cache: Path | None = Field(None, description="Directory of fastembed's models")
    openai_base_url: str = Field("https://api.openai.com/v1", description="Base URL of the openai embedder")
    openai_api_key: SecretStr | None = Field(None, description="API key of the openai embedder")
    openai_model: str = Field("text-embedding-3-small", description="Model of the openai embedder")
    openai_dimension: int = Field(1536, ge=1, le=65_536, description="Dimension of its vectors")
    openai_send_dimension: bool = Field(False, description="Ask the endpoint for vectors of that dimension")
    openai_timeout: float = Field(20.0, gt=0, le=3600, description="Timeout of an embedding request, in seconds")
    openai_retries: int = Field(3, ge=0, le=20, description="Maximum retries of an embedding request")

    reranker: str = Field(
        "none",
        description="Reranker: `none`, `fastembed:MODEL`, `sentence-transformers:MODEL`, or the URL of an endpoint, "
        "such as `http://HOST/rerank` (TEI) or `https://HOST/v2/rerank#MODEL` (Cohere, Jina)",
    )
    reranker_model: str | None = Field(
        None, min_length=1, description="Model of a reranker without one in its name; unset: its default"
    )
    reranker_api_key: SecretStr | None = Field(None, description="API key of the reranker's endpoint")
    rerank_timeout: float = Field(
        5.0, gt=0, le=3600, description="Seconds that a recall waits for the reranker, unless it has a deadline"
    )
    rerank_top: int = Field(20, ge=1, le=1000, description="Hits to rerank; the limit, if that is larger")

    summariser: str = Field("none", description="Summariser of reflections: `none` (the medoid's text) or `openai`")
    llm_base_url: str = Field("https://api.openai.com/v1", description="Base URL of the language model")
    llm_api_key: SecretStr | None = Field(None, description="API key of the language model")
    llm_model: str = Field("gpt-4.1-mini", min_length=1, description="Language model")
    llm_timeout: float = Field(60.0, gt=0, le=3600, description="Timeout of a language model request, in seconds")
    llm_retries: int = Field(2, ge=0, le=20, description="Maximum retries of a language model request")
    reflect_tightness: float = Field(0.55, ge=0, le=1, description="Minimum relatedness of memories to group")
    reflect_share: float = Field(0.6, ge=0.05, le=1, description="Minimum share of a subject's memories in a group")
    reflect_least: int = Field(3, ge=2, le=1000, description="Minimum memories of a reflection")
    reflect_greatest: int = Field(20, ge=2, le=1000, description="Maximum memories of a reflection")

    api_key: SecretStr | None = Field(None, description="API key for a server given as target or `url`")
    client_timeout: float = Field(30.0, gt=0, le=3600, description="Timeout of a client request, in seconds")
    client_retries: int = Field(3, ge=0, le=20, description="Maximum retries of a client request")
    client_allow_http: bool = Field(False, description="Allow plain http to a server on another machine")

    server_host: str = Field("127.0.0.1", min_length=1, description="Address that `salience serve` listens on")
    server_port: int = Field(8484, ge=0, le=65_535, description="Port of the server; 0: any free port")
    server_workers: int = Field(1, ge=1, le=256, description="Worker processes")
    server_threads: int = Field(32, ge=1, le=1024, description="Concurrent requests per worker")
    server_threads_per_key: int = Field(8, ge=1, le=1024, description="Concurrent requests of one API key per worker")
    server_memory: int = Field(
        128 * 1024 * 1024,
        ge=1024,
        description="Maximum bytes of request bodies in memory per worker; one API key may use a quarter",
    )
    server_connections: int = Field(800, ge=1, le=1_000_000, description="Maximum connections per worker")
    server_connections_per_address: int = Field(
        400, ge=1, le=1_000_000, description="Maximum connections per worker from one address, or from one proxy"
    )
    server_request_timeout: float = Field(
        10.0, gt=0, le=3600, description="Seconds to receive the head of a request, and again its body"
    )
    server_body_limit: int = Field(8 * 1024 * 1024, ge=1024, description="Maximum request body, in bytes")
    server_batch_limit: int = Field(1000, ge=1, le=100_000, description="Maximum memories or turns per request")
    server_answer_limit: int = Field(
        16 * 1024 * 1024, ge=1024, description="Maximum response with memories, in bytes; exports are not limited"
    )
    server_import_limit: int = Field(1024**3, ge=1024, description="Maximum body of an import, in bytes")
    server_deadline_ms: Annotated[float | None, _NONE_IF_OFF] = Field(
        10_000, gt=0, le=3_600_000, description="Default deadline of a recall, in milliseconds, or `off`"
    )
    server_hosts: Names = Field(
        (), description="Host names to accept; `*` for any; unset: its own address and loopback"
    )
    server_origins: Names = Field((), description="Web origins allowed to call the server")
    server_rate: Annotated[str | None, _NONE_IF_OFF] = Field(
        "30000/minute", description="Rate limit per API key, such as `600/minute`, or `off`"
    )
    server_shutdown: float = Field(30.0, gt=0, le=3600, description="Grace period of requests at shutdown, in seconds")
    server_upkeep: Duration = Field(timedelta(minutes=10), description="Interval of upkeep; `forever`: never")
    mcp_tools: str = Field(
        "default", min_length=1, description="MCP tools to offer: `default`, `all`, or comma-separated names"
    )
    ui: bool = Field(True, description="Serve the dashboard at /ui")
    ui_secret: SecretStr | None = Field(
        None,
        min_length=32,
        description="Secret that signs the dashboard's cookies; unset: random. Servers behind one name need the same",
    )
    metrics_token: SecretStr | None = Field(None, description="Token required at /metrics once API keys exist")
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="Minimum level to log")
    otlp_endpoint: str | None = Field(
        default_factory=standard_otlp_endpoint, min_length=1, description="Endpoint of traces, OTLP over HTTP"
    )
    oauth_issuer: str | None = Field(None, min_length=1, description="Trusted issuer of OAuth access tokens")
    oauth_audience: str | None = Field(None, min_length=1, description="Required audience of access tokens")
    oauth_jwks_url: str | None = Field(
        None, min_length=1, description="URL of the issuer's keys; unset: from its metadata"
    )
    oauth_tenant_claim: str = Field("tenant", min_length=1, description="Claim that holds the tenant")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, the strongest first. A `.env` file is not read: it may belong to another project."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=_file())


def _file() -> dict[str, Any]:
    """Return the content of the config file; empty if it does not exist.

    Raises:
        ConfigError: the file cannot be read, or is not TOML in UTF-8.
    """
    file = config_file()
    value: object = Words("a config file that cannot be read")
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except PermissionError:
        remedy, problem = f"Give this user the right to read it (chmod u+r {file}), or remove it.", "cannot be read"
    except IsADirectoryError:
        value, problem = Words("a folder"), "is a folder"
        remedy = "Remove or rename the folder: config.toml has to be a file."
    except OSError as error:
        remedy = f"Check the file and its disk ({error.strerror or type(error).__name__}), or remove it."
        problem = "cannot be read"
    except tomllib.TOMLDecodeError as error:
        value, remedy, problem = Words("invalid TOML"), "Write lines: key = value.", f"is not TOML: {error}"
    except UnicodeDecodeError:
        value, remedy, problem = Words("text that is not UTF-8"), "Save it in UTF-8.", "is not UTF-8"
    raise ConfigError(str(file), value, remedy, problem)


def load(**given: Any) -> Settings:
    """Return the settings; `given` overrides every other source."""
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        problem = first["msg"].replace("Input should be", "It should be")
        remedy = f"{problem}. Set {variable(name)} or the key in {config_file()}."
        raise InputError(".".join(map(str, first["loc"])), _masked_input(name, first["input"]), remedy) from None


def variable(name: str) -> str:
    """Return the environment variable of a setting: `SALIENCE_URL` for `url`."""
    return PREFIX + name.upper()


Source = Literal["argument", "environment", "config file", "default"]
Plain = str | float | bool | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting and its origin.

    Attributes:
        name: key in the config file.
        value: as it can be written in a source, secrets masked; None: unset.
        source: where the value comes from.
        description: in one line.
    """

    name: str
    value: Plain
    source: Source
    description: str


def effective(**given: Any) -> list[Setting]:
    """Return every setting with its source, secrets masked; `given` overrides every other source.

    Raises:
        InputError: an invalid value.
    """
    chosen = load(**given)
    sources: dict[str, Source] = dict.fromkeys(_file(), "config file")
    sources.update(dict.fromkeys(EnvSettingsSource(Settings)(), "environment"))
    sources.update(dict.fromkeys(given, "argument"))
    return [
        Setting(name, _plain(name, getattr(chosen, name)), sources.get(name, "default"), field.description or "")
        for name, field in Settings.model_fields.items()
    ]


def unknown() -> list[str]:
    """Return the `SALIENCE_*` variables that name no setting; one may be misspelt."""
    known = {variable(name) for name in Settings.model_fields}
    return sorted(name for name in os.environ if name.upper().startswith(PREFIX) and name.upper() not in known)


def masked(text: str) -> str:
    """Return `text` with the secrets of a URL masked: its password, and parameters such as `api_key`."""
    return _SECRET_PARAMETER.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\1{MASK}", text))


def _plain(name: str, value: Any) -> Plain:
    match value:
        case SecretStr():
            return MASK if value.get_secret_value() else ""
        case timedelta():
            seconds = value.total_seconds()
            unit, size = next(((unit, size) for unit, size in _UNITS if seconds % size == 0), _UNITS[-1])
            return f"{seconds / size:.6f}".rstrip("0").rstrip(".") + unit
        case Path():
            return str(value)
        case str():
            return masked(value)
        case tuple():
            return tuple(map(masked, value))
        case None if {_OR_OFF, _NONE_IF_OFF} & {*Settings.model_fields[name].metadata}:
            return OFF
        case None if Settings.model_fields[name].annotation == (timedelta | None):
            return FOREVER
    plain: Plain = value
    return plain


def _masked_input(name: str, value: object) -> object:
    """Return a rejected value as an error may show it; the value of a secret or of an unknown key is masked."""
    field = Settings.model_fields.get(name)
    if field is None or field.annotation == (SecretStr | None):
        return Words(MASK)
    return masked(value) if isinstance(value, str) else value
