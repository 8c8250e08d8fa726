"""The only reader of the environment (`SALIENCE_*`) and of the config file."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_origin

import platformdirs
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_core import PydanticCustomError

from salience.errors import ConfigError, InputError, Words
from salience.records import checks

FOREVER: Final = "forever"
"""Said of what is kept without end."""
PREFIX: Final = "SALIENCE_"
"""What the name of each of our variables starts with."""
MASK: Final = "***"
"""Shown in the place of a secret."""
_PASSWORD: Final = re.compile(r"(://[^/?#@:]*:).*(?=@)", re.DOTALL)
_SECRET_PARAMETER: Final = re.compile(
    r"(?<=[?&])([^=&#]*(?:password|secret|token|api[_-]?key)[^=&#]*=)[^&#]*", re.IGNORECASE
)
_UNITS: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def config_file() -> Path:
    """Return the path of the config file: `config.toml` in the platform's config directory."""
    return Path(platformdirs.user_config_dir("salience", appauthor=False)) / "config.toml"


def calibrations_file() -> Path:
    """Return the path of the calibrations made here: `calibrations.toml` beside the config file."""
    return config_file().with_name("calibrations.toml")


def default_target() -> str:
    """Return the store used when none is named: `memory.db` in the platform's data directory."""
    return str(Path(platformdirs.user_data_dir("salience", appauthor=False)) / "memory.db")


def standard_otlp_endpoint() -> str | None:
    """Return where traces go by the variable that OpenTelemetry has for it; None: nowhere."""
    return os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None


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


class Settings(BaseModel):
    """Choices of the installation. `load` reads each from `SALIENCE_<NAME>`, then from the config file, then as below.

    Raises (from `load`):
        ConfigError: the config file cannot be read.
        InputError: a value that does not fit, or an unknown key in the config file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    url: str = Field(default_factory=default_target, description="where memories live when no target is named")
    tenant: str = Field("default", min_length=1, max_length=256, description="the tenant of local stores")
    language: str = Field("english", description="language of stop words and stemming; `none` for many languages")
    content_limit: int = Field(65_536, ge=1, description="longest content of a memory, bytes in UTF-8")
    busy_timeout: float = Field(30.0, gt=0, le=3600, description="seconds to wait for another's write, or for a server")
    arena: Literal["memory", "mapped"] = Field(
        "memory", description="where a file's vectors are held to be searched: in memory, or `mapped` from a disk"
    )
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
    keep_requests: Kept = Field(
        timedelta(days=7), description="how long an update, forget or restore under a key is told again, likewise"
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
    warm: bool = Field(False, description="whether the model and memories are loaded as soon as a store is opened")
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

    api_key: SecretStr | None = Field(None, description="key of the server that `url`, or a target, names")
    client_timeout: float = Field(30.0, gt=0, le=3600, description="seconds to wait for each step of a server's answer")
    client_retries: int = Field(3, ge=0, le=20, description="further tries after a failure that may pass")
    client_allow_http: bool = Field(False, description="whether a server of another machine may be called over http")

    server_host: str = Field("127.0.0.1", min_length=1, description="address that `salience serve` listens on")
    server_port: int = Field(8484, ge=0, le=65_535, description="its port; 0: any that is free")
    server_workers: int = Field(1, ge=1, le=256, description="its processes")
    server_threads: int = Field(32, ge=1, le=1024, description="requests that one of them works on at a time")
    server_connections: int = Field(
        800, ge=1, le=1_000_000, description="connections that one of them holds at a time, in use or idle"
    )
    server_connections_per_address: int = Field(
        400, ge=1, le=1_000_000, description="the same from one address; behind a proxy, all have the proxy's"
    )
    server_request_timeout: float = Field(
        10.0, gt=0, le=3600, description="seconds for the head of a request, then for its body, to arrive"
    )
    server_body_limit: int = Field(8 * 1024 * 1024, ge=1024, description="longest body of a request, bytes")
    server_batch_limit: int = Field(1000, ge=1, le=100_000, description="most memories or turns of one request")
    server_answer_limit: int = Field(
        16 * 1024 * 1024, ge=1024, description="largest answer with memories, bytes; an export has no limit"
    )
    server_import_limit: int = Field(1024**3, ge=1024, description="longest body of an import, bytes")
    server_deadline_ms: float | None = Field(
        None, gt=0, le=3_600_000, description="milliseconds within which a recall is to answer, unless it names its own"
    )
    server_hosts: tuple[str, ...] = Field(
        (), description="names under which the server may be addressed, `*` for any; its own address, and loopback"
    )
    server_origins: tuple[str, ...] = Field((), description="web origins whose pages may call it; none")
    server_rate: str | None = Field(None, description="most requests of one key: `600/minute`; of no limit")
    server_shutdown: float = Field(30.0, gt=0, le=3600, description="seconds that requests have to end on SIGTERM")
    server_upkeep: Kept = Field(timedelta(minutes=10), description="how often the server does upkeep; `forever`: never")
    mcp_tools: str = Field(
        "default", min_length=1, description="MCP tools that are offered: `default`, `all`, or names with commas"
    )
    metrics_token: SecretStr | None = Field(None, description="what a scraper of /metrics has to show where keys are")
    log_level: str = Field(
        "info", pattern="^(debug|info|warning|error)$", description="least grave line that is logged"
    )
    otlp_endpoint: str | None = Field(
        default_factory=standard_otlp_endpoint, min_length=1, description="where traces go, OTLP over HTTP; nowhere"
    )
    oauth_issuer: str | None = Field(
        None, min_length=1, description="issuer of the tokens that the server takes beside its keys"
    )
    oauth_audience: str | None = Field(None, min_length=1, description="audience that such a token has to name")
    oauth_jwks_url: str | None = Field(None, min_length=1, description="its keys; found by the issuer's metadata")
    oauth_tenant_claim: str = Field("tenant", min_length=1, description="claim that holds the tenant")


def _environment() -> dict[str, Any]:
    """Return what our variables set; in them a list is written with commas: `memory.example.org,localhost`."""
    there = {name.upper(): value for name, value in os.environ.items()}
    found = {name: there[variable(name)] for name in Settings.model_fields if variable(name) in there}
    return {name: _items(value) if _is_list(name) else value for name, value in found.items()}


def _is_list(name: str) -> bool:
    return get_origin(Settings.model_fields[name].annotation) is tuple


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _file() -> dict[str, Any]:
    """Return the settings in the config file; none if the file does not exist.

    Raises:
        ConfigError: the file cannot be read, or is not TOML in UTF-8.
    """
    file = config_file()
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except PermissionError:
        remedy = f"Give this user the right to read it (chmod u+r {file}), or remove it."
        raise ConfigError(str(file), Words("a config file that cannot be read"), remedy, "cannot be read") from None
    except IsADirectoryError:
        remedy = "Remove or rename the folder: config.toml has to be a file."
        raise ConfigError(str(file), Words("a folder"), remedy, "is a folder") from None
    except OSError as error:
        remedy = f"Check the file and its disk ({error.strerror or type(error).__name__}), or remove it."
        raise ConfigError(str(file), Words("a config file that cannot be read"), remedy, "cannot be read") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            str(file), Words("what is no TOML"), "Write lines: key = value.", f"is not TOML: {error}"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(str(file), Words("what is not UTF-8"), "Save it in UTF-8.", "is not UTF-8") from None


Source = Literal["argument", "environment", "config file", "default"]


def _layers(given: dict[str, Any]) -> dict[Source, dict[str, Any]]:
    """Return what each source sets; a later one stands before an earlier. No `.env` of some other project is read."""
    return {"config file": _file(), "environment": _environment(), "argument": given}


def load(**given: Any) -> Settings:
    """Return the settings, with `given` before every other source."""
    try:
        return Settings(**{name: value for layer in _layers(given).values() for name, value in layer.items()})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        meant = first["msg"].replace("Input should be", "It should be")
        remedy = f"{meant}. Set {variable(name)} or the key in {config_file()}."
        raise InputError(".".join(map(str, first["loc"])), _harmless(name, first["input"]), remedy) from None


def variable(name: str) -> str:
    """Return the name of the variable that sets a setting: `SALIENCE_URL` of `url`."""
    return PREFIX + name.upper()


Plain = str | float | bool | tuple[str, ...] | None
"""A value in the form in which it can be given; None: unset."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as it stands.

    Attributes:
        name: its key in the config file.
        value: a secret, and a password in a URL, is masked.
        source: what gave the value.
        description: what it is for.
    """

    name: str
    value: Plain
    source: Source
    description: str


def standing(**given: Any) -> list[Setting]:
    """Return every setting as it stands, with `given` before every other source; safe to be shown.

    Raises:
        InputError: as `load` does.
    """
    chosen, sources = load(**given), _sources(given)
    return [
        Setting(name, _told(name, getattr(chosen, name)), sources.get(name, "default"), field.description or "")
        for name, field in Settings.model_fields.items()
    ]


def _sources(given: dict[str, Any]) -> dict[str, Source]:
    """Return what gave each setting that has not its default; the later layer stands before the earlier."""
    return {name: source for source, found in _layers(given).items() for name in found}


def unknown() -> list[str]:
    """Return the variables that look like ours and set nothing: one may be misspelt."""
    known = {variable(name) for name in Settings.model_fields}
    return sorted(name for name in os.environ if name.upper().startswith(PREFIX) and name.upper() not in known)


def masked(text: str) -> str:
    """Return `text` with the secrets that a URL may hold masked: its password, and parameters such as `api_key`."""
    return _SECRET_PARAMETER.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\1{MASK}", text))


def _told(name: str, value: Any) -> Plain:
    """Return a value of a setting without what is secret in it."""
    match value:
        case SecretStr():
            return MASK if value.get_secret_value() else ""
        case timedelta():
            return _length(value)
        case Path():
            return str(value)
        case str():
            return masked(value)
        case tuple():
            return tuple(map(masked, value))
        case None if Settings.model_fields[name].annotation == (timedelta | None):
            return FOREVER
    plain: Plain = value
    return plain


def _length(length: timedelta) -> str:
    """Return a length of time in the largest unit of which it is a whole number: `90d`, `10m`, `1.5s`."""
    seconds = length.total_seconds()
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds % size == 0), _UNITS[-1])
    return f"{seconds / size:.6f}".rstrip("0").rstrip(".") + unit


def _harmless(name: str, value: object) -> object:
    """Return a value that was refused as an error may show it: what may be a secret, or is unknown, is masked."""
    field = Settings.model_fields.get(name)
    if field is None or field.annotation == (SecretStr | None):
        return Words(MASK)
    return masked(value) if isinstance(value, str) else value
