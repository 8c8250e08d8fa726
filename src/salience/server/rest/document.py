"""The OpenAPI document: every path, argument, answer and error, from the tables of verbs and errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, Final

import salience
from salience.help import TOPICS
from salience.rank import profiles
from salience.server.rest.answering import TAGS
from salience.server.rest.examples import EXAMPLES
from salience.server.rest.grouping import STREAMED, arguments, groups, is_in_query
from salience.server.rest.links import links
from salience.server.rest.reading import JSON, KEY, KEY_LIMIT, LINES, MANY
from salience.wire import errors as problems
from salience.wire.requests import VerbRequest
from salience.wire.responses import Schemas
from salience.wire.verbs import Verb

Json = dict[str, Any]
_SCHEMAS: Final = "#/components/schemas/"
_TEXT: Final = {"type": "string"}
_PROBLEM: Final = {"$ref": f"{_SCHEMAS}Problem"}
_TAGS: Final = {
    "memories": "Store, read and change memories.",
    "recall": "Find what matters now, and ask why.",
    "upkeep": "Move tiers, sum up, erase, do what is due.",
    "transfer": "Memories out and in, as lines of JSON.",
    "server": "Whether it is there, and what it offers.",
}
_TAG_OF: Final = {
    name: tag
    for tag, names in {
        "recall": ("recall", "recall_many", "graph_recall", "context", "explain"),
        "upkeep": ("reflect", "consolidate", "end_session", "erase", "upkeep"),
        "transfer": STREAMED,
        "server": ("stats", "help"),
    }.items()
    for name in names
}
"""The tag of a verb; that of the others is `memories`."""
_SAID: Final = {
    200: "Done.",
    201: "Something new was stored.",
    304: "The memory is at the version that is known already.",
}
_HEADERS: Final[Mapping[str, Json]] = {
    "ETag": {"description": 'the version of the memory: `"3"`', "schema": _TEXT},
    "Link": {"description": 'the next page, where there is one: `<...>; rel="next"`', "schema": _TEXT},
    "Location": {"description": "where the new memory is, where it is one", "schema": _TEXT},
    "Retry-After": {"description": "seconds after which to try again", "schema": {"type": "integer", "minimum": 1}},
    "WWW-Authenticate": {"description": "what is to be shown", "schema": _TEXT},
}
_OF_STATUS: Final = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}
CHOICES: Final = {"profile": profiles.NAMES, "topic": tuple(sorted(TOPICS))}
"""Arguments that name something that the server has."""
_NO_METHOD: Final = 405
"""Status of what is no operation, so that none can end with it."""
_TAG: Final = '(W/)?"[!#-~]*"'
_TAGGED: Final = rf"^(\*|{_TAG}(, *{_TAG}){{0,{TAGS - 1}}})$"
"""What `If-Match` may hold."""
_ALWAYS: Final = (400, 401, 403, 422, 429, 500, 503)
"""Statuses of errors that every verb can end with."""


@cache
def document() -> Json:
    """Return the document."""
    schemas = Schemas(_SCHEMAS)
    requests: Json = {}
    paths: Json = {}
    for verbs in groups():
        paths.setdefault(verbs[0].path, {})[verbs[0].method.lower()] = _operation(verbs, schemas, requests)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Salience",
            "version": salience.__version__,
            "summary": "Memory for AI agents that ranks what matters, shows why, and loses nothing.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name, "description": said} for name, said in _TAGS.items()],
        "security": [{"key": []}],
        "paths": paths | _served(),
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "a key that `salience keys create` made"}
            },
            "headers": dict(_HEADERS),
            "responses": {str(status): _problem(status) for status in problems.STATUSES if status != _NO_METHOD},
            "schemas": {**schemas.named, **requests, "Problem": problems.schema()},
        },
    }


def _operation(verbs: Sequence[Verb], schemas: Schemas, requests: Json) -> Json:
    """Return the operation of the verbs of one method and path; what they ask and answer goes into the components."""
    first = verbs[0]
    found: Json = {
        "operationId": first.name,
        "tags": [_TAG_OF.get(first.name, "memories")],
        "summary": " Or: ".join(verb.summary for verb in verbs),
        "description": f"Takes a key with the right `{first.right}`.",
        "parameters": [*_parameters(first), *_conditions(verbs)],
        "responses": _answers(verbs, schemas) | _errors(verbs),
    }
    if first.name == "import_":
        found["requestBody"] = {"required": True, "content": {LINES[0]: {"schema": _TEXT}}}
    elif not is_in_query(first):
        found["requestBody"] = _body(verbs, requests)
    return found


def _parameters(verb: Verb) -> list[Json]:
    """Return the parameters of the path and the query; those of a body are none."""
    schema = _plain(verb.request.model_json_schema())
    _chosen(schema["properties"])
    in_path, in_query = arguments(verb)
    made = [_parameter(name, schema["properties"][name]) | {"in": "path", "required": True} for name in in_path]
    required = schema.get("required", ())
    for name in in_query:
        parameter = _parameter(name, schema["properties"][name])
        if verb.name == "export":  # where nothing is named, it is whole
            parameter["schema"].pop("default", None)
        made.append(parameter | {"in": "query", "required": name in required})
    return made


def _parameter(name: str, found: Json) -> Json:
    """Return a parameter; null, which has no form in a URL, is left out of what it may be."""
    schema = {key: value for key, value in found.items() if key not in ("description", "anyOf")}
    for one in found.get("anyOf", ()):
        schema |= one if one != {"type": "null"} else {}
    if schema.get("default") is None:
        schema.pop("default", None)
    return {"name": name, "schema": schema, **{key: found[key] for key in ("description",) if key in found}}


def _conditions(verbs: Sequence[Verb]) -> list[Json]:
    """Return the headers that an operation reads."""
    names = {name for verb in verbs for name in verb.request.model_fields}
    made = []
    if names & {"key", *MANY}:
        key = {"type": "string", "minLength": 1, "maxLength": KEY_LIMIT, "pattern": "^[!-~]+$"}
        made.append({"name": KEY, "in": "header", "schema": key, "description": "a retry under it writes nothing"})
    if "if_version" in names:
        said = 'refused unless the memory is at one of these versions, such as `"3"`; in place of `if_version`'
        tags = {"type": "string", "pattern": _TAGGED}
        made.append({"name": "If-Match", "in": "header", "schema": tags, "description": said})
    if verbs[0].name == "get":
        said = '304 where the memory is at this version, such as `"3"`; what is no version is that of none'
        made.append({"name": "If-None-Match", "in": "header", "schema": _TEXT, "description": said})
    return made


def _body(verbs: Sequence[Verb], requests: Json) -> Json:
    """Return the body of an operation: the arguments that are not in its path."""
    for verb in verbs:
        made = _plain(verb.request.model_json_schema(ref_template=_SCHEMAS + "{model}"))
        requests |= made.pop("$defs", {})
        in_path, _ = arguments(verb)
        made["properties"] = {name: one for name, one in _chosen(made["properties"]).items() if name not in in_path}
        made["required"] = [name for name in made.get("required", ()) if name not in in_path]
        requests[_name(verb.request)] = made
    either = [{"$ref": _SCHEMAS + _name(verb.request)} for verb in verbs]
    examples = {verb.name: {"value": EXAMPLES[verb.name]} for verb in verbs if verb.name in EXAMPLES}
    content: Json = {"schema": either[0] if len(either) == 1 else {"anyOf": either}}
    if examples:
        content["examples"] = examples
    is_needed = all(made["required"] or "anyOf" in made for made in (requests[_name(verb.request)] for verb in verbs))
    return {"required": is_needed, "content": {JSON[0]: content}}


def _chosen(properties: Json) -> Json:
    """Return the schemas of arguments with the names that can be chosen, of those that the tables do not know."""
    for name in CHOICES.keys() & properties.keys():
        forms = properties[name]["anyOf"]
        properties[name]["anyOf"] = [{"type": "string", "enum": list(CHOICES[name])}, *forms[1:]]
    return properties


def _name(asks: type[VerbRequest]) -> str:
    return f"{asks.__name__}Request"  # some have the name of what is answered


def _plain(schema: Any) -> Any:
    """Return a schema without the titles that pydantic makes up."""
    if isinstance(schema, Mapping):
        return {key: _plain(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    return [_plain(item) for item in schema] if isinstance(schema, list) else schema


def _answers(verbs: Sequence[Verb], schemas: Schemas) -> Json:
    verb = verbs[0]
    if verb.name == "export":
        return {
            "200": {
                "description": "One object a line: a header, then memories.",
                "content": {LINES[0]: {"schema": _TEXT}},
            }
        }
    each = [verb.schema(schemas) for verb in verbs]
    content = {JSON[0]: {"schema": each[0] if len(each) == 1 else {"anyOf": each}}}
    headers, on = _headers(verb), {name: link for one in verbs for name, link in links(one).items()}
    leading = {"links": on} if on else {}
    found: Json = {"200": {"description": _SAID[200], "content": content, **headers, **leading}}
    if verb.creates:
        found["201"] = {"description": _SAID[201], "content": content, **_headers(verb, "Location"), **leading}
    if verb.name == "get":
        found["304"] = {"description": _SAID[304], **headers}
    return found


def _headers(verb: Verb, *more: str) -> Json:
    names = [*(["ETag"] if verb.name in ("get", "remember") or verb.changes else []), *more]
    names += ["Link"] if verb.name == "list" else []
    return {"headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names}} if names else {}


def _errors(verbs: Sequence[Verb]) -> Json:
    """Return the errors that an operation can end with."""
    names = {name for verb in verbs for name in verb.request.model_fields}
    statuses = {*_ALWAYS}
    if not is_in_query(verbs[0]):
        statuses |= {408, 413, 415, 502}
    if verbs[0].name == "import_":
        statuses |= {408, 413, 415, 502}
    if names & {"id", "ids", "memory_id", "supersedes", "drafts"}:
        statuses.add(404)
    if verbs[0].right != "read":
        statuses |= {409, 412}
    return _references(statuses)


def _references(statuses: Iterable[int]) -> Json:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


def _problem(status: int) -> Json:
    """Return what is answered with the status of an error."""
    titles = sorted({found.title for found in problems.PROBLEMS.values() if found.status == status})
    said = ". ".join(titles or [HTTPStatus(status).phrase]) + "."
    made: Json = {"description": said, "content": {problems.MEDIA_TYPE: {"schema": _PROBLEM}}}
    if status in _OF_STATUS:
        made["headers"] = {_OF_STATUS[status]: {"$ref": f"#/components/headers/{_OF_STATUS[status]}"}}
    return made


def _served() -> Json:
    """Return the paths that ask no verb."""
    profile = {
        "type": "object",
        "properties": {
            "name": {"enum": list(profiles.NAMES)},
            "summary": _TEXT,
            "limit": {"type": "integer"},
            "toml": _TEXT,
        },
        "required": ["name", "summary", "limit", "toml"],
    }
    shipped = {
        "type": "object",
        "properties": {"profiles": {"type": "array", "items": profile}},
        "required": ["profiles"],
    }
    alive = {"type": "object", "properties": {"status": {"const": "ok"}}, "required": ["status"]}
    return {
        "/v1/profiles": _simple(
            "profiles", "Return the profiles that ship: how each ranks.", shipped, (401, 403, 500, 503)
        ),
        "/healthz": _simple("alive", "Return that the process is up.", alive, ()),
        "/readyz": _simple("ready", "Return that the store answers.", alive, (500, 503)),
    }


def _simple(name: str, summary: str, schema: Json, errors: Iterable[int]) -> Json:
    found: Json = {
        "operationId": name,
        "tags": ["server"],
        "summary": summary,
        "responses": {"200": {"description": _SAID[200], "content": {JSON[0]: {"schema": schema}}}}
        | _references(errors),
    }
    return {"get": found if name == "profiles" else {**found, "security": []}}
