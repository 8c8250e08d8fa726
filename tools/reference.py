"""The reference pages, written from the code: `make reference` puts them in docs/reference.

Each page is a function that returns Markdown. The Python pages hold directives; mkdocstrings inserts the docstrings.
"""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import typer
from pydantic import SecretStr
from pydantic.fields import FieldInfo

import salience
from salience import ports, records, settings
from salience.cli import app as cli_app
from salience.rank import profile
from salience.rank.signals import SIGNALS, Parameter
from salience.rank.stages import STAGES
from salience.server.auth import Authenticator
from salience.server.gate import Gate
from salience.server.rest.app import app as rest_app
from salience.verbs import ALL, Verb, Verbs

FOLDER: Final = Path(__file__).parents[1] / "docs/reference"
GENERATED: Final = "\n\n<!-- Written by `make reference` from the code; do not edit. -->\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, or nothing without rows."""
    lines = ["| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *lines, "", ""]) if lines else ""


def prose(text: str | None) -> str:
    """Return help text as Markdown: what Markdown would interpret outside code is escaped."""
    pieces = re.split(r"(`[^`]*`)", inspect.cleandoc(text or ""))
    return "".join(piece if piece.startswith("`") else re.sub(r"([*<])", r"\\\1", piece) for piece in pieces)


# --- Settings ---------------------------------------------------------------------------------------------------------

SECTIONS: Final[Mapping[str, str]] = {
    "Server": "server_|mcp_|ui|metrics_|log_level|otlp_|oauth_",
    "Client": "client_|api_key",
    "PostgreSQL": "pool_size|statement_timeout|prepared_statements|exact_rows|cached_rows",
    "Embedding": "embed|token_vectors|warm|minilm_|query_prefix|passage_prefix|fastembed_|openai_",
    "Reranking": "rerank",
    "Language models and extraction": "llm_|summariser|reflect_|judge|extractor|entities",
    "Store": "",
}
"""Section -> how the names of its settings begin."""


def settings_page() -> str:
    """Return the page of the settings."""
    fields = settings.Settings.model_fields
    section = {name: next(title for title, start in SECTIONS.items() if re.match(start, name)) for name in fields}
    text = """# Settings

Salience reads each setting from the first of these sources that has it:

1. an argument of the call, or an option of the command line
2. the environment variable
3. the file `config.toml`, as `name = value`
4. the default

`salience config show` prints every setting with its value and its source. `salience config path` prints the path of
`config.toml`. A length of time is text such as `24h`, `30d` or `2w`, or a number of seconds.

"""
    for title in ("Store", *(title for title in SECTIONS if title != "Store")):
        rows = [
            (
                f'<a id="{name}"></a>`{name}`<br>`{settings.variable(name)}`',
                f"{_type(field)}<br>default: {_default(name, field)}",
                f"{field.description}.",
            )
            for name, field in fields.items()
            if section[name] == title
        ]
        text += f"## {title}\n\n" + table(("Name and variable", "Value", "Description"), rows)
    return text


def _type(field: FieldInfo) -> str:
    """Return the type of a setting in words, with its range."""
    kinds = [kind for kind in get_args(field.annotation) or (field.annotation,) if kind is not types.NoneType]
    if get_origin(field.annotation) is Literal:
        return " or ".join(f"`{choice}`" for choice in kinds)
    if get_origin(field.annotation) is tuple:
        return "list, separated by commas"
    names: dict[Any, str] = {
        str: "text", int: "integer", float: "number", bool: "`true` or `false`", Path: "path", SecretStr: "secret",
        timedelta: "length of time",
    }  # fmt: skip
    low = {"ge": "from {}", "gt": "above {}"}
    limits = [
        words.format(f"{getattr(item, name):,}")
        for name, words in {**low, "le": "to {}"}.items()
        for item in field.metadata
        if hasattr(item, name)
    ]
    return ", ".join([" or ".join(names[kind] for kind in kinds), *([" ".join(limits)] if limits else [])])


def _default(name: str, field: FieldInfo) -> str:
    if field.default_factory is not None:
        return (
            str(inspect.getdoc(field.default_factory))
            .removeprefix("Return the ")
            .removeprefix("default store: ")
            .split(", if")[0]
            .rstrip(".")
        )
    value = settings._plain(name, field.default)
    if value in (None, "", ()):
        return "unset"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


# --- Command line -----------------------------------------------------------------------------------------------------


def commands(group: Any, path: str = "salience") -> Iterator[tuple[str, Any]]:
    """Yield every command with its path, groups before their commands."""
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")


def cli_page() -> str:
    """Return the page of the command line."""
    main: Any = typer.main.get_command(cli_app)
    text = f"# Command line\n\n{prose(main.help)}\n\n"
    text += f"```text\nsalience [OPTIONS] COMMAND [ARGUMENTS]\n```\n\n{_options(main)}"
    found = list(commands(main))
    text += table(
        ("Command", ""),
        (
            (f"[`{path}`](#{path.replace(' ', '-')})", prose(command.help).split("\n\n")[0])
            for path, command in found
            if not hasattr(command, "commands")
        ),
    )
    for path, command in found:
        words = ["COMMAND"] if hasattr(command, "commands") else []
        for parameter in command.params:
            if not _is_option(parameter):
                name = parameter.metavar or parameter.name.upper()
                name += "..." if parameter.nargs == -1 else ""
                words.append(name if parameter.required else f"[{name}]")
        usage = " ".join([path, *(["[OPTIONS]"] if any(map(_is_option, command.params)) else []), *words])
        text += (
            f"{'#' * path.count(' ')}# {path}\n\n{prose(command.help)}\n\n```text\n{usage}\n```\n\n{_options(command)}"
        )
    return text


def _is_option(parameter: Any) -> bool:
    return str(parameter.opts[0]).startswith("-")


def _options(command: Any) -> str:
    """Return the tables of a command's arguments and options."""
    arguments = [
        (f"`{item.metavar or item.name.upper()}`", prose(item.help))
        for item in command.params
        if not _is_option(item) and item.help
    ]
    options = []
    for item in command.params:
        if _is_option(item) and not item.hidden and not item.name.endswith("_completion"):
            written = ", ".join(f"`{name}`" for name in (*item.opts, *item.secondary_opts))
            value = "" if item.is_flag else f" `{item.metavar or 'TEXT'}`"
            default = f" Default: {item.default}." if _shows_default(item) else ""
            options.append((written + value, prose(item.help) + default))
    return table(("Argument", ""), arguments) + table(("Option", ""), options)


def _shows_default(item: Any) -> bool:
    plain = isinstance(item.default, int | float | str) and not isinstance(item.default, bool)
    return plain and "Default:" not in (item.help or "")


# --- REST -------------------------------------------------------------------------------------------------------------


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of the server."""
    gate: Any = Gate(None)  # type: ignore[arg-type]
    document: dict[str, Any] = rest_app(gate, Authenticator(verifiers=[])).openapi()
    return document


def rest_page() -> str:
    """Return the page of the REST API."""
    document = openapi()
    components = document["components"]
    text = """# REST API

`salience serve` answers these requests. Send and receive JSON in UTF-8, and send an API key in the header
`Authorization: Bearer KEY` once the server has keys. A running server has the OpenAPI document of this page at
`/openapi.json`; the site has it beside this page. [Scopes](../explanation/scopes.md) says which request sees which
memory. The sections [Errors](#errors) and [Schemas](#schemas) apply to all requests.

"""
    operations = [(verb, path, item) for path, verbs in document["paths"].items() for verb, item in verbs.items()]
    for tag in document["tags"]:
        text += f"## Requests: {tag['name']}\n\n{tag['description']}\n\n"
        for verb, path, item in operations:
            if item["tags"] == [tag["name"]]:
                text += f"### {verb.upper()} {path}\n\n{_operation(item, components)}"
    text += "## Errors\n\nAn error is a [`Problem`](#problem) with one of these statuses.\n\n"
    text += table(("Status", "Meaning"), sorted(_errors(operations, components).items()))
    text += "## Schemas\n\n"
    for name, schema in components["schemas"].items():
        text += f"### {name}\n\n"
        text += prose(schema.get("description")) + "\n\n" if schema.get("description") else ""
        required = schema.get("required", ())
        text += table(
            ("Field", "Type", "Description"),
            (
                (f"`{key}`" + ("" if key in required else " (optional)"), kind(item), prose(item.get("description")))
                for key, item in schema.get("properties", {}).items()
            ),
        )
    return text


def _operation(item: Mapping[str, Any], components: Mapping[str, Any]) -> str:
    text = prose(item["summary"]) + "\n\n" + (prose(item["description"]) + "\n\n" if item.get("description") else "")
    text += table(
        ("Parameter", "Type", "Description"),
        (
            (
                f"`{one['name']}`<br>{one['in']}" + ("" if one.get("required") else ", optional"),
                kind(one["schema"]) if "schema" in one else f"{_content(one)} in JSON",
                prose(one.get("description")),
            )
            for one in item.get("parameters", ())
        ),
    )
    if "requestBody" in item:
        text += f"Request: {_content(item['requestBody'])}.\n\n"
    done = {code: _resolved(value, components) for code, value in item["responses"].items() if code < "300"}
    for code, response in done.items():
        text += f"Response {code}: {_content(response) or prose(response['description'])}.\n\n"
    failures = ", ".join(code for code in item["responses"] if code not in done)
    return text + (f"Errors: {failures}.\n\n" if failures else "")


def _content(body: Mapping[str, Any]) -> str:
    kinds = {name: kind(media.get("schema", {})) for name, media in body.get("content", {}).items()}
    return ", or ".join(shown if name == "application/json" else f"{shown} (`{name}`)" for name, shown in kinds.items())


def _errors(operations: Iterable[Any], components: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for _, _, item in operations:
        for code, response in item["responses"].items():
            if code >= "400":
                found.setdefault(code, prose(_resolved(response, components)["description"]))
    return found


def _resolved(value: Mapping[str, Any], components: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in value:
        return value
    *_, section, name = value["$ref"].split("/")
    resolved: Mapping[str, Any] = components[section][name]
    return resolved


def kind(schema: Mapping[str, Any]) -> str:
    """Return the type of a JSON schema in words, with links to named ones."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{name.lower()})"
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(kind, choices)))
    if "const" in schema or "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    if "properties" in schema:
        inside = ", ".join(f"`{name}`: {kind(item)}" for name, item in schema["properties"].items())
        return f"object ({inside})"
    name = schema.get("format") or schema.get("type", "any")
    name = " or ".join(name) if isinstance(name, list) else name
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    limits = ([f"from {low}"] if low is not None else []) + ([f"to {high}"] if high is not None else [])
    return str(name) + (f", {' '.join(limits)}" if limits else "")


# --- Profiles ---------------------------------------------------------------------------------------------------------


def profile_page() -> str:
    """Return the page of the keys, signals and stages of ranking profiles."""
    text = """# Profile files

A ranking profile is a TOML file. `salience profiles check FILE` checks one, and [Write your own
profile](../how-to/own-profile.md) explains how to make one.

## Keys

"""
    text += table(("Key", "Default", "Description"), ((f"`{key}`", *value) for key, value in profile.KEYS.items()))
    text += """## Signals

A signal is a formula that gives each memory a number. The score is the sum of weight x value over the signals that
combine as `"sum"`, times the product of value ^ weight over those that combine as `"product"`.

"""
    for name, signal in SIGNALS.items():
        choices = [(f"`{key}`", _words(words), f"`{words[0]}`") for key, words in signal.choices.items()]
        text += f"### {name}\n\nFrom {signal.low:g} to {signal.high:g}: {_formula(signal.formula)}\n\n"
        text += table(("Parameter", "Value", "Default"), (*choices, *_parameters(signal.parameters)))
    text += "## Stages\n\nStages run in the order of the key `stages`.\n\n"
    for name, stage in STAGES.items():
        place = "" if name == "score" else f" Comes {'after' if stage.after_score else 'before'} `score`."
        text += f"### {name}\n\n{_formula(stage.step)}{place}\n\n"
        text += table(("Parameter", "Value", "Default"), _parameters(stage.parameters))
    return text


def _formula(function: Callable[..., Any]) -> str:
    return prose(function.__doc__).partition("\n\nArgs:")[0].removeprefix("Return ")


def _parameters(parameters: Mapping[str, Parameter]) -> Iterator[tuple[str, str, str]]:
    for name, one in parameters.items():
        value = f"{'integer' if one.integer else 'number'} from {one.low:,.9g} to {one.high:,.9g}"
        keys = f"; one per key: {_words(one.keys)}" if one.keys else ""
        yield f"`{name}`", value + keys, "none" if one.default is None else f"{one.default:,g}"


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


# --- Python -----------------------------------------------------------------------------------------------------------


def python_page() -> str:
    """Return the page of the connections and their methods."""
    methods = "".join(_directive(f"salience.verbs.Verbs.{name}") + _arguments(one) for name, one in ALL.items())
    return (
        "# Python API\n\n`connect` returns an object with the methods below, and `aconnect` one with the same methods "
        "as coroutines. They work alike on a file, a database and a server.\n\n## Connect\n\n"
        + _directive("salience.compose.connect")
        + _directive("salience.compose.aconnect")
        + "## Methods\n\n[Scopes](../explanation/scopes.md) has a table of the memories that a call sees.\n\n"
        + prose(Verbs.__doc__).partition("\n\n")[2]
        + "\n\n"
        + methods
        + _directive("salience.verbs.Verbs.close")
    )


def _arguments(verb: Verb) -> str:
    """Return the table of a verb's arguments."""
    kinds = {name: one.annotation for name, one in inspect.signature(getattr(Verbs, verb.name)).parameters.items()}
    return table(
        ("Argument", "Type", "Description"),
        ((f"`{name}`", f"`{kinds[name]}`", prose(one.description)) for name, one in verb.arguments.items()),
    )


def records_page() -> str:
    """Return the page of the records."""
    found = {name: getattr(records, name) for name in records.__all__ if inspect.isclass(getattr(records, name))}
    first = [name for name in salience.__all__ if name in found]
    text = "# Records\n\nThe values that methods take and return. They cannot be changed.\n\n"
    return text + "".join(_directive(f"{found[name].__module__}.{name}") for name in dict.fromkeys([*first, *found]))


def errors_page() -> str:
    """Return the page of the errors."""
    names = [name for name in vars(salience.errors) if name in salience.__all__]
    text = (
        "# Errors\n\nEach error that Salience raises on purpose is a `SalienceError`. Import them from `salience`.\n\n"
    )
    return text + "".join(_directive(f"salience.errors.{name}") for name in names)


def ports_page() -> str:
    """Return the page of the ports and the contracts."""
    classes = [getattr(ports, name) for name in ports.__all__ if inspect.isclass(getattr(ports, name))]
    protocols = [one for one in classes if getattr(one, "_is_protocol", False)]
    values = [one for one in classes if one not in protocols]
    text = (
        "# Ports\n\nImplement a protocol to use your own store or model. Import these names from `salience.ports`.\n\n"
    )
    text += "## Protocols\n\n" + "".join(_directive(f"{one.__module__}.{one.__name__}") for one in protocols)
    text += "## Values\n\n" + "".join(_directive(f"{one.__module__}.{one.__name__}") for one in values)
    text += "## Tests\n\nTest doubles, and the contract that every store must pass.\n\n"
    return text + _directive("tests.contract.doubles") + _directive("tests.contract.store_contract")


def _directive(path: str) -> str:
    return f"::: {path}\n    options:\n      heading_level: 3\n\n"


INDEX: Final = """# Reference

The code writes these pages, so they match the installed version.

- [Python API](python.md): `connect`, `aconnect` and the methods; [records](python-records.md);
  [errors](python-errors.md); [ports](python-ports.md) for your own stores and models
- [Command line](cli.md): every command with its options
- [REST API](rest.md): every request, response and schema
- [Settings](settings.md): every setting with its variable, type and default
- [Profile files](profile.md): keys, signals, stages and parameters
"""
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "index.md": lambda: INDEX,
    "python.md": python_page,
    "python-records.md": records_page,
    "python-errors.md": errors_page,
    "python-ports.md": ports_page,
    "cli.md": cli_page,
    "rest.md": rest_page,
    "settings.md": settings_page,
    "profile.md": profile_page,
}


def write(folder: Path = FOLDER) -> None:
    """Write every page."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page().rstrip() + GENERATED, "utf-8")


if __name__ == "__main__":
    write()
