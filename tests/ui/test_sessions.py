"""Sessions and the log of recalls."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dashboards import assert_accessible, assert_fits
from salience.server.ui.views.sessions import PAGE, parts

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def turns(*texts, gap=timedelta(minutes=1), start=NOON):
    return [
        {"speaker": "Ann" if place % 2 == 0 else "<b>Bo</b>", "content": text, "timestamp": start + place * gap}
        for place, text in enumerate(texts)
    ]


def logging(engine):
    engine.services = replace(engine.services, recall_log=timedelta(days=30))


def links(text, pattern):
    return [link.replace("&amp;", "&") for link in re.findall(rf'href="(/ui/{pattern}[^"]*)"', text)]


def test_a_session_is_a_transcript_with_speakers_and_times(client, engine):
    engine.ingest(turns("hello", "how are you", "fine"), session_id="a/b ?", user_id="ann")
    engine.remember("a note of the session", session_id="a/b ?", user_id="ann")
    [link] = links(client.get("/ui/sessions").text, "sessions/transcript")
    text = client.get(link).text
    places = [text.index(word) for word in ("hello", "how are you", "fine")]
    assert places == sorted(places)
    assert "12:01" in text
    assert "&lt;b&gt;Bo&lt;/b&gt;" in text
    assert "<b>Bo</b>" not in text
    assert "a note of the session" in text


def test_sessions_of_one_name_are_apart(client, engine):
    for user in ("ann", "bob", None):
        engine.remember(f"of {user}", session_id="s", user_id=user)
    found = links(client.get("/ui/sessions").text, "sessions/transcript")
    assert len(found) == 3
    shown = [re.findall(r"of (ann|bob|None)<", client.get(link).text) for link in found]
    assert sorted(shown) == [["None"], ["ann"], ["bob"]]
    assert "Sessions of 3 users" in client.get("/ui/sessions/transcript?id=s").text


def test_sessions_are_searched_and_listed_page_by_page(client, engine):
    engine.remember_many([
        {"content": f"number-{number}.", "session_id": f"s{number}", "user_id": "ann"} for number in range(PAGE + 5)
    ])  # fmt: skip
    first = client.get("/ui/sessions").text
    [more] = re.findall(r'href="([^"]+)" rel="next"', first)
    names = re.findall(r'class="name">([^<]+)<', first + client.get(more.replace("&amp;", "&")).text)
    assert sorted(names) == sorted(f"s{number}" for number in range(PAGE + 5))
    assert re.findall(r'class="name">([^<]+)<', client.get("/ui/sessions?q=number-7.").text) == ["s7"]
    assert "No session matches" in client.get("/ui/sessions?q=nothing").text
    assert client.get("/ui/sessions?cursor=x").status_code == 422


def test_a_long_transcript_has_pages(client, engine):
    engine.ingest(turns(*(f"line {number}." for number in range(130))), session_id="long")
    first = client.get("/ui/sessions/transcript?id=long").text
    [more] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = client.get(more.replace("&amp;", "&")).text
    assert re.findall(r"line (\d+)\.", first + second) == [str(number) for number in range(130)]


def test_a_pause_begins_a_new_part(engine):
    early = turns("one", "two")
    receipts = engine.ingest([*early, *turns("three", start=NOON + timedelta(hours=2))], session_id="s")
    found = parts([receipt.memory for receipt in receipts])
    assert [[one.content for one in part] for part in found] == [["one", "two"], ["three"]]


def test_a_bound_key_sees_its_sessions_and_recalls_alone(keyed, engine):
    logging(engine)
    engine.remember("secret of bob", user_id="bob", session_id="bobs")
    engine.recall("question of bob", user_id="bob")
    engine.recall("question of ann", user_id="ann")
    [entry] = engine.recalls(user_id="bob").recalls
    client = keyed("read", user_id="ann")
    for path in ("sessions", "sessions/transcript?id=bobs", "sessions/transcript?id=bobs&f_user_id=bob", "recalls"):
        text = client.get(f"/ui/{path}").text
        assert "secret of bob" not in text
        assert "question of bob" not in text
        assert re.findall(r'method="post" action="([^"]+)"', text) == ["/ui/logout"]
    assert "question of ann" in client.get("/ui/recalls").text
    assert client.get(f"/ui/recalls/{entry.id}").status_code == 404


def test_the_log_says_that_it_is_off_and_how_to_turn_it_on(client, engine):
    text = client.get("/ui/recalls").text
    assert "The log of recalls is off" in text
    assert "SALIENCE_RECALL_LOG=30d" in text
    logging(engine)
    assert "No recalls yet" in client.get("/ui/recalls").text


def test_a_trace_has_the_scores_and_leads_to_the_playground(client, engine):
    logging(engine)
    near = engine.remember("near", user_id="ann").memory
    far = engine.remember("far", user_id="ann").memory
    answer = engine.recall("query", user_id="ann", limit=7, kinds=["fact"])
    engine.recall("<i>other</i>", user_id="ann")
    engine.forget(far.id, user_id="ann")
    [link] = links(client.get("/ui/recalls?q=QUERY").text, "recalls/")
    text = client.get(link).text
    assert [f"{hit.score:.4f}" in text for hit in answer] == [True, True]
    assert text.index(near.id) < text.index(far.id)
    assert "not live any more" in text
    [again] = links(text, "playground\\?")
    for part in ("q=query", "limit=7", "kinds=fact", "user_id=ann", "profile=salience"):
        assert part in again
    assert "&lt;i&gt;other&lt;/i&gt;" in client.get("/ui/recalls?q=other").text
    assert "No question matches" in client.get("/ui/recalls?q=nothing").text
    assert client.get(f"/ui/recalls/{'0' * 32}").status_code == 404


@pytest.mark.slow
def test_from_a_session_to_a_memory_and_from_a_recall_to_the_playground(page):
    page.goto("/ui/sessions", wait_until="networkidle")
    page.get_by_role("link", name="standup-0421").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/sessions/transcript?id=standup-0421**")
    assert "Did the checksums match?" in page.inner_text("main")
    assert_accessible(page)
    page.goto("/ui/recalls", wait_until="networkidle")
    page.get_by_role("link", name="What may Bob not eat?").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/recalls/*")
    assert_fits(page)
    page.locator(".traced summary", has_text="Numbers").first.click()
    assert_accessible(page)
    page.get_by_role("link", name="Ask again in the playground").click()
    page.wait_for_url("**/ui/playground?**What+may+Bob+not+eat**")
