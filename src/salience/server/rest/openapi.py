"""The OpenAPI document: FastAPI makes it from the routes; this module describes the routes of the verbs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from http import HTTPStatus
from typing import Any, Final, get_args

from fastapi.responses import Response

from salience.help import TOPICS
from salience.rank import profiles
from salience.records import Context, Memory, Page, Recall, Receipt
from salience.server.rest.parsing import JSON, KEY_HEADER, KEY_LIMIT, KEYED_LISTS, argument_names, is_in_query
from salience.server.rest.responses import ANY_FILE, ETAGS_LIMIT, NDJSON
from salience.transfer.importers import SOURCES
from salience.verbs import VERBS, Verb
from salience.wire import errors
from salience.wire.responses import Schemas

Json = dict[str, Any]
TAGS: Final[list[Json]] = [
    {"name": "memories", "description": "Store, read and change memories."},
    {"name": "recall", "description": "Find memories, and explain why."},
    {"name": "upkeep", "description": "Promote, summarise, erase, maintain."},
    {"name": "transfer", "description": "Export and import lines of JSON."},
    {"name": "server", "description": "Health, help and counts."},
]
EXAMPLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "remember": {"content": "Alice prefers Python for backend work", "user_id": "alice", "importance": 0.8,
                 "tags": ["lang"]},
    "remember_many": {
        "drafts": [{"content": "The launch is on 3 June", "kind": "decision", "fact_key": "launch.date"},
                   {"content": "Bob writes the release notes"}],
        "project": "apollo",
    },
    "ingest": {
        "session_id": "monday",
        "messages": [{"role": "user", "content": "I moved to Lisbon last week."},
                     {"role": "assistant", "content": "How do you like it there?"}],
    },
    "update": {"importance": 0.9, "reason": "said twice"},
    "restore": {"version": 1},
    "recall": {"query": "What language does Alice like?", "user_id": "alice", "limit": 5},
    "recall_many": {"queries": ["What language does Alice like?", "Where does Alice live?"], "user_id": "alice"},
    "graph_recall": {"query": "Who works with Alice?", "max_hops": 2},
    "context": {"query": "What language does Alice like?", "user_id": "alice", "budget_tokens": 1500},
    "explain": {"query": "What language does Alice like?", "memory_id": "5f1d2c3b", "user_id": "alice"},
    "dismiss": {"other_id": "5f1d2c3b"},
    "erase": {"user_id": "alice", "dry_run": True},
}  # fmt: skip
"""Example requests by verb."""
CHOICES: Final = {"profile": profiles.NAMES, "topic": tuple(sorted(TOPICS)), "source": tuple(sorted(SOURCES))}
"""Arguments with a choice of names that the server has."""
_SCHEMAS: Final = "#/components/schemas/"
_TEXT: Final = {"type": "string"}
_HEADERS: Final[Mapping[str, Json]] = {
    "ETag": {"description": 'the version of the memory: `"3"`', "schema": _TEXT},
    "Link": {"description": 'the next page, if there is one: `<...>; rel="next"`', "schema": _TEXT},
    "Location": {"description": "the URL of the new memory, if there is one", "schema": _TEXT},
    "Retry-After": {"description": "seconds before a retry", "schema": {"type": "integer", "minimum": 1}},
    "WWW-Authenticate": {"description": "the required authentication", "schema": _TEXT},
}
_HEADER_OF_STATUS: Final = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}
ONE: Final = "/v1/memory/"
ALIAS: Final = "/v1/memories/"
"""Beginning of the paths of one memory, and that of their aliases, which are beside the path of the list."""
_ALWAYS: Final = (400, 401, 403, 422, 429, 500, 503)
"""Error statuses of every verb."""
_ETAG: Final = '(W/)?"[!#-~]*"'


@cache
def operation(verbs: tuple[Verb, ...]) -> Json:
    """Return the arguments of `add_api_route` that describe the verbs of one method and path."""
    first = verbs[0]
    names = {name for verb in verbs for name in verb.request.model_fields}
    statuses = {*_ALWAYS}
    if not is_in_query(first) or first.name == "import_":
        statuses |= {408, 413, 415, 502}
    if names & {"id", "ids", "memory_id", "supersedes", "drafts"}:
        statuses.add(404)
    if first.right != "read":
        statuses |= {409, 412}
    extra: Json = {"parameters": [*_parameters(first), *_header_parameters(first, names)]}
    if first.name == "import_":
        extra["requestBody"] = {
            "required": True,
            "content": {name: {"schema": _TEXT} for name in (NDJSON[0], ANY_FILE[0])},
        }
    elif not is_in_query(first):
        bodies = [_request_schemas(verb)[_request_name(verb)] for verb in verbs]
        content: Json = {"schema": _any_of([{"$ref": _SCHEMAS + _request_name(verb)} for verb in verbs])}
        if examples := {verb.name: {"value": EXAMPLES[verb.name]} for verb in verbs if verb.name in EXAMPLES}:
            content["examples"] = examples
        is_required = all(one["required"] or "allOf" in one for one in bodies)
        extra["requestBody"] = {"required": is_required, "content": {JSON[0]: content}}
    alias = f" `{first.path.replace(ONE, ALIAS, 1)}` is an alias of this path." if first.path.startswith(ONE) else ""
    return {
        "operation_id": first.name,
        "tags": [first.tag],
        "summary": " Or: ".join(verb.summary for verb in verbs),
        "description": f"Needs a key with the right `{first.right}`.{alias}",
        "response_class": Response,  # the media types are in the responses below
        "responses": _results(verbs) | _problems(statuses),
        "openapi_extra": extra,
    }


def server_operation(name: str, *statuses: int, is_public: bool = False) -> Json:
    """Return the arguments of a route that is not for a verb."""
    public: Json = {"openapi_extra": {"security": []}} if is_public else {}
    return {"operation_id": name, "tags": ["server"], "responses": _problems(statuses), **public}


def page(document: Json) -> str:
    """Return the operations of the document as HTML, which loads nothing and needs no script."""
    parts = [f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(document['info']['title'])}</title>"]
    parts.append(f"<h1>{escape(document['info']['title'])} {escape(document['info']['version'])}</h1>")
    parts.append("<p>A program reads the same at <a href='/openapi.json'>/openapi.json</a>.</p>")
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            fields = {name: value for given in _bodies(document, one) for name, value in given["properties"].items()}
            named = [(given["name"], given.get("description", "")) for given in one.get("parameters", ())]
            named += [(name, value.get("description", "")) for name, value in fields.items()]
            rows = "".join(f"<dt><code>{escape(name)}</code><dd>{escape(text)}" for name, text in named)
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(one['summary'])}</p>")
            parts.append(f"<p>{escape(one.get('description', ''))}</p><dl>{rows}</dl>")
    return "\n".join(parts)


def _bodies(document: Json, one: Json) -> list[Json]:
    """Return the schemas of the JSON body of an operation; none without one."""
    schema = one.get("requestBody", {}).get("content", {}).get(JSON[0], {}).get("schema", {})
    names = [given["$ref"].removeprefix(_SCHEMAS) for given in schema.get("anyOf", [schema]) if "$ref" in given]
    return [document["components"]["schemas"][name] for name in names]


def complete(document: Json) -> None:
    """Add the components of the verbs to FastAPI's document."""
    schemas = Schemas(_SCHEMAS)
    requests: Json = {}
    for verb in VERBS.values():
        if verb.name != "export":
            verb.response_schema(schemas)
        if not is_in_query(verb):
            requests |= _request_schemas(verb)
    responses: Json = {}
    for status in errors.STATUSES:
        titles = sorted({one.title for one in errors.PROBLEMS.values() if one.status == status})
        text = ". ".join(titles or [HTTPStatus(status).phrase]) + "."
        content = {errors.MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
        header = [_HEADER_OF_STATUS[status]] if status in _HEADER_OF_STATUS else []
        responses[str(status)] = {"description": text, "content": content, **_headers(header)}
    del responses["405"]  # no operation has it
    own = document.setdefault("components", {}).setdefault("schemas", {})
    document["security"] = [{"key": []}]
    document["components"] = {
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "of `salience keys create`"}},
        "headers": dict(_HEADERS),
        "responses": responses,
        "schemas": {**own, **schemas.named, **requests, "Problem": errors.schema()},
    }


def _parameters(verb: Verb) -> Iterator[Json]:
    """Yield the parameters in the path and the query, without null, which has no form in a URL."""
    whole = _without_titles(verb.request.model_json_schema())
    properties = _with_choices(whole["properties"])
    in_path, in_query = argument_names(verb)
    for name in (*in_path, *in_query):
        found = properties[name]
        schema = {key: value for key, value in found.items() if key not in ("description", "anyOf")}
        for one in found.get("anyOf", ()):
            schema |= one if one != {"type": "null"} else {}
        if schema.get("default") in (None, {}):
            schema.pop("default", None)
        form = {"content": {JSON[0]: {"schema": schema}}} if schema.get("type") == "object" else {"schema": schema}
        parameter = {"name": name, **form, **{key: found[key] for key in ("description",) if key in found}}
        where = "path" if name in in_path else "query"
        yield parameter | {"in": where, "required": name in in_path or name in whole.get("required", ())}


def _header_parameters(verb: Verb, names: set[str]) -> Iterator[Json]:
    if names & {"key", *KEYED_LISTS}:
        schema = {"type": "string", "minLength": 1, "maxLength": KEY_LIMIT, "pattern": "^[!-~]+$"}
        yield {"name": KEY_HEADER, "in": "header", "schema": schema, "description": "a retry with it writes nothing"}
    if "if_version" in names:
        schema = {"type": "string", "pattern": rf"^(\*|{_ETAG}(, *{_ETAG}){{0,{ETAGS_LIMIT - 1}}})$"}
        text = 'refused unless the memory has one of these versions, such as `"3"`; in place of `if_version`'
        yield {"name": "If-Match", "in": "header", "schema": schema, "description": text}
    if verb.name == "get":
        text = '304 if the memory has this version, such as `"3"`'
        yield {"name": "If-None-Match", "in": "header", "schema": _TEXT, "description": text}


def _request_schemas(verb: Verb) -> Json:
    """Return the schema of the body of a verb, and the schemas that it refers to, by name."""
    made = _without_titles(verb.request.model_json_schema(ref_template=_SCHEMAS + "{model}"))
    found: Json = made.pop("$defs", {})
    in_path, _ = argument_names(verb)
    made["properties"] = {name: one for name, one in _with_choices(made["properties"]).items() if name not in in_path}
    made["required"] = [name for name in made.get("required", ()) if name not in in_path]
    return {**found, _request_name(verb): made}


def _with_choices(properties: Json) -> Json:
    for name in CHOICES.keys() & properties.keys():
        properties[name]["anyOf"] = [{"type": "string", "enum": list(CHOICES[name])}, *properties[name]["anyOf"][1:]]
    return properties


def _request_name(verb: Verb) -> str:
    return f"{verb.request.__name__}Request"  # some models have the name of a record


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        items = schema.items()
        return {key: _without_titles(item) for key, item in items if not (key == "title" and isinstance(item, str))}
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema


def _any_of(schemas: Sequence[Json]) -> Json:
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}


def _results(verbs: Sequence[Verb]) -> dict[int | str, Json]:
    verb = verbs[0]
    if verb.name == "export":
        text = "One object per line: a header, then memories."
        return {200: {"description": text, "content": {NDJSON[0]: {"schema": _TEXT}}}}
    schema = _any_of([one.response_schema(Schemas(_SCHEMAS)) for one in verbs])
    names = ["ETag"] if verb.name in ("get", "remember") or verb.changes else []
    names += ["Link"] if verb.name in ("list", "recalls") else []
    links = {f"{one.name}_{name}": link for one in verbs for name, link in _links(one)}
    common = {"content": {JSON[0]: {"schema": schema}}, **({"links": links} if links else {})}
    found: dict[int | str, Json] = {200: {"description": "Done.", **common, **_headers(names)}}
    if verb.creates:
        found[201] = {"description": "A memory was created.", **common, **_headers([*names, "Location"])}
    if verb.name == "get":
        found[304] = {"description": "The memory has the given version.", **_headers(names)}
    return found


def _headers(names: Sequence[str]) -> Json:
    return {"headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names}} if names else {}


def _problems(statuses: Iterable[int]) -> dict[int | str, Json]:
    return {status: {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


_FIRST_MEMORY: Final[Mapping[Any, str]] = {
    Memory: "", Receipt: "/memory", Page: "/memories/0", Recall: "/hits/0/memory", Context: "/hits/0/memory",
}  # fmt: skip
"""Path of the first memory in a result."""


def _links(verb: Verb) -> Iterator[tuple[str, Json]]:
    """Yield the links from the result of a verb to other operations."""
    items = get_args(verb.response)
    kind, prefix = (items[0], f"/{verb.result_key}/0") if items else (verb.response, "")
    memory = f"$response.body#{prefix}{_FIRST_MEMORY.get(kind, '')}"
    if kind in _FIRST_MEMORY:
        for name in ("get", "update", "forget", "restore", "history"):
            yield name, _memory_link(name, memory)
    match verb.name:
        case "remember" | "ingest":
            body = {"environment": f"{memory}/scope/environment"}
            session = {"path.session_id": f"{memory}/scope/session_id"}
            yield "end_session", {"operationId": "end_session", "parameters": session, "requestBody": body}
        case "list" | "recalls":
            parameters = {"query.cursor": "$response.body#/cursor"}
            yield verb.name, {"operationId": verb.name, "parameters": parameters}
        case "get":
            for name in ("update", "forget"):
                yield f"{name}_unchanged", _memory_link(name, memory, {"header.If-Match": "$response.header.ETag"})
        case "history":
            first = f"{memory}/memory"
            body = {"version": f"{first}/version", "environment": f"{first}/scope/environment"}
            parameters = {"path.id": "$request.path.id"}
            yield "restore", {"operationId": "restore", "parameters": parameters, "requestBody": body}
        case "recall" | "graph_recall":
            body = {name: f"$request.body#/{name}" for name in ("query", "environment")}
            yield "explain", {"operationId": "explain", "requestBody": {"memory_id": f"{memory}/id", **body}}


def _memory_link(name: str, memory: str, parameters: Mapping[str, str] = {}) -> Json:
    """Return a link from a memory to a verb on it, in the scope of the memory."""
    found = {"path.id": f"{memory}/id", **parameters}
    if VERBS[name].method in ("GET", "DELETE"):
        where = ("environment", "project", "user_id", "agent_id")
        found |= {f"query.{one}": f"{memory}/scope/{one}" for one in where}
        return {"operationId": name, "parameters": found}
    return {"operationId": name, "parameters": found, "requestBody": f"{memory}/scope"}
