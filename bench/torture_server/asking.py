"""One request over REST or MCP, and its answer in a form that can be compared."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import httpx

from salience.wire.verbs import VERBS

Surface = Literal["rest", "mcp"]
TOOLS: Final = frozenset(
    "remember recall update forget list stats context explain history restore ingest reflect end_session help".split()
)
"""Verbs that MCP has too."""
_IN_QUERY: Final = ("GET", "DELETE")
_STREAMED: Final = ("export", "import_")
_LINES: Final = "application/x-ndjson"
_OWN: Final = re.compile(r"urn:salience:request:[^\"]+")
"""What differs from one answer to the next, whatever was asked."""
_PASSING: Final = ("date", "x-request-id", "content-length")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request.

    Attributes:
        verb: what is asked for: a verb, or what one surface alone has: `resource`, `prompt`, `completion`, `tools`,
            `profiles`.
        given: the arguments.
        surface: where.
        lines: the body of an import.
    """

    verb: str
    given: Mapping[str, Any]
    surface: Surface = "rest"
    lines: str = ""

    @property
    def text(self) -> str:
        """All of it as one text."""
        return json.dumps(self.given, ensure_ascii=False) + self.lines


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        status: over HTTP.
        is_ok: whether it was done; over MCP a failure has a status of 200, too.
        text: the body.
        headers: but for those that differ each time.
        seconds: that it took.
    """

    status: int
    is_ok: bool
    text: str
    headers: Mapping[str, str]
    seconds: float

    def but_for(self, id: str) -> tuple[int, str, Mapping[str, str]]:
        """Return what can be compared with the answer for another id."""
        return self.status, _OWN.sub("", self.text.replace(id, "ID").replace(id[-8:], "ID")), self.headers

    @property
    def told(self) -> Any:
        """The result as values, where it is JSON; over MCP that of the tool."""
        try:
            found = json.loads(self.text)
        except ValueError:
            return None
        return found.get("result", {}).get("structuredContent") if "jsonrpc" in found else found


class Line:
    """A connection to the server at a URL, for any key."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, token: str, asked: Asked) -> Answer:
        """Return the answer to a request under a key."""
        request = _tool(asked) if asked.surface == "mcp" else _rest(asked)
        built = self._client.build_request(**request)
        built.headers["authorization"] = f"Bearer {token}"
        began = time.perf_counter()
        answer = self._client.send(built)
        seconds = time.perf_counter() - began
        headers = {name: value for name, value in answer.headers.items() if name not in _PASSING}
        return Answer(answer.status_code, _is_ok(answer, asked.surface), answer.text, headers, seconds)


def _rest(asked: Asked) -> dict[str, Any]:
    if asked.verb == "profiles":
        return {"method": "GET", "url": "/v1/profiles"}
    verb, given = VERBS[asked.verb], dict(asked.given)
    path = verb.path.format_map({name: given.pop(name) for name in re.findall(r"{(\w+)}", verb.path)})
    if verb.method not in _IN_QUERY and asked.verb not in _STREAMED:
        return {"method": verb.method, "url": path, "json": given}
    query = {name: value for name, value in given.items() if value is not None}
    body = {"content": asked.lines, "headers": {"content-type": _LINES}} if asked.verb == "import_" else {}
    return {"method": verb.method, "url": path, "params": query, **body}


def _tool(asked: Asked) -> dict[str, Any]:
    match asked.verb:
        case "resource":
            method, params = "resources/read", dict(asked.given)
        case "prompt":
            method, params = "prompts/get", {"name": "recall_about", "arguments": dict(asked.given)}
        case "completion":
            about = {"type": "ref/resource", "uri": "salience://bootstrap/{project}"}
            method, params = "completion/complete", {"ref": about, "argument": {"name": "project", **asked.given}}
        case "tools":
            method, params = "tools/list", {}
        case name:
            method, params = "tools/call", {"name": name, "arguments": dict(asked.given)}
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return {"method": "POST", "url": "/mcp", "json": call, "headers": {"accept": "application/json, text/event-stream"}}


def _is_ok(answer: httpx.Response, surface: Surface) -> bool:
    if surface == "rest" or not answer.is_success:
        return answer.is_success
    result = answer.json().get("result")
    return result is not None and not result.get("isError")
