"""The inbox: problems side by side, resolved and undone."""

from __future__ import annotations

import re
from html import unescape

import pytest

import salience
from bench.browser import dashboard, served
from dashboards import assert_accessible, assert_fits, csrf_of
from salience.errors import EmbedderError, InputError
from salience.ports import Revise
from salience.records import Scope
from salience.server.ui.views.inbox import differing, steps_of
from tests.contract.doubles import PlantedEmbedder

LIMITS = [f"The <i>request limit</i> is {number} a minute" for number in (30, 40, 50)]
ANN = {"user_id": "ann"}


@pytest.fixture
def embedder():
    return PlantedEmbedder(dict.fromkeys(LIMITS, 0.9), axes=dict.fromkeys(LIMITS, 1))


@pytest.fixture
def engine(target, clock, embedder):
    with salience.connect(target, embedder=embedder, clock=clock) as made:
        yield made


@pytest.fixture
def pair(engine):
    """The ids of two memories that contradict each other: the newer and the older one."""
    old, new = (engine.remember(text, **ANN).memory.id for text in LIMITS[:2])
    return new, old


def problems(text):
    return re.findall(r'name="item" value="([^"]+)"', text)


def send(client, path="/ui/inbox", **fields):
    """Send a form of the inbox, and return the page that it leads to."""
    response = client.post(path, data={"csrf": csrf_of(client, "/ui/operations"), **fields})
    assert response.status_code == 303
    return client.get(response.headers["location"]).text


def undo(client, text):
    """Press Undo on a page, and return the page that it leads to."""
    [steps] = re.findall(r'name="steps" value="([^"]+)"', text)
    [csrf] = set(re.findall(r'name="csrf" value="([0-9a-f]+)"', text))
    response = client.post("/ui/inbox/undo", data={"csrf": csrf, "steps": unescape(steps)})
    return client.get(response.headers["location"]).text


def statuses(engine, ids):
    return [engine.history(id_, **ANN)[-1].memory.status for id_ in ids]


def test_a_pair_is_shown_with_its_differing_words_and_reasons(client, pair):
    text = client.get("/ui/inbox").text
    assert problems(text) == [":".join(pair)]
    assert "contradiction" in text
    assert "<mark>40</mark>" in text
    assert "<mark>30</mark>" in text
    assert "number: 30 -&gt; 40" in text
    assert "<i>" not in text


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        ("newer", ["live", "forgotten"]),
        ("older", ["forgotten", "live"]),
        ("neither", ["forgotten", "forgotten"]),
        ("both", ["live", "live"]),
    ],
)
def test_a_resolution_and_its_undo(client, engine, pair, do, expected):
    text = send(client, one=f"{do}:{':'.join(pair)}")
    assert problems(text) == []
    assert statuses(engine, pair) == expected
    text = undo(client, text)
    assert statuses(engine, pair) == ["live", "live"]
    assert problems(text) == [":".join(pair)]


def test_ticked_problems_are_resolved_together_and_undone_together(client, engine):
    ids = [engine.remember(text, **ANN).memory.id for text in LIMITS]
    chosen = problems(client.get("/ui/inbox").text)
    assert len(chosen) == 3
    text = send(client, do="newer", item=chosen)
    assert statuses(engine, ids) == ["forgotten", "forgotten", "live"]
    assert "Forgot 2 memories." in text
    undo(client, text)
    assert statuses(engine, ids) == ["live", "live", "live"]
    assert "Nothing is chosen" in send(client, do="newer")


def test_a_change_that_fails_is_named_and_the_others_are_made(client, engine, pair):
    text = send(client, do="older", item=[":".join(("0" * 32, pair[1])), ":".join(pair)])
    assert statuses(engine, pair) == ["forgotten", "live"]
    assert "Forgot" in text
    assert "1 change failed" in text


def test_the_undo_of_another_page_is_not_shown(client, pair):
    text = client.get(f"/ui/inbox?flash=x&undo=forget:{pair[0]}").text
    assert "Undo" not in text
    real = client.post("/ui/inbox", data={"csrf": csrf_of(client, "/ui/inbox"), "one": f"both:{':'.join(pair)}"})
    forged = real.headers["location"].replace("dismiss", "forget")
    assert "steps" not in client.get(forged).text


def test_the_reason_is_in_the_history(client, engine, pair):
    send(client, one=f"newer:{':'.join(pair)}")
    assert engine.history(pair[1], **ANN)[-1].memory.reason == "resolved in the inbox"


def test_a_stale_reflection_is_restored_or_left_hidden(client, engine):
    id_ = engine.remember("Ana likes tea", kind="reflection", **ANN).memory.id
    [stored] = engine.services.store.history(Scope(user_id="ann"), id_)
    clock = engine.services.clock
    stale = stored.memory.changed("stale", clock(), reason="a source changed", forgotten_at=clock())
    engine.services.store.apply([Revise(stale)])
    text = client.get("/ui/inbox").text
    assert problems(text) == [id_]
    assert "a source changed" in text
    text = send(client, one=f"restore:{id_}")
    assert statuses(engine, [id_]) == ["live"]
    undo(client, text)
    assert statuses(engine, [id_]) == ["forgotten"]
    engine.services.store.apply([Revise(engine.history(id_, **ANN)[-1].memory.changed("stale", clock()))])
    assert problems(send(client, do="newer", item=[id_])) == [id_]
    text = send(client, do="both", item=[id_])
    assert problems(text) == []
    assert problems(undo(client, text)) == [id_]


def test_a_pending_memory_is_shown_and_embedded(client, engine, embedder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(embedder, "embed", lambda texts: (_ for _ in ()).throw(EmbedderError("down")))
        engine.remember("waits for its vector", **ANN)
    text = client.get("/ui/inbox?kind=pending").text
    assert "waits for its vector" in text
    assert problems(text) == []
    assert "1 memory embedded" in send(client, "/ui/inbox/upkeep")
    assert "Nothing to look at" in client.get("/ui/inbox?kind=pending").text


def test_a_relation_is_confirmed_or_dismissed_with_an_undo(client, engine):
    berlin, rome = (engine.remember(f"I live in {city}", **ANN).memory.id for city in ("Berlin", "Rome"))
    path, both = "/ui/inbox?kind=relation", f"{rome}:{berlin}"
    text = client.get(path).text
    assert problems(text) == [both]
    assert "said by the fact key" in text
    assert problems(client.get("/ui/inbox").text) == []  # recalls resolve it by themselves
    confirmed = send(client, path, one=f"replaces:{both}")
    assert problems(confirmed) == []
    assert engine.get(rome, **ANN).supersedes == berlin
    undo(client, confirmed)
    assert engine.get(rome, **ANN).supersedes is None
    assert problems(client.get(path).text) == [both]
    dismissed = send(client, path, do="both", item=both)
    assert problems(dismissed) == []
    undo(client, dismissed)
    assert problems(client.get(path).text) == [both]


def test_kinds_are_filtered(client, pair):
    assert problems(client.get("/ui/inbox?kind=update").text)
    assert "Nothing to look at" in client.get("/ui/inbox?kind=duplicate").text
    assert client.get("/ui/inbox?kind=x").status_code == 422


def test_a_read_key_sees_problems_and_no_form(keyed, engine, pair):
    client = keyed("read")
    text = client.get("/ui/inbox").text
    assert "<mark>30</mark>" in text
    assert re.findall(r'method="post" action="([^"]+)"', text) == ["/ui/logout"]
    assert "checkbox" not in text
    fields = {"csrf": csrf_of(client, "/ui/inbox"), "one": f"newer:{':'.join(pair)}"}
    assert client.post("/ui/inbox", data=fields).status_code == 403
    assert client.post("/ui/inbox/upkeep", data=fields).status_code == 403
    assert statuses(engine, pair) == ["live", "live"]


def test_a_bound_key_sees_and_changes_its_own_memories_alone(keyed, engine, pair):
    bobs = [engine.remember(text, user_id="bob").memory.id for text in LIMITS[:2]]
    client = keyed("read", "write", user_id="ann")
    assert problems(client.get("/ui/inbox").text) == [":".join(pair)]
    client.post("/ui/inbox", data={"csrf": csrf_of(client, "/ui/inbox"), "one": f"newer:{bobs[1]}:{bobs[0]}"})
    assert engine.history(bobs[0], user_id="bob")[-1].memory.status == "live"


def test_an_empty_inbox_says_what_appears_there(client):
    assert "Nothing to look at" in client.get("/ui/inbox").text


@pytest.mark.parametrize("chosen", ["newer", "x:" + "0" * 32, "newer:1:2", "both:" + ":".join(["0" * 32] * 3)])
def test_other_values_are_refused(chosen):
    with pytest.raises(InputError):
        steps_of(chosen)


def test_differing_words_are_those_of_each_side():
    older, newer = differing("The limit is 30 a minute", "The limit is 40 a minute")
    assert older == [("same", "The limit is "), ("other", "30"), ("same", " a minute")]
    assert newer == [("same", "The limit is "), ("other", "40"), ("same", " a minute")]
    older, newer = differing("x " * 2000 + "a", "x " * 2000 + "b")
    assert [name for name, _ in older] == ["cut", "same", "other"] == [name for name, _ in newer]


@pytest.mark.slow
@pytest.mark.parametrize(("theme", "width"), [("light", 1600), ("dark", 360)])
def test_resolve_and_undo_by_keyboard(browser, engine, pair, theme, width):
    with served(dashboard(engine)) as url:
        size = {"width": width, "height": 900}
        page = browser.new_context(base_url=url, viewport=size, color_scheme=theme).new_page()
        page.goto("/ui/inbox", wait_until="networkidle")
        assert page.locator(".problem").count() == 1
        assert_accessible(page)
        assert_fits(page)
        page.locator(".problem button", has_text="Keep newer").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**flash**")
        assert page.locator(".problem").count() == 0
        assert statuses(engine, pair) == ["live", "forgotten"]
        assert_accessible(page)
        page.get_by_role("button", name="Undo").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**undone**")
        assert page.locator(".problem").count() == 1
        assert statuses(engine, pair) == ["live", "live"]


def test_a_pair_is_resolved_as_a_replacement_and_undone(client, engine, pair):
    new, old = pair
    text = send(client, one=f"replaces:{new}:{old}")
    assert "Replaced 1 memory." in text
    assert (engine.get(new, **ANN).supersedes, engine.get(old, **ANN).weight) == (old, 0.1)
    assert problems(text) == []
    assert "1 change undone." in undo(client, text)
    assert (engine.get(new, **ANN).supersedes, engine.get(old, **ANN).weight) == (None, 1.0)
