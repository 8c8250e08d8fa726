"""Every view, present and future, by the routes of the dashboard: escaping, CSRF, headers, bounds and rights.

A view is found by its router, and the parameters of its URLs by its source, so that a new view is tested without a
change here.
"""

from __future__ import annotations

import inspect
import re
import shutil
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from itertools import product
from urllib.parse import urljoin, urlsplit

import pytest

import salience
from bench.browser import dashboard
from dashboards import client_of, csrf_of
from salience.errors import InputError
from salience.records import ANY, Scope
from salience.server.ui import page as page_module
from salience.server.ui.site import POLICY
from salience.server.ui.views import VIEWS
from tests.contract.doubles import PlantedEmbedder, StoppedClock

pytestmark = pytest.mark.slow

ROUTES = sorted(
    (method, f"/ui{route.path}", view.title)
    for view in VIEWS
    for route in view.router.routes
    for method in route.methods
    if method in ("GET", "POST")
)
GETS = [(path, title) for method, path, title in ROUTES if method == "GET"]
POSTS = [path for method, path, _ in ROUTES if method == "POST"]
PATH_IDS = [path for path, _ in GETS]
_PARAMETER = re.compile(r'query(?:\.get|\.getlist)?[(\[]"(\w+)"')
EVERYTHING = Scope(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY)
_RLO = "\u202e"
NASTY = (
    "<nasty>x</nasty>",
    "<script>nasty()</script>",
    '"><img src=x onerror=nasty()>',
    "' onmouseover='nasty()' nasty='",
    '" onfocus="nasty()" autofocus nasty="',
    "</textarea></title></option><script>nasty()</script>",
    "--><nasty>",
    "javascript:nasty()",
    '{{ "nas" ~ "tily rendered" }}',
    "{% if true %}nastily {% endif %}rendered",
    "&lt;nasty&gt; &amp;",
    f"{_RLO}gnp.exe",
    "nul \x00 nasty",
    "]]><nasty>",
    "<svg/onload=nasty()>",
)
FIELDS = (
    "content",
    "tags",
    "entities",
    "user_id",
    "project",
    "agent_id",
    "session_id",
    "metadata",
    "speaker",
    "reason",
)
SECRET = "zanzibar"
"""In every text of the user that a bound key must not see."""


def parameters(title: str) -> list[str]:
    """Return the parameters of the URLs of a view."""
    [module] = [inspect.getmodule(view.router.routes[0].endpoint) for view in VIEWS if view.title == title]
    source = inspect.getsource(module) + inspect.getsource(page_module)
    return sorted({*_PARAMETER.findall(source), "user_id", "session_id", "project", "f_user_id", "f_session_id"})


def ids_of(engine):
    return [one.memory.id for one in engine.services.store.scan(EVERYTHING, forgotten=True)]


def filled(path: str, memory: str, recall: str) -> str:
    """Return a path with ids in place of its parameters."""
    return re.sub(r"{(\w+)(?::\w+)?}", lambda found: recall if "recall" in path else memory, path)


class _Inert(HTMLParser):
    """Collects the faults of a page: elements, attributes and URLs that stored text must not make."""

    URLS = ("href", "src", "action", "formaction", "xlink:href", "poster", "data", "hx-get", "hx-post")
    VOID = ("meta", "link", "input", "br", "hr", "img", "path", "line", "rect", "circle", "use", "col", "wbr")

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.open: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in ("nasty", "iframe", "object", "embed", "base", "style", "img"):
            self.faults.append(f"<{tag}>")
        if tag == "script" and not (given.get("src") or "").startswith("/ui/static/"):
            self.faults.append("<script>")
        for name, value in attributes:
            if (
                name in ("nasty", "style", "autofocus", "srcdoc")
                or name.startswith("on")
                or (name in self.URLS and not re.match(r"(/ui/|\?|#)|/ui$", value or ""))
            ):
                self.faults.append(f"{tag} {name}={value!r}")
        if tag not in self.VOID:
            self.open.append((tag, given))

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if any(name == tag for name, _ in self.open):
            while self.open.pop()[0] != tag:
                pass

    def handle_data(self, data):
        isolated = any("dir" in given or tag in ("option", "title", "textarea", "bdi") for tag, given in self.open)
        if _RLO in data and not isolated:
            around = self.open[-1] if self.open else None
            self.faults.append(f"text of another direction in {around}")


def faults_of(text: str) -> list[str]:
    page = _Inert()
    page.feed(text)
    page.close()
    return page.faults + (["rendered template"] if "nastily rendered" in text else [])


def fill(engine):
    """Store each nasty text in each field that accepts it, of few memories, and log recalls of them."""
    engine.services = replace(engine.services, recall_log=timedelta(days=30))
    accepted = dict.fromkeys(FIELDS, 0)
    for number, text in enumerate(NASTY):
        values = {"tags": [text], "entities": [text], "metadata": {text: text}}
        for names in (("content", "tags", "entities", "metadata"), ("user_id", "project", "agent_id", "session_id")):
            given = {"content": f"near {number}", "user_id": "ann", "duplicate": True}
            for name in names:
                if accepts(**{"content": "x", name: values.get(name, text)}):
                    given[name] = values.get(name, text)
                    accepted[name] += 1
            engine.remember(**given)
        if accepts(text):
            accepted["speaker"] += 1
            engine.ingest([{"content": f"near {number}", "speaker": text}], user_id="ann", session_id="s")
            accepted["reason"] += 1
            one = engine.remember(f"near {text!r}", user_id="ann").memory
            engine.update(one.id, content=f"far {text!r}", reason=text, user_id="ann")
            engine.forget(one.id, reason=text, user_id="ann")
            engine.recall(text, user_id="ann")
    assert all(count >= 8 for count in accepted.values()), accepted


def accepts(content="x", **given):
    """Whether a memory may have such fields."""
    with salience.connect(":memory:", embedder=PlantedEmbedder()) as engine, suppress(InputError):
        engine.remember(content, **given)
        return True
    return False


@pytest.fixture(scope="module")
def nasty_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("nasty") / "nasty.db"
    with salience.connect(file, embedder=PlantedEmbedder({"near": 0.9, "far": 0.7}), clock=StoppedClock()) as engine:
        fill(engine)
    return file


@pytest.fixture
def nasty_target(nasty_file, target):
    """Copy the store of nasty texts to the place where `engine` opens it; tests name this fixture before a client."""
    shutil.copy(nasty_file, target)


@pytest.fixture
def nasty(nasty_target, engine):
    """A store that has each nasty text in each field that accepts it, and recalls of them in its log."""
    engine.services = replace(engine.services, recall_log=timedelta(days=30))
    return engine


def samples(engine) -> list[tuple[str, str]]:
    """Return pairs of the id of a memory and of a recall."""
    recalls = [one.id for one in engine.recalls(project=ANY, user_id=ANY, agent_id=ANY).recalls] or ["0" * 32]
    return [(memory, recalls[place % len(recalls)]) for place, memory in enumerate(ids_of(engine))]


def inside(response) -> bool:
    """Whether a redirect leads to a page of the dashboard."""
    target = urljoin("http://127.0.0.1/ui/x", response.headers["location"])
    parts = urlsplit(target)
    return parts.netloc == "127.0.0.1" and parts.path.startswith("/ui")


def check(response, *expected: int) -> str:
    """Return the text of a response after a check of its headers, and of its markup if it is a page."""
    headers = response.headers
    assert response.status_code < 500, response.text[:300]
    if expected:
        assert response.status_code in expected, (response.status_code, response.url)
    assert headers["content-security-policy"] == POLICY
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    if response.is_redirect:
        assert inside(response), headers["location"]
    elif headers.get("content-type", "").startswith("text/html"):
        assert faults_of(response.text) == [], response.url
    return response.text


def test_the_parser_finds_what_it_looks_for():
    for text in ("<nasty>", "<script>", "<a href='javascript:x'>", "<p onclick=x>", "<img src=x>", f"<p>{_RLO}x</p>"):
        assert len(faults_of(text)) >= 1, text
    assert faults_of(f'<a href="/ui/x">a</a><p dir="auto"><b>{_RLO}</b></p><br>') == []


@pytest.mark.parametrize(("path", "title"), GETS, ids=PATH_IDS)
def test_stored_text_is_inert(nasty, client, path, title):
    pairs = samples(nasty) if "{" in path else samples(nasty)[:1]
    for memory, recall in pairs:
        check(client.get(filled(path, memory, recall)))
    memory, recall = pairs[-1]
    for query in (
        "q=near",
        "q=near&mode=recall&counts=1",
        f"q=near&memory={memory}&id={memory}",
        "id=s&q=",
        "f_status=forgotten",
    ):
        check(client.get(f"{filled(path, memory, recall)}?{query}"))
    for parameter in parameters(title):
        check(client.get(filled(path, memory, recall), params={"q": "near", parameter: " ".join(NASTY)}))
        check(client.get(filled(path, memory, recall), params={"q": "near", parameter: NASTY[4]}))


def state(engine, keyring=None):
    memories = engine.services.store.revisions(EVERYTHING, limit=10_000)
    keys = [(key.prefix, key.revoked_at) for key in keyring.list()] if keyring else []
    return [(one.memory, one.until) for one in memories], keys


def _fields() -> dict[str, str]:
    return {
        "content": "changed", "reason": "r", "version": "1", "tags": "t", "importance": "0.9", "confirm": "yes",
        "note": "n", "rights": "admin", "action": "forget", "choice": "newer",
    }  # fmt: skip


def test_there_are_forms():
    assert len(POSTS) >= 5


@pytest.mark.parametrize("path", POSTS)
def test_a_form_needs_the_token_of_its_session(keyed, engine, keyring, path):
    memory = engine.remember("near", user_id="ann").memory.id
    client, other = keyed("admin"), keyed("admin")
    before, url = state(engine, keyring), filled(path, memory, memory)
    for token in (None, "", "0" * 64, csrf_of(other)):
        form = {**_fields(), "id": memory, "ids": memory} | ({} if token is None else {"csrf": token})
        for target in (url, f"{url}?csrf={csrf_of(client)}"):
            check(client.post(target, data=form), 403, 415)  # 415: the form takes a file
    assert client.post(url, files={"file": b"x"}, data={"csrf": "0" * 64}).status_code in (403, 415)
    assert client.post(url, json={"csrf": csrf_of(client)}).status_code in (403, 415, 422)
    assert state(engine, keyring) == before


@pytest.mark.parametrize(("path", "title"), GETS, ids=PATH_IDS)
def test_a_read_key_sees_no_form_but_the_log_out(nasty, keyed, path, title):
    client = keyed("read")
    for memory, recall in samples(nasty)[:: 40 if "{" in path else 1000]:
        for query in ("", f"?q=near&id={memory}&memory={memory}", "?id=s"):
            text = check(client.get(filled(path, memory, recall) + query), 200, 303, 403, 404, 422)
            forms = re.findall(r"<form[^>]*post[^>]*>", text, re.IGNORECASE)
            assert all('action="/ui/logout"' in form for form in forms), forms
            assert "hx-post" not in text
            assert 'formmethod="post"' not in text


READERS = {"/ui/why"}
"""Forms that change nothing, such as a question that is too long for a URL."""


@pytest.mark.parametrize("path", POSTS)
def test_a_read_key_changes_nothing(keyed, engine, keyring, path):
    one = engine.remember("near", user_id="ann").memory
    engine.update(one.id, content="far", user_id="ann")
    client = keyed("read")
    before = state(engine, keyring)
    for fields in ({}, _fields()):
        form = {**fields, "id": one.id, "ids": one.id, "csrf": csrf_of(client)}
        response = client.post(filled(path, one.id, one.id), data=form)
        check(response, *((403, 415) if path not in READERS else (200, 303, 403, 422)))
    assert state(engine, keyring) == before


@pytest.fixture
def shared(engine):
    """A store of ann and bob, whose memories have links to each other; all texts of bob have `SECRET`."""
    engine.services = replace(engine.services, recall_log=timedelta(days=30))
    bob = {"user_id": "bob", "session_id": "bob-session", "project": "p"}
    secret = {"tags": [f"{SECRET}-tag"], "entities": [f"{SECRET} entity"], "metadata": {"k": SECRET}}
    first = engine.remember(f"near {SECRET} one", fact_key="car", **secret, **bob).memory
    engine.update(first.id, content=f"near {SECRET} two", reason=f"{SECRET} reason", **bob)
    engine.remember(f"near {SECRET} three", supersedes=first.id, fact_key="car", **secret, **bob)
    engine.ingest([{"content": f"far {SECRET}", "speaker": SECRET}], **bob)
    gone = engine.remember(f"near {SECRET} gone", **secret, **bob).memory
    engine.forget(gone.id, reason=SECRET, **bob)
    engine.recall(f"near {SECRET}", **bob)
    engine.remember("near ann", user_id="ann", project="p", session_id="ann-session", fact_key="car")
    engine.remember("near of all", project="p")
    engine.recall("near", user_id="ann")
    return engine


@pytest.mark.parametrize(("path", "title"), GETS, ids=PATH_IDS)
def test_a_bound_key_sees_no_text_of_another_user(keyed, shared, path, title):
    client = keyed("admin", user_id="ann")
    scope = {"project": ANY, "agent_id": ANY}
    bobs = [one.memory.id for one in shared.services.store.revisions(EVERYTHING) if one.memory.scope.user_id == "bob"]
    [asked] = shared.recalls(user_id="bob", **scope).recalls
    anns = [one.memory.id for one in shared.services.store.revisions(EVERYTHING) if one.memory.scope.user_id == "ann"]
    paths = {filled(path, memory, asked.id) for memory in (*bobs, *anns)}
    values = ("bob", "*", "", bobs[0], asked.id, "bob-session", "car", "near", "default", "p")

    def refuse(url: str, **given: str) -> None:
        text = check(client.get(url, params=given))
        assert SECRET not in text, (url, given)

    for url in sorted(paths):
        refuse(url)
        refuse(url, q="near", mode="recall", counts="1", f_status="forgotten")
        for user in ("bob", "*", ""):
            refuse(url, user_id=user, q="near")
            refuse(url, user_id=user, project="*", agent_id="*", environment="*", session_id="bob-session")
    for number, parameter in enumerate(parameters(title)):
        for value in ("bob", "*", values[number % len(values)]):
            refuse(min(paths), **{"q": "near", "memory": bobs[0], parameter: value})
    text = client_of(dashboard(shared)).get("/ui/").text
    assert SECRET in text  # the secret would be seen


@pytest.mark.parametrize("path", POSTS)
def test_a_bound_key_changes_no_memory_of_another_user(keyed, shared, keyring, path):
    client = keyed("admin", user_id="ann")
    before = [one for one in state(shared)[0] if one[0].scope.user_id == "bob"]
    for memory in {one.id for one, _ in before}:
        form = {**_fields(), "id": memory, "ids": memory, "memory": memory, "user_id": "bob", "csrf": csrf_of(client)}
        for query in ("", "?user_id=bob", "?user_id=*"):
            assert SECRET not in check(client.post(filled(path, memory, memory) + query, data=form))
    assert [one for one in state(shared)[0] if one[0].scope.user_id == "bob"] == before
    assert len(keyring.list()) == 1


@pytest.mark.parametrize(("method", "path", "title"), ROUTES, ids=[f"{m} {path}" for m, path, _ in ROUTES])
def test_a_session_ends_with_its_key_and_other_sites_are_refused(keyed, engine, keyring, clock, method, path, title):
    memory = engine.remember("near", user_id="ann").memory.id
    client, url = keyed("admin"), filled(path, memory, memory)
    token = csrf_of(client)
    for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example"):
        response = client.request(
            method, url, headers={"Origin": origin}, data={"csrf": token} if method == "POST" else None
        )
        assert response.status_code == 403
    for key in keyring.list():
        keyring.revoke(key.prefix, clock())
    before = state(engine)
    response = client.request(method, url, data={**_fields(), "csrf": token} if method == "POST" else None)
    check(response, 303 if method == "GET" else 401)
    if method == "GET":
        assert response.headers["location"].startswith("/ui/login?to=/ui/")
    assert state(engine) == before


FRAME = ("/ui", "/ui/login", "/ui/open?token=x", "/ui/static/salience.css", "/ui/nothing", "/ui/static/nothing")


@pytest.mark.parametrize("path", FRAME)
def test_the_frame_has_the_headers_of_the_views(client, path):
    response = client.get(path)
    if path == "/ui":  # outside the dashboard: a redirect without content
        assert response.status_code == 307
        assert response.headers["location"] == "/ui/"
        return
    check(response)
    check(client.put(path, content=b"x"), 403, 404, 405)


PLACES = (
    "//evil.example", "https://evil.example", "\\\\evil.example", "/\\evil.example", "../../..//evil.example",
    "%2e%2e//evil", "..%2f..%2f..%2f/evil.example", "x\r\nLocation: https://evil.example", "javascript:nasty()",
    "@evil.example", "?x=1#",
)  # fmt: skip


@pytest.mark.parametrize(("path", "title"), GETS, ids=PATH_IDS)
def test_no_parameter_leads_to_another_site(client, path, title):
    others = [(parameter, PLACES[number % len(PLACES)]) for number, parameter in enumerate(parameters(title))]
    for parameter, place in [*product(("to", "next", "back"), PLACES), *others]:
        response = client.get(filled(path, "0" * 32, "0" * 32), params={parameter: place})
        if response.is_redirect:
            assert inside(response), (path, parameter, response.headers["location"])
            assert "\r" not in response.headers["location"]


@pytest.mark.parametrize("place", PLACES)
def test_a_log_in_leads_to_no_other_site(keyed, place):
    anonymous = client_of(keyed().app)
    given = {"to": place, "csrf": csrf_of(anonymous, "/ui/login"), "key": "x"}
    for response in (anonymous.get("/ui/login", params=given), anonymous.post("/ui/login", data=given)):
        assert re.findall(r'name="to" value="([^"]+)"', response.text) == ["/ui/"]


def test_a_message_of_another_server_is_not_shown(client):
    for query in ("flash=Hello", "flash=Hello&flash_mac=", f"flash=Hello&flash_mac={'0' * 32}"):
        for path, _ in GETS:
            if "{" not in path:
                assert 'role="status"><p>Hello' not in client.get(f"{path}?{query}").text
