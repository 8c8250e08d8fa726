"""The OpenAPI document: its shape is held, so that a change to it is meant."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import httpx
from jsonschema import Draft202012Validator

from salience.server.rest.openapi import EXAMPLES
from salience.verbs import VERBS
from salience.wire import errors as problems
from servers import document

GOLDEN = Path(__file__).with_name("openapi.txt")


def shape() -> str:
    """Return the document in short: a line an operation, its arguments, what it answers."""
    lines = []
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            lines.append(f"{method.upper()} {path}  {operation['operationId']}")
            arguments = [f"{one['in']}:{one['name']}" for one in operation.get("parameters", ())]
            body = operation.get("requestBody", {}).get("content", {})
            arguments += [f"{media} {named(content['schema'])}" for media, content in body.items()]
            lines += [f"    {line}" for line in arguments]
            lines.append(f"  = {' '.join(operation['responses'])}")
    return "\n".join(lines) + "\n"


def named(schema: dict[str, Any]) -> str:
    return " | ".join(re.findall(r"schemas/(\w+)", json.dumps(schema))) or schema["type"]


def test_the_document_has_the_shape_that_is_held() -> None:
    assert shape() == GOLDEN.read_text("utf-8"), f"if the change is meant, write shape() to {GOLDEN}"


def test_the_server_tells_it(http: httpx.Client) -> None:
    assert http.get("/openapi.json").json() == json.loads(json.dumps(document()))


def test_a_page_for_readers_has_every_operation_and_loads_nothing(http: httpx.Client) -> None:
    response = http.get("/docs")
    assert response.headers["content-security-policy"] == "default-src 'none'"
    assert not re.search(r"<script|<link|src=|http", response.text)
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            assert f"<code>{method.upper()} {path}</code>" in response.text
            assert html.escape(operation["summary"]) in response.text
    assert "<dt><code>min_score</code><dd>minimum score" in response.text


def test_all_that_it_refers_to_is_there_and_all_that_is_there_is_referred_to() -> None:
    text = json.dumps(document())
    for kind in ("schemas", "responses", "headers"):
        assert {*re.findall(rf'"#/components/{kind}/([^"]+)"', text)} == {*document()["components"][kind]}


def test_its_schemas_are_schemas() -> None:
    for schema in document()["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_each_verb_and_each_status_of_an_error_is_in_it() -> None:
    arguments = {(verb.path, verb.method.lower()) for verb in VERBS.values()}
    there = {(path, method) for path, methods in document()["paths"].items() for method in methods}
    assert arguments == {one for one in there if one[0] not in ("/healthz", "/readyz")}
    assert {*document()["components"]["responses"]} == {str(status) for status in problems.STATUSES if status != 405}


def test_its_examples_can_be_sent() -> None:
    for name, example in EXAMPLES.items():
        given = {**dict.fromkeys(re.findall(r"{(\w+)}", VERBS[name].path), "0" * 32), **example}
        VERBS[name].request.model_validate(given, strict=True)
    found = [
        (content["schema"], example["value"])
        for methods in document()["paths"].values()
        for operation in methods.values()
        for content in operation.get("requestBody", {}).get("content", {}).values()
        for example in content.get("examples", {}).values()
    ]
    assert len(found) == len(EXAMPLES)
    for schema, value in found:
        Draft202012Validator({**schema, "components": document()["components"]}).validate(value)


def test_its_links_lead_to_operations_and_name_arguments_of_theirs() -> None:
    operations = {one["operationId"]: one for path in document()["paths"].values() for one in path.values()}
    answers = [answer for one in operations.values() for answer in one["responses"].values()]
    links = [link for answer in answers for link in answer.get("links", {}).values()]
    assert {"get", "update", "forget", "restore", "history", "list", "explain", "end_session", "recalls"} == {
        link["operationId"] for link in links
    }
    for link in links:
        target = operations[link["operationId"]]
        there = {f"{one['in']}.{one['name']}" for one in target.get("parameters", ())}
        assert link.get("parameters", {}).keys() <= there
        assert "requestBody" not in link or "requestBody" in target


def test_what_several_arguments_are_held_to_together_is_in_the_schemas() -> None:
    def accepts(name: str, value: dict[str, Any]) -> bool:
        schema = {"$ref": f"#/components/schemas/{name}Request", "components": document()["components"]}
        return Draft202012Validator(schema).is_valid(value)

    assert [accepts("Update", one) for one in ({}, {"reason": "x"}, {"ttl": None})] == [False, False, True]
    assert [accepts("Ingest", {"messages": [], **one}) for one in ({}, {"session_id": "x"})] == [False, True]
    assert [accepts("Erase", one) for one in ({}, {"ids": None}, {"ids": []}, {"project": None}, {"user_id": "x"})] == [
        False, False, True, False, True
    ]  # fmt: skip
