"""Tiers and decay: numbers per tier, dry runs, curves of chosen memories, and the log of upkeep."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta

import pytest

from dashboards import csrf_of
from salience.server.ui.views import tiers

DAY = timedelta(days=1)


def forms(text):
    return [action for action in re.findall(r'method="post" action="([^"?]+)', text) if action != "/ui/logout"]


def plots(text):
    return [json.loads(html.unescape(found)) for found in re.findall(r'data-plot="([^"]+)"', text)]


def fill(engine, clock):
    """Store a working memory that has earned the next tier, an episodic one, and one whose time is over."""
    made = [
        engine.remember("idle <b>one</b>", user_id="ann", tier="working").memory,
        engine.remember("episodic one", user_id="ann").memory,
        engine.remember("short one", user_id="bob", ttl="1h").memory,
    ]
    clock.now += DAY
    return made


def test_tiers_are_counted_and_what_moves_is_named_with_its_reason(client, engine, clock):
    fill(engine, clock)
    text = client.get("/ui/tiers").text
    assert re.findall(r"</svg> (\w+)</th>\s*<td class=\"figure\">(\d+)</td>", text)[:3] == [
        ("working", "1"), ("episodic", "1"), ("semantic", "0"),
    ]  # fmt: skip
    assert "1 memory of 2 below" in text
    assert "To episodic: idle for 24 hours" in text
    assert "idle &lt;b&gt;one&lt;/b&gt;" in text
    assert "short one" in text[text.index("Memories that expire") :]
    assert engine.stats(user_id="ann").by_tier["working"] == 1


def test_forms_move_memories_and_run_upkeep_and_the_log_tells(client, engine, clock):
    idle, _, short = fill(engine, clock)
    csrf = csrf_of(client, "/ui/tiers")
    done = client.post("/ui/tiers/consolidate", data={"csrf": csrf})
    assert "1 of 2 memories moved" in client.get(done.headers["location"]).text
    assert engine.get(idle.id, user_id="ann").tier == "episodic"
    done = client.post("/ui/tiers/upkeep", data={"csrf": csrf})
    text = client.get(done.headers["location"]).text
    assert "Upkeep: 0 embedded, 1 expired, 0 moved, 0 pruned." in text
    log = text[text.index('id="log"') :]
    assert "moved to episodic" in log
    assert "its time ran out" in log
    assert short.short_id in log
    assert client.post("/ui/tiers/upkeep", data={"csrf": "0"}).status_code == 403


def test_the_log_of_upkeep_has_pages(client, engine, clock, monkeypatch):
    monkeypatch.setattr(tiers, "LOG", 2)
    engine.remember_many([{"content": f"n {n}", "user_id": "ann", "tier": "working"} for n in range(5)])
    clock.now += DAY
    engine.upkeep()
    found, path = [], "/ui/tiers"
    for size in (2, 2, 1):
        text = client.get(path).text
        log = text[text.index('id="log"') :]
        found += re.findall(r'dir="auto">(n \d)<', log)
        assert len(found) % 2 == size % 2
        path = (re.findall(r'href="([^"]+)" rel="next"', log) or [""])[0].replace("&amp;", "&")
    assert sorted(found) == [f"n {n}" for n in range(5)]
    assert path == ""


def test_curves_are_those_of_each_fading_profile(client, engine, clock):
    ids = [one.id for one in fill(engine, clock)[:2]]
    text = client.get(f"/ui/tiers?id={ids[1]}&id={ids[0]}&days=7").text
    first, second = plots(text)
    assert [one["label"] for one in first["series"]] == ["mememory", "memlayer", "zeromemory", "memorysync", "cmm"]
    assert (first["x"][0], first["x"][-1], len(first["x"])) == (0, 7, tiers.STEPS)
    assert all(len(one["values"]) == tiers.STEPS for plot in (first, second) for one in plot["series"])
    values = {one["label"]: one["values"] for one in first["series"]}["zeromemory"]
    assert values[0] > values[-1] > 0
    assert f">{values[-1]:.2f}</td>" in text
    assert len(plots(client.get("/ui/tiers").text)) == 2
    assert len(plots(client.get("/ui/tiers?words=episodic").text)) == 1


@pytest.mark.parametrize("query", ["days=8", "days=x", "cursor=x", "&".join(f"id={n:032x}" for n in range(7))])
def test_bad_parameters_are_refused(client, query):
    assert client.get(f"/ui/tiers?{query}").status_code == 422


def test_large_stores_wait_for_a_click(client, engine, clock, monkeypatch):
    fill(engine, clock)
    monkeypatch.setattr(tiers, "AT_ONCE", 1)
    text = client.get("/ui/tiers").text
    assert "To episodic" not in text
    [link] = set(re.findall(r'class="button" href="([^"]+due=1)"', text))
    assert "To episodic" in client.get(link).text


def test_an_empty_store_says_how_to_fill_it(client):
    text = client.get("/ui/tiers").text
    assert "No live memories" in text
    assert "Upkeep has changed no memory" in text


def test_a_read_key_sees_no_form_and_its_posts_are_refused(keyed, engine, clock):
    idle = fill(engine, clock)[0]
    client = keyed("read")
    text = client.get("/ui/tiers").text
    assert forms(text) == []
    assert "needs the right write" in text
    csrf = csrf_of(client, "/ui/tiers")
    for action in ("consolidate", "upkeep"):
        assert client.post(f"/ui/tiers/{action}", data={"csrf": csrf}).status_code == 403
    assert engine.get(idle.id, user_id="ann").tier == "working"


def test_a_bound_key_sees_its_user_alone(keyed, engine, clock):
    fill(engine, clock)
    bob = engine.remember("secret of bob", user_id="bob", tier="working").memory
    clock.now += DAY
    client = keyed("read", "write", "admin", user_id="ann")
    text = client.get(f"/ui/tiers?id={bob.id}&due=1").text
    assert "secret of bob" not in text
    assert set(forms(text)) == {"/ui/tiers/consolidate"}
    csrf = csrf_of(client, "/ui/tiers")
    assert client.post("/ui/tiers/upkeep", data={"csrf": csrf}).status_code == 403
    client.post("/ui/tiers/consolidate", data={"csrf": csrf})
    assert engine.get(bob.id, user_id="bob").tier == "working"
