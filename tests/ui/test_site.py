"""The frame of the dashboard: login, CSRF, headers, bounds, escaping, static files."""

from __future__ import annotations

import hashlib
import re
import tomllib
from html import unescape
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import salience.server.ui
from bench.browser import dashboard
from dashboards import client_of, csrf_of
from salience.server.ui.site import POLICY, environment, static_url
from salience.server.ui.views import VIEWS

pytestmark = pytest.mark.slow

PATHS = [f"/ui/{view.path}" for view in VIEWS]
VENDORED = (Path(salience.server.ui.__file__).parent / "static/vendor", Path(__file__).parent)


TOKEN = "one-time"


@pytest.mark.parametrize("path", PATHS)
def test_every_view_answers_without_a_key_on_an_open_server(client, path):
    response = client.get(path)
    assert response.status_code == 200
    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["x-frame-options"] == "DENY"
    assert response.headers["referrer-policy"] == "same-origin"
    assert response.headers["cache-control"] == "no-store"
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize("path", ["/", "/ui"])
def test_the_root_of_the_server_leads_to_the_dashboard(client, path):
    assert client.get(path, follow_redirects=False).headers["location"] == "/ui/"


@pytest.mark.parametrize("path", PATHS)
def test_no_page_has_inline_scripts_or_styles(client, engine, path):
    engine.remember("something", user_id="ann", tags=["t"])
    text = client.get(path).text
    assert not re.search(r"<script(?![^>]* src=)", text)
    assert not re.search(r"<style|\sstyle=|\son\w+=", text)


@pytest.mark.parametrize("path", [*PATHS, "/ui/memory/0123", "/ui/facets"])
def test_a_server_with_keys_leads_to_the_login_form_and_back(keyed, path):
    keyed()
    anonymous = client_of(keyed().app)
    response = anonymous.get(f"{path}?q=a%20b")
    assert response.status_code == 303
    assert response.headers["location"].startswith("/ui/login?to=/ui/")
    form = anonymous.get(response.headers["location"])
    [back] = re.findall(r'name="to" value="([^"]+)"', form.text)
    assert unescape(back) == f"{path}?q=a%20b"


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example/ui/", "/ui/\\evil", "/v1/export", "/ui/\nX: y"])
def test_the_login_form_leads_to_no_other_site(client, keyed, to):
    anonymous = client_of(keyed().app)
    text = anonymous.get("/ui/login", params={"to": to}).text
    assert re.findall(r'name="to" value="([^"]+)"', text) == ["/ui/"]


def test_the_cookie_is_out_of_reach_and_holds_no_key(keyed, keyring):
    client = keyed("read")
    cookie = client.cookies["salience"]
    [key] = keyring.list()
    assert cookie.startswith(key.prefix + ".")
    assert key.digest not in cookie
    form = {"key": "sal_" + "0" * 12 + "_" + "0" * 64, "csrf": csrf_of(client_of(client.app), "/ui/login")}
    refused = client_of(client.app).post("/ui/login", data=form)
    assert refused.status_code == 401
    assert "set-cookie" not in refused.headers
    assert "sal_000" not in refused.text


def test_the_cookie_has_its_attributes(keyed, keyring, clock):
    from salience.server.auth import create_key

    token, key = create_key("default", ("read",), {}, None, None, clock())
    keyring.add(key)
    anonymous = client_of(keyed().app)
    form = {"key": token, "csrf": csrf_of(anonymous, "/ui/login")}
    header = anonymous.post("/ui/login", data=form).headers["set-cookie"]
    assert header.startswith("salience=")
    assert "HttpOnly" in header
    assert "SameSite=strict" in header
    secure = client_of(anonymous.app)
    secure.base_url = "https://127.0.0.1"
    header = secure.post("/ui/login", data={**form, "csrf": csrf_of(secure, "/ui/login")}).headers["set-cookie"]
    assert header.startswith("__Host-salience=")
    assert "Secure" in header
    assert "Path=/" in header
    assert "Domain" not in header


def test_a_session_ends_with_its_key_and_with_time(keyed, keyring, clock):
    client = keyed("read")
    assert client.get("/ui/").status_code == 200
    clock.advance(hours=13)
    assert client.get("/ui/").status_code == 303
    client = keyed("read")
    assert client.get("/ui/").status_code == 200
    for key in keyring.list():
        keyring.revoke(key.prefix, clock())
    assert client.get("/ui/").status_code == 303


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1] + ("1" if text.endswith("0") else "0"),
        lambda text: "x" + text,
        lambda text: "....",
        lambda text: "local" + text[12:],
    ],
)
def test_a_changed_cookie_is_no_session(keyed, change):
    client = keyed("read")
    forged = client_of(client.app)
    cookie = change(client.cookies["salience"])
    forged.cookies.set("salience", cookie)
    assert forged.get("/ui/").status_code == 303


def test_logging_out_needs_the_token_of_the_form_and_removes_the_cookie(keyed):
    client = keyed("read")
    token = csrf_of(client)
    assert client.post("/ui/logout", data={"csrf": "0" * 64}).status_code == 403
    assert client.post("/ui/logout").status_code in (403, 415)
    assert client.get("/ui/").status_code == 200
    response = client.post("/ui/logout", data={"csrf": token})
    assert response.status_code == 303
    assert client.get("/ui/").status_code == 303


def test_the_csrf_token_of_another_session_is_refused(keyed):
    one, other = keyed("read"), keyed("read")
    assert csrf_of(one) != csrf_of(other)
    assert one.post("/ui/logout", data={"csrf": csrf_of(other)}).status_code == 403


def test_pages_of_other_sites_and_other_names_are_refused(client):
    assert client.get("/ui/", headers={"Origin": "https://evil.example"}).status_code == 403
    assert client.get("/ui/", headers={"Host": "evil.example"}).status_code == 403
    assert client.post("/ui/logout", headers={"Origin": "null"}).status_code == 403


def test_logins_are_limited(keyed):
    anonymous = client_of(keyed().app)
    form = {"key": "wrong", "csrf": csrf_of(anonymous, "/ui/login")}
    statuses = [anonymous.post("/ui/login", data=form).status_code for _ in range(40)]
    assert set(statuses) == {401, 429}


def test_the_one_time_token_works_once(engine):
    application = dashboard(engine, one_time_token=TOKEN)
    first, second = client_of(application), client_of(application)
    assert first.get("/ui/").status_code == 303
    assert first.get("/ui/open?token=wrong").status_code == 401
    opened = first.get(f"/ui/open?token={TOKEN}")
    assert opened.status_code == 303
    assert opened.headers["location"] == "/ui/"
    assert opened.headers["referrer-policy"] == "no-referrer"
    assert first.get("/ui/").status_code == 200
    assert second.get(f"/ui/open?token={TOKEN}").status_code == 401
    assert second.get("/ui/").status_code == 303
    first.post("/ui/logout", data={"csrf": csrf_of(first)})
    assert first.get("/ui/").status_code == 303


def test_a_bound_key_sees_its_user_alone(keyed, engine):
    engine.remember("a secret of bob", user_id="bob", session_id="bob-session", tags=["bob-tag"])
    engine.remember("a note of ann", user_id="ann")
    [bobs] = engine.list(user_id="bob").memories
    client = keyed("admin", user_id="ann")
    queries = ("?f_user_id=bob", "?q=secret", "?q=secret&mode=recall", "?counts=1", "?f_status=live&f_status=forgotten")
    for path in ("/ui/", "/ui/facets", *(f"/ui/{query}" for query in queries)):
        text = client.get(path).text
        assert "a secret of bob" not in text, path
        assert "bob-" not in text, path
    assert "a note of ann" in client.get("/ui/").text
    assert client.get("/ui/?user_id=bob").status_code == 403
    assert client.get(f"/ui/memory/{bobs.id}").status_code == 404


def test_a_write_only_key_sees_nothing(keyed, engine):
    engine.remember("something stored")
    client = keyed("write")
    assert client.get("/ui/").status_code == 403
    assert client.get("/ui/facets").status_code == 403


@given(
    text=st.text(min_size=1, max_size=40).map(lambda text: f"<i>{text}</i>\"'&"),
    tag=st.sampled_from(["<b>", "\"x'", "a&b"]),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_stored_text_appears_escaped(client, engine, text, tag):
    content = text.replace("\x00", "")
    engine.remember(content, user_id="<u>", tags=[tag], duplicate=True)
    body = client.get("/ui/").text
    for raw in ("<i>", "</i>", "<b>", "<u>", "\"x'"):
        assert raw not in body
    assert "&lt;i&gt;" in body


def test_templates_escape_by_default():
    assert environment().from_string("{{ x }}").render(x="<&\"'>") == "&lt;&amp;&#34;&#39;&gt;"


def test_an_unknown_page_and_an_invalid_value_are_pages_with_their_status(client):
    cases = [
        ("nope", 404, "no such page"),
        ("?cursor=x", 422, "cursor"),
        ("?sort=x", 422, "sort"),
        ("memory/0", 404, ""),
    ]
    for path, status, text in cases:
        response = client.get(f"/ui/{path}")
        assert response.status_code == status
        assert response.headers["content-type"].startswith("text/html")
        assert text in response.text
        assert response.headers["content-security-policy"] == POLICY


def test_an_unexpected_error_is_a_page_without_details(client, engine, monkeypatch):
    monkeypatch.setattr(type(engine.services.store), "browse", lambda *_, **__: 1 / 0)
    response = client.get("/ui/")
    assert response.status_code == 500
    assert "ZeroDivision" not in response.text
    assert "The server failed" in response.text


@pytest.mark.parametrize("name", ["salience.css", "vendor/htmx.min.js", "icon.svg"])
def test_static_files_are_kept_by_their_version(client, name):
    response = client.get(f"/ui/static/{name}")
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-cache"
    named = static_url(name)
    assert "immutable" in client.get(named).headers["cache-control"]
    assert client.get("/ui/static/../site.py").status_code == 404
    assert client.get("/ui/static/vendor/%2e%2e/%2e%2e/site.py").status_code == 404


@pytest.mark.parametrize("folder", VENDORED, ids=["wheel", "tests"])
def test_vendored_files_are_what_their_list_says(folder):
    listed = tomllib.loads((folder / "VENDORED.toml").read_text("utf-8"))["file"]
    for file in listed:
        assert hashlib.sha256((folder / file["path"]).read_bytes()).hexdigest() == file["sha256"], file["path"]
        assert (folder / file["licence_file"]).read_text("utf-8").strip()
        assert file["version"] in file["url"]
    present = {path.name for path in folder.iterdir() if ".min." in path.name}
    assert present == {file["path"] for file in listed}


def test_an_error_takes_the_place_of_the_part_that_htmx_asked_for(client):
    asked = client.get("/ui/playground?q=x&limit=0", headers={"HX-Request": "true"})
    assert asked.status_code == 422
    assert (asked.headers["HX-Reselect"], asked.headers["HX-Reswap"]) == ("section.error", "innerHTML")
    assert '<section class="error"' in asked.text
    assert "<html" not in asked.text


def test_an_ended_session_leads_to_the_login_and_back(keyed):
    client = keyed("read", "write")
    csrf = csrf_of(client, "/ui/")
    client.cookies.clear()
    sent = client.post("/ui/memory/00000000/forget", data={"csrf": csrf})
    assert sent.status_code == 401
    assert "Nothing was changed" in sent.text
    assert 'href="/ui/login"' in sent.text
    shown = "http://testserver/ui/time?user_id=ann"
    for url, back in ((shown, "/ui/time%3Fuser_id%3Dann"), ("https://elsewhere/x", "/ui/")):
        part = client.get("/ui/facets", headers={"HX-Request": "true", "HX-Current-URL": url})
        assert part.status_code == 401
        assert part.headers["HX-Redirect"] == f"/ui/login?to={back}"


def test_a_mistyped_key_does_not_lose_the_page_to_return_to(keyed):
    client = keyed("read")
    client.cookies.clear()
    page = client.get("/ui/login?to=/ui/time%3Fuser_id%3Dann").text
    [csrf] = re.findall(r'name="csrf" value="([0-9a-f]+)"', page)
    again = client.post("/ui/login", data={"key": "sal_wrong", "csrf": csrf, "to": "/ui/time?user_id=ann"})
    assert again.status_code == 401
    assert 'name="to" value="/ui/time?user_id=ann"' in again.text
    elsewhere = client.post("/ui/login", data={"key": "sal_wrong", "csrf": csrf, "to": "https://elsewhere/"})
    assert 'name="to" value="/ui/"' in elsewhere.text
