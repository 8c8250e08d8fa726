"""Compare: profiles, instants and weights side by side, with the moves of ranks."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from dashboards import NARROW, assert_accessible, assert_fits
from salience.server.ui.views.compare import bumps, colors, moved, ranks

QUESTION = "/ui/compare?q=query"


def answers(text):
    """Return the contents of each column."""
    columns = re.findall(r'<section class="side-answer" aria-label="([^"]*)">(.*?)</section>', text, re.DOTALL)
    return {label: re.findall(r'<p class="text" dir="auto">([^<]*)<', part) for label, part in columns}


def test_moves_and_ranks():
    columns = [["a", "b", "c"], ["b", "a", "d"]]
    assert ranks(columns) == {"a": [1, 2], "b": [2, 1], "c": [3, None], "d": [None, 3]}
    assert [moved(*pair) for pair in ((1, 2), (2, 1), (3, 3), (1, None))] == ["up 1", "down 1", "same", "new"]
    drawn = bumps(*columns, colors(columns))
    assert "0 keep their rank, 2 move, 1 are new, 1 are gone" in drawn
    assert drawn.count("<path") == 2


def test_profiles_rank_side_by_side(client, engine):
    engine.remember("near", user_id="ann", importance=0.1)
    engine.remember("far", user_id="ann", importance=1.0)
    text = client.get(f"{QUESTION}&with=memlayer&with=zeromemory").text
    assert answers(text) == {"memlayer": ["near", "far"], "zeromemory": ["far", "near"]}
    assert re.findall(r'class="badge move \w+">([^<]+)<', text) == ["up 1", "down 1"]
    assert list(answers(client.get(QUESTION).text)) == ["salience", "precise", "zeromemory"]


@pytest.mark.parametrize("chosen", [["salience"], ["salience", "salience"], ["salience", "none"]])
def test_two_to_six_known_profiles(client, chosen):
    assert client.get("/ui/compare", params={"q": "query", "with": chosen}).status_code == 422


def test_six_profiles(client, engine):
    engine.remember("near", user_id="ann")
    names = ["salience", "precise", "mememory", "memlayer", "zeromemory", "cmm"]
    assert list(answers(client.get("/ui/compare", params={"q": "query", "with": names}).text)) == names
    assert client.get("/ui/compare", params={"q": "query", "with": [*names, "memorysync"]}).status_code == 422


def test_a_page_of_six_long_answers_stays_small(client, engine):
    texts = [f"{number} near " + "word " * 2_000 for number in range(40)]
    engine.remember_many([{"content": text, "user_id": "ann"} for text in texts])
    names = ["salience", "precise", "mememory", "memlayer", "zeromemory", "cmm"]
    found = client.get("/ui/compare", params={"q": "near", "with": names, "limit": 15, "min_score": 0})
    assert found.text.count('class="cell') > 15
    assert len(found.content) < 300_000
    assert client.get("/ui/compare", params={"q": "near", "limit": 16}).status_code == 422


def test_two_instants(client, engine, clock):
    engine.remember("far", user_id="ann")
    clock.now += timedelta(days=40)
    engine.remember("near", user_id="ann")
    text = client.get(f"{QUESTION}&mode=instants").text
    assert list(answers(text).values()) == [["far"], ["near", "far"]]
    assert list(answers(text))[1] == "now"
    before = f"{clock() - timedelta(days=50):%Y-%m-%dT%H:%M}"
    after = f"{clock() - timedelta(days=20):%Y-%m-%dT%H:%M}"
    found = answers(client.get(f"{QUESTION}&mode=instants&before={before}&after={after}").text)
    assert list(found.values()) == [[], ["far"]]


def test_weights_before_and_after(client, engine):
    engine.remember("near", user_id="ann", importance=0.5)
    engine.remember("far", user_id="ann", importance=0.6)
    text = client.get(f"{QUESTION}&mode=weights&profile=zeromemory&w_importance=5").text
    assert list(answers(text).values()) == [["near", "far"], ["far", "near"]]
    assert "Move a slider" in client.get(f"{QUESTION}&mode=weights").text


def test_nothing_to_compare(client, keyed, engine):
    assert "Ask a question" in client.get("/ui/compare").text
    assert "No memory answers" in client.get(QUESTION).text
    engine.remember("<script>alert(1)</script>", user_id="bob")
    assert "<script>alert" not in client.get(f"{QUESTION}&min_score=0").text
    bound = keyed("read", user_id="ann").get(f"{QUESTION}&min_score=0").text
    assert "alert(1)" not in bound
    assert re.findall(r'method="post" action="([^"]+)"', bound) == ["/ui/logout"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["profiles", "instants", "weights"])
def test_it_is_accessible_and_fits(page, mode):
    page.goto(f"/ui/compare?q=What+language+does+Alice+like%3F&mode={mode}&w_importance=1", wait_until="networkidle")
    assert page.locator(".side-answer").count() == (3 if mode == "profiles" else 2)
    assert_fits(page)
    assert_accessible(page)


@pytest.mark.slow
@NARROW
def test_profiles_are_chosen_by_keyboard(page):
    page.goto("/ui/compare?q=What+language+does+Alice+like%3F", wait_until="networkidle")
    box = page.get_by_role("checkbox", name="cmm")
    box.focus()
    page.keyboard.press("Space")
    page.get_by_label("Question").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**with=cmm**")
    assert page.locator(".side-answer").count() == 4
