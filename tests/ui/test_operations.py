"""Operations: counts, sizes, latency, doctor, backup, keys, export and import, and who may use them."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

import salience
from bench.browser import dashboard, served
from dashboards import assert_accessible, assert_fits, client_of, csrf_of
from salience.server.auth import create_key, verify_key
from salience.server.metrics import Latency, Metrics, quantile
from salience.server.ui.texts import size
from salience.server.ui.views import operations
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.slow

URL = "/ui/operations"
WHOLE = ("/ui/operations/doctor", "/ui/operations/backup")
POSTS = (*WHOLE, "/ui/operations/keys", "/ui/operations/keys/revoke")
DRAFTS = b'{"content": "first", "user_id": "ann"}\n{"content": "second"}\n'


def post(client, path, **fields):
    return client.post(path, data={"csrf": csrf_of(client, URL), **fields})


def upload(client, data, path=f"{URL}/import", **fields):
    form = {"csrf": csrf_of(client, URL), **fields}
    return client.post(path, data=form, files={"file": ("x.ndjson", data, "application/x-ndjson")})


def token_in(text):
    [token] = re.findall(r"<code[^>]*>(sal_[0-9a-f_]+)</code>", text)
    return token


def actions(text):
    return re.findall(r'method="post"[^>]* action="([^"?]+)', text)


def of_other_tenant(keyring, clock):
    token, key = create_key("other", ("admin",), {}, None, "note of other", clock())
    keyring.add(key)
    return token, key


def test_counts_lead_to_the_explorer(client, engine):
    engine.remember("one", user_id="ann", kind="rule")
    engine.remember("two", user_id="bob")
    engine.remember("three")
    text = client.get(URL).text
    assert "f_kind=rule" in text
    assert re.search(r"<dt>Live memories</dt><dd>3</dd>", text)
    assert re.search(r"<dt>Users</dt><dd>2</dd>", text)
    [link] = re.findall(r'href="([^"]+)">shared by all</a>', text.partition(">User</h3>")[2].partition("</ul>")[0])
    found = client.get(unescape(link)).text
    assert ">three<" in found
    assert ">one<" not in found


def test_counts_are_those_of_the_scope(client, engine):
    engine.remember("one", user_id="ann")
    engine.remember("two", user_id="bob")
    assert "<dt>Live memories</dt><dd>1</dd>" in client.get(f"{URL}?user_id=ann").text


def test_an_empty_store_says_how_to_fill_it_and_is_not_pinned(client, engine):
    text = client.get(URL).text
    assert "salience remember" in text
    assert "not yet: the first memory pins" in text
    engine.remember("one")
    assert "yes, to this model" in client.get(URL).text


def test_the_sizes_and_the_revision_are_shown(client, engine):
    engine.remember("one")
    for path in (f"{URL}/storage", f"{URL}?storage=1"):
        text = client.get(path).text
        assert "up to date" in text
        assert re.search(
            r'class="mono">memories</th>\s*<td class="figure end">1</td>\s*<td class="figure end">[\d.]+ kB', text
        )


def test_a_store_in_memory_has_no_sizes_and_no_backup(clock):
    with salience.connect(":memory:", embedder=PlantedEmbedder({}), clock=clock) as engine:
        client = client_of(dashboard(engine))
        assert "in memory" in client.get(f"{URL}/storage").text
        assert "Download a backup" not in client.get(URL).text
        assert post(client, "/ui/operations/backup").status_code == 422


def test_the_latency_of_each_step_is_shown(client, engine):
    engine.remember("near", user_id="ann")
    assert "No recall since" in client.get(URL).text
    client.get("/ui/?q=query&mode=recall")
    text = client.get(URL).text
    for step in ("embed", "gather", "rank"):
        assert f'class="mono">{step}</th>' in text


def test_quantiles_are_interpolated_between_the_bounds():
    bounds = [(1.0, 0.0), (2.0, 50.0), (4.0, 100.0), (float("inf"), 100.0)]
    assert quantile(bounds, 0.5) == 2.0
    assert quantile(bounds, 0.75) == 3.0
    assert quantile([(1.0, 0.0), (float("inf"), 5.0)], 0.95) == 1.0
    assert Metrics().latencies() == []


def test_sizes_are_short():
    assert [size(n) for n in (0, 812, 999, 2_400, 188_416, 2_440_000, 999_960, 5 * 10**12)] == [
        "0 B", "812 B", "999 B", "2.4 kB", "188 kB", "2.4 MB", "1.0 MB", "5.0 TB",
    ]  # fmt: skip


def test_the_doctor_reports_and_changes_nothing(client, engine, target):
    import sqlite3

    memory = engine.remember("one", user_id="ann").memory
    text = post(client, "/ui/operations/doctor").text
    assert re.search(r"1 memory and 0 older versions read in \d+\.\d s, 0 without a vector yet: healthy", text)
    with sqlite3.connect(target) as connection:
        connection.execute("UPDATE memories SET content = '<b>two</b>'")
    text = post(client, "/ui/operations/doctor").text
    assert "problem" in text
    assert memory.id[:8] in text
    assert "<b>two" not in text
    assert "salience doctor --repair" in text
    assert "problem" in post(client, "/ui/operations/doctor").text


def test_long_work_is_done_once_at_a_time(client):
    with operations._alone("doctor"):
        refused = post(client, "/ui/operations/doctor")
        assert refused.status_code == 429
        assert "another one is under way" in refused.text.partition('id="doctor"')[2].partition("</section>")[0]
    assert post(client, "/ui/operations/doctor").status_code == 200


def test_a_backup_is_a_store(client, engine, tmp_path, clock):
    engine.remember("kept", user_id="ann")
    response = post(client, "/ui/operations/backup")
    assert response.headers["content-disposition"].endswith('.db"')
    file = tmp_path / "copy.db"
    file.write_bytes(response.content)
    with salience.connect(str(file), embedder=PlantedEmbedder({"near": 0.9, "far": 0.7}), clock=clock) as copy:
        assert [one.content for one in copy.list(user_id="ann").memories] == ["kept"]


def test_an_export_has_the_memories_of_the_scope_and_can_be_imported(client, engine, tmp_path, clock):
    engine.remember("of ann", user_id="ann")
    engine.remember("of bob", user_id="bob")
    whole = client.get(f"{URL}/export")
    assert whole.headers["content-disposition"].endswith('.ndjson"')
    assert "of bob" in whole.text
    part = client.get(f"{URL}/export?user_id=ann").text
    assert "of ann" in part
    assert "of bob" not in part
    text = upload(client, whole.content).text
    assert "0 memories stored, 2 already there, 0 skipped" in text


def test_drafts_are_imported_into_the_scope(client, engine):
    text = upload(client, DRAFTS, f"{URL}/import?project=atlas").text
    assert "2 memories stored" in text
    found = engine.list(project="atlas", user_id=salience.ANY).memories
    assert sorted((one.content, one.scope.user_id) for one in found) == [("first", "ann"), ("second", None)]


def test_the_export_of_another_system_is_imported(client, engine):
    data = b'{"results": [{"id": "m1", "memory": "Ann likes tea", "user_id": "ann"}]}'
    assert "1 memory stored" in upload(client, data, source="mem0").text
    assert [memory.key for memory in engine.list(user_id="ann").memories] == ["mem0:m1"]
    text = upload(
        client, b'[{"id": "m1", "memory": "Ann likes tea", "user_id": "ann"}, {}]', source="mem0", on_error=""
    ).text
    assert "0 memories stored, 1 already there, 1 skipped" in text
    assert "record 2: memory is missing" in text
    refused = upload(client, data, source="elsewhere")
    assert refused.status_code == 422
    assert "mem0" in refused.text


def test_an_invalid_line_stops_the_import_or_is_skipped(client, engine):
    data = DRAFTS + b'{"content": 7, "note": "<b>"}\n'
    stopped = upload(client, data)
    assert stopped.status_code == 422
    assert "line 3" in stopped.text
    assert "Nothing was stored" in stopped.text
    assert engine.stats(user_id=salience.ANY).memories == 0
    text = upload(client, data, on_error="skip").text
    assert "2 memories stored, 0 already there, 1 skipped" in text
    assert "line 3" in text
    assert "<b>" not in text


@pytest.mark.parametrize("csrf", ["", "0" * 64])
def test_a_valid_import_needs_the_token_of_the_session(client, engine, csrf):
    refused = client.post(f"{URL}/import", data={"csrf": csrf, "on_error": "stop"}, files={"file": ("x", DRAFTS)})
    assert refused.status_code == 403
    assert "csrf" in refused.text
    without = client.post(f"{URL}/import", data={"on_error": "stop"}, files={"file": ("x", DRAFTS)})
    assert without.status_code == 403
    assert engine.stats(project=salience.ANY, user_id=salience.ANY).memories == 0
    accepted = upload(client, DRAFTS)
    assert accepted.status_code == 200
    assert "2 memories stored" in accepted.text
    assert engine.stats(project=salience.ANY, user_id=salience.ANY).memories == 2


def test_the_token_of_another_session_imports_nothing(keyed, engine):
    one, other = keyed("admin"), keyed("admin")
    files = {"file": ("x", DRAFTS)}
    assert one.post(f"{URL}/import", data={"csrf": csrf_of(other, URL)}, files=files).status_code == 403
    assert engine.stats(project=salience.ANY, user_id=salience.ANY).memories == 0
    assert upload(one, DRAFTS).status_code == 200


def test_other_uploads_are_refused(client, engine):
    csrf = csrf_of(client, URL)
    assert upload(client, b"").status_code == 422
    assert client.post(f"{URL}/import", data={"csrf": csrf}).status_code == 415
    wrong = client.post(f"{URL}/import", data={"csrf": "0" * 64}, files={"file": ("x", DRAFTS)})
    assert wrong.status_code == 403
    broken = {"Content-Type": "multipart/form-data; boundary=x"}
    assert client.post(f"{URL}/import", content=b"nothing", headers=broken).status_code in (403, 422)
    bare = {"Content-Type": "multipart/form-data"}
    assert client.post(f"{URL}/import", content=b"nothing", headers=bare).status_code == 422
    assert engine.stats(user_id=salience.ANY).memories == 0


def test_a_key_is_created_shown_once_and_revoked(keyed, keyring, clock):
    client = keyed("admin")
    page = post(client, "/ui/operations/keys", right=["read", "write"], user_id="ann", note="<b>mine", expires="90d")
    grant = verify_key(keyring, token_in(page.text), clock())
    assert (grant.rights, dict(grant.bound), grant.tenant) == (("read", "write"), {"user_id": "ann"}, "default")
    text = client.get(URL).text
    assert "sal_" not in text
    assert "<b>mine" not in text
    assert "user ann" in text
    assert "in 2 months" in text
    assert post(client, "/ui/operations/keys/revoke", prefix=grant.name).status_code == 303
    assert verify_key(keyring, token_in(page.text), clock()) is None
    assert ">revoked<" in client.get(URL).text


def test_invalid_keys_are_not_created(keyed, keyring):
    client = keyed("admin")
    for fields in ({}, {"right": "root"}, {"right": "read", "expires": "soon"}, {"right": "read", "expires": "-1d"}):
        assert post(client, "/ui/operations/keys", **fields).status_code == 422
    assert post(client, "/ui/operations/keys/revoke", prefix="0" * 12).status_code == 422
    assert len(keyring.list()) == 1


def test_the_keys_of_another_tenant_are_neither_shown_nor_revoked(keyed, keyring, clock):
    _, other = of_other_tenant(keyring, clock)
    client = keyed("admin")
    text = client.get(URL).text
    assert other.prefix not in text
    assert "note of other" not in text
    assert post(client, "/ui/operations/keys/revoke", prefix=other.prefix).status_code == 422
    assert keyring.find(other.prefix).revoked_at is None


def test_the_store_as_a_whole_is_for_the_only_tenant(keyed, engine, keyring, clock):
    client = keyed("admin")
    assert all(post(client, path).status_code == 200 for path in WHOLE)
    engine.of("other").remember("a secret of the other tenant")
    text = client.get(URL).text
    assert "Check the store" not in text
    assert "Latency" not in text
    assert "salience backup FILE" in text
    assert client.get(f"{URL}/storage").status_code == 403
    assert client.get(f"{URL}?storage=1").status_code == 200
    assert "Rows" not in client.get(f"{URL}?storage=1").text
    assert [post(client, path).status_code for path in WHOLE] == [403, 403]
    assert "secret" not in client.get(f"{URL}/export").text


def test_a_key_of_another_tenant_alone_hides_the_store_as_a_whole(keyed, keyring, clock):
    client = keyed("admin")
    of_other_tenant(keyring, clock)
    assert [post(client, path).status_code for path in WHOLE] == [403, 403]


def test_the_user_of_salience_ui_sees_the_store_of_many_tenants(engine, keyring, target, clock):
    of_other_tenant(keyring, clock)
    engine.of("other").remember("something")
    client = client_of(dashboard(engine, keyring, "once", target))
    client.get("/ui/open?token=once")
    assert [post(client, path).status_code for path in WHOLE] == [200, 200]
    assert "note of other" not in client.get(URL).text


def test_a_page_without_keys_says_who_has_access(client, engine, keyring, target):
    assert "everyone on this machine has every right" in client.get(URL).text
    own = client_of(dashboard(engine, keyring, "once", target))
    own.get("/ui/open?token=once")
    assert "everyone on this machine" not in own.get(URL).text
    assert "this browser alone has access" in own.get(URL).text


@pytest.mark.parametrize(
    ("rights", "bound"), [(("read",), {}), (("read", "write"), {}), (("admin",), {"user_id": "ann"})]
)
def test_other_keys_see_no_form_and_are_refused(keyed, engine, rights, bound):
    engine.remember("a secret of bob", user_id="bob", project="project-of-bob")
    engine.remember("a note of ann", user_id="ann")
    client = keyed(*rights, **bound)
    text = client.get(URL).text
    assert actions(text) == ["/ui/logout"]
    for path in POSTS:
        assert post(client, path, right="read", prefix="0" * 12).status_code == 403
    assert upload(client, DRAFTS).status_code == 403
    assert client.get(f"{URL}/storage").status_code == 403
    exported = client.get(f"{URL}/export").text
    if bound:
        assert "project-of-bob" not in text
        assert "bob" not in text
        assert "bob" not in exported
        assert client.get(f"{URL}?user_id=bob").status_code == 403
        assert client.get(f"{URL}/export?user_id=bob").status_code == 403
    assert "a note of ann" in exported


def test_a_write_only_key_sees_nothing(keyed):
    client = keyed("write")
    assert client.get(URL).status_code == 403
    assert client.get(f"{URL}/export").status_code == 403


def test_forms_need_their_token(client):
    for path in POSTS:
        assert client.post(path, data={"csrf": "0" * 64}).status_code == 403


def test_an_export_line_is_an_object(client, engine):
    engine.remember("x", user_id="ann")
    assert all(isinstance(json.loads(line), dict) for line in client.get(f"{URL}/export").text.splitlines())


@pytest.mark.slow
def test_the_page_is_accessible_with_every_result(fresh_page, tmp_path):
    page = fresh_page
    page.goto(URL, wait_until="networkidle")
    assert "up to date" in page.inner_text("main")
    page.get_by_role("button", name="Check the store").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#doctor .flash")
    assert "healthy" in page.inner_text("#doctor")
    assert_accessible(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download a backup").click()
    assert download.value.suggested_filename.endswith(".db")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download an export").click()
    assert download.value.suggested_filename.endswith(".ndjson")
    file = tmp_path / "drafts.ndjson"
    file.write_bytes(DRAFTS + b"nonsense\n")
    page.get_by_label("File").set_input_files(str(file))
    page.get_by_label("Skip it, and report it").check()
    page.get_by_role("button", name="Import").click()
    page.wait_for_selector(".flash")
    assert "2 memories stored" in page.inner_text("main")
    page.get_by_label("admin").check()
    page.get_by_role("button", name="Create the key").click()
    page.wait_for_selector(".flash .code")
    assert "sal_" in page.inner_text(".flash .code")
    assert_accessible(page)
    assert_fits(page)
    page.goto(URL, wait_until="networkidle")
    page.locator("summary", has_text="Revoke").click()
    page.get_by_role("button", name="Revoke").click()
    page.wait_for_selector(".badge:has-text('revoked')")
    assert_accessible(page)


@pytest.mark.slow
def test_a_narrow_page_fits_with_long_numbers(narrow_page, engine, target, monkeypatch):
    slow = [Latency(step, 10**9, 12_345.6, 12_345.6, 12_345.6) for step in ("gather", "rank")]
    monkeypatch.setattr(Metrics, "latencies", lambda _: slow)
    with served(dashboard(engine, target=target)) as url:
        narrow_page.goto(f"{url}{URL}", wait_until="networkidle")
        assert "12345600.0 ms" in narrow_page.inner_text("main")
        assert_fits(narrow_page)
        assert_accessible(narrow_page)
