"""The time view: validity strips, the instant in the URL, answers of the past, and the activity of each day."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import date, timedelta

import pytest

from salience.errors import InputError
from salience.records import ActivityDay, Relation
from salience.server.ui.views.time import instant_of, months, validity, weeks

DAY = timedelta(days=1)


def history(engine, memory):
    return [version.memory for version in engine.history(memory.id, user_id="ann")]


def states(periods):
    return [(one.state, one.memory.version) for one in periods]


def test_a_fact_is_valid_until_a_newer_memory_states_it(engine, clock):
    start = clock.now
    old = engine.remember("near", user_id="ann", fact_key="ann.city").memory
    clock.now += 10 * DAY
    new = engine.remember("far", user_id="ann", fact_key="ann.city").memory
    clock.now += DAY
    engine.forget(new.id, user_id="ann")
    clock.now += DAY
    histories = [history(engine, old), history(engine, new)]
    first, second = validity(histories, clock.now)
    assert states(first) == [("valid", 1), ("replaced", 1), ("valid", 1)]
    assert states(second) == [("valid", 1), ("hidden", 2)]
    assert [one.start - start for one in first] == [0 * DAY, 10 * DAY, 11 * DAY]
    assert first[0].end == first[1].start
    assert first[-1].end is None


def test_what_is_superseded_or_past_its_time_is_not_valid(engine, clock):
    old = engine.remember("near", user_id="ann").memory
    short = engine.remember("far", user_id="ann", ttl="1d").memory
    clock.now += 2 * DAY
    new = engine.remember("newer", user_id="ann", supersedes=old.id).memory
    found = validity([history(engine, one) for one in (old, short, new)], clock.now)
    assert [one.state for one in found[0]][-1] == "replaced"
    assert states(found[1]) == [("valid", 1), ("expired", 1), ("expired", 2)]
    assert found[1][1].start == short.expires_at
    assert states(found[2]) == [("valid", 1)]


def test_updates_make_an_older_memory_the_current_one_again(engine, clock):
    old = engine.remember("near", user_id="ann", fact_key="ann.city").memory
    clock.now += DAY
    new = engine.remember("far", user_id="ann", fact_key="ann.city").memory
    clock.now += DAY
    engine.update(old.id, fact_key="ann.city", user_id="ann")
    first, second = validity([history(engine, old), history(engine, new)], clock.now)
    assert states(first)[-1] == ("valid", 2)
    assert states(second) == [("valid", 1), ("replaced", 2)]  # its second version no longer replaces the older one


def test_only_a_likely_relation_makes_a_memory_replaced(engine, clock):
    old, new = (engine.remember(text, user_id="ann").memory for text in ("near", "far"))
    for probability, by, state in ((0.4, "model", "valid"), (0.6, "model", "doubted"), (1.0, "caller", "replaced")):
        made = replace(new, relations=(Relation(old.id, "replaces", probability, by),))
        assert validity([[old], [made]], clock.now)[0][-1].state == state
    repeated = replace(new, relations=(Relation(old.id, "repeats", 0.9, "rule"),))
    assert states(validity([[old], [repeated]], clock.now)[0]) == [("valid", 1)]


def test_an_instant_is_a_date_or_iso_8601_and_never_in_the_future(clock):
    now = clock.now
    assert instant_of(None, now) == now
    assert instant_of((now + 5 * DAY).date().isoformat(), now) == now
    day = instant_of((now - 5 * DAY).date().isoformat(), now)
    assert (day + timedelta(microseconds=1)).time() == now.min.time()
    assert day.date() == (now - 5 * DAY).date()
    assert instant_of((now - DAY).isoformat(), now) == now - DAY
    with pytest.raises(InputError):
        instant_of("some day", now)


def test_the_slider_leads_to_a_date_in_the_url(client, engine, clock):
    engine.remember("near", user_id="ann", fact_key="ann.city")
    clock.now += 5 * DAY
    text = client.get("/ui/time?fact=ann.city&theme=dark").text
    low, high = map(int, re.search(r'type="range".*?min="(\d+)" max="(\d+)"', text).groups())
    assert high - low == 5
    response = client.get(f"/ui/time?fact=ann.city&theme=dark&day={low + 1}")
    assert response.status_code == 303
    expected = (date(1970, 1, 1) + timedelta(days=low + 1)).isoformat()
    assert response.headers["location"] == f"/ui/time?fact=ann.city&theme=dark&as_of={expected}"
    assert f"As of <strong>{expected}</strong>" in client.get(response.headers["location"]).text
    assert client.get("/ui/time?day=x").status_code == client.get("/ui/time?as_of=x").status_code == 422


def test_a_question_is_answered_then_and_now(client, engine, clock):
    engine.remember("far", user_id="ann")
    clock.now += 2 * DAY
    engine.remember("near", user_id="ann")
    clock.now += 2 * DAY
    at = (clock.now - 3 * DAY).date().isoformat()
    text = client.get("/ui/time", params={"q": "query", "as_of": at}).text
    assert "Rank then 1, rank now 2." in text
    assert "Rank then none, rank now 1." in text
    assert "Not stored yet." in text
    assert "Next change" in text


def test_an_earlier_history_is_shown_by_the_dates_of_its_texts(client, engine, clock):
    for text, days in (("far", 400), ("near", 100)):
        engine.remember(text, user_id="ann", created_at=clock.now - days * DAY)
    text = client.get("/ui/time").text
    first, middle = ((clock.now - days * DAY).date() for days in (400, 200))
    assert f"<span>{first}</span>" in text
    assert re.search(rf"<title>Version 1, valid: {first} [^<]*</title>", text)
    assert "the dates of the texts" not in text
    assert "Memories dated, by their texts on each day" in text
    then = client.get(f"/ui/time?q=query&as_of={middle}").text
    assert "Rank then 1, rank now" in then
    assert "Rank then none" in then
    assert "Its text is of later." in then
    stored = client.get(html.unescape(re.search(r'href="([^"]+)">Show when it was stored', text)[1])).text
    assert f"<span>{first}</span>" not in stored
    assert "Memories everything on each day" in stored


def test_memories_that_were_stored_at_once_are_shown_by_their_writes(client, engine, clock):
    engine.remember("near", user_id="ann")
    engine.remember("far", user_id="ann", created_at=clock.now - 9 * DAY)
    assert "Show the dates of the texts" in client.get("/ui/time").text


def test_the_form_shows_examples_that_the_store_answers(client, engine):
    assert client.get("/ui/time").text.count('placeholder=""') == 3
    engine.remember("Alice lives in Oslo", user_id="ann", fact_key="alice.city")
    examples = re.findall(r'name="(q|fact|words)"[^>]*placeholder="([^"]*)"', client.get("/ui/time").text)
    assert examples == [("q", "What is known about Alice?"), ("fact", "alice.city"), ("words", "Alice")]
    for name, example in examples:
        assert "Alice lives in Oslo" in client.get("/ui/time", params={name: example}).text


def test_the_text_is_that_of_the_instant(client, engine, clock):
    memory = engine.remember("first text", user_id="ann").memory
    clock.now += 3 * DAY
    engine.update(memory.id, content="second text", user_id="ann")
    at = (clock.now - 2 * DAY).date().isoformat()
    text = client.get(f"/ui/time?as_of={at}&words=text").text
    assert "first text" in text
    assert "second text" not in text
    assert "second text" in client.get(f"/ui/time?id={memory.id}").text


def test_activity_is_drawn_by_week_and_listed_by_month():
    days = [ActivityDay("2026-04-28", created=2, recalled=1), ActivityDay("2026-05-01", created=1, forgotten=4)]
    rows, columns, heads = weeks(days, date(2026, 5, 1), "all")
    assert (len(rows), len(columns), len(heads)) == (7, 53, 53)
    assert columns[-1] == "2026-04-27"
    assert [counts[-1] for _, counts in rows] == [0, 3, 0, 0, 5, 0, 0]
    assert weeks(days, date(2026, 5, 1), "forgotten")[0][4][1][-1] == 4
    assert months(days)[0] == ("2026-05", {"created": 1, "changed": 0, "forgotten": 4, "recalled": 0, "dated": 0})


def test_an_empty_store_says_how_to_fill_it(client, engine):
    assert "salience remember" in client.get("/ui/time").text
    assert "No memory matches" in client.get("/ui/time?fact=none").text
    assert "No memory matches" in client.get("/ui/time?id=00000000").text


def test_a_bound_key_sees_its_user_alone_and_text_is_escaped(keyed, engine):
    engine.remember("<b>own</b>", user_id="ann", fact_key="x.city")
    secret = engine.remember("secret", user_id="bob", fact_key="x.city").memory
    client = keyed("read", user_id="ann")
    for query in ("", "?fact=x.city", "?q=secret", "?words=secret", f"?id={secret.id}"):
        text = client.get(f"/ui/time{query}").text
        assert f"/ui/memory/{secret.id}" not in text
        assert re.findall(r'method="post" action="([^"]+)"', text) == ["/ui/logout"]
    text = client.get("/ui/time?fact=x.city").text
    assert "&lt;b&gt;own&lt;/b&gt;" in text
    assert "Replaced" not in text


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
def test_the_first_and_the_last_instant_are_shown_or_refused(client, engine, at):
    engine.remember("near", created_at=at)
    for query in ("", "&q=near"):
        assert client.get(f"/ui/time?as_of={at}{query}").status_code in (200, 422)
