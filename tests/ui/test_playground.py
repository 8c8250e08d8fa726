"""The playground: hits taken apart, sliders, all scores, and the call as code that gives the same answer."""

from __future__ import annotations

import html
import json
import re
import shlex
from itertools import pairwise

import pytest

import salience
from command_line import invoke
from dashboards import assert_accessible, assert_fits
from salience.server.ui import charts

QUESTION = "/ui/playground?q=query"


def store(engine):
    return [
        engine.remember(text, user_id="ann", importance=importance).memory.id
        for text, importance in (("near", 0.5), ("far", 0.6))
    ]


def snippets(text):
    text = text[text.index("The same call as code") :]
    return [html.unescape(found) for found in re.findall(r'<pre><code dir="ltr">(.*?)</code></pre>', text, re.DOTALL)]


def hits(text):
    found = text[text.index('<ol class="hits">') : text.index("</ol>", text.index('<ol class="hits">'))]
    return re.findall(r'class="text" dir="auto">([^<]*)<', found)


def test_hits_show_added_parts_factors_confidence_and_time(client, engine):
    store(engine)
    text = client.get(f"{QUESTION}&profile=memorysync").text
    assert hits(text) == ["near", "far"]
    [near, _] = engine.recall("query", profile="memorysync", dry_run=True, user_id="ann")
    assert f"{near.score:.4f}" in text
    assert f"similarity: {near.score_detail.parts[0].contribution:.3f}" in text
    assert re.search(r"×</span> staleness <span class=\"figure\">1\.000", text)
    assert re.search(r"rank \d+\.\d ms", text)
    assert "Confidence" in client.get(QUESTION).text


def test_a_weight_in_the_url_changes_the_order_and_another_profiles_sliders_do_not(client, engine):
    store(engine)
    url = f"{QUESTION}&profile=zeromemory"
    assert hits(client.get(url).text) == ["near", "far"]
    assert hits(client.get(f"{url}&w_importance=5").text) == ["far", "near"]
    assert hits(client.get(f"{url}&w_importance=5&sliders=salience").text) == ["near", "far"]
    own = client.get(f"{url}&w_importance=0.3&sliders=zeromemory").text
    assert "the profile has" not in own
    assert client.get(f"{url}&w_importance=many").status_code == 422
    assert client.get(f"{url}&w_importance=101").status_code == 422


def test_every_recall_is_dry(client, engine):
    ids = store(engine)
    client.get(f"{QUESTION}&scores=1")
    client.get("/ui/playground/scores?q=query")
    assert [engine.get(one, user_id="ann").access_count for one in ids] == [0, 0]


def test_all_scores_have_the_cut_and_the_memories_that_are_missing(client, engine):
    ids = store(engine)
    text = client.get("/ui/playground/scores?q=query&profile=zeromemory&limit=1").text
    [first] = engine.recall("query", profile="zeromemory", limit=1, dry_run=True, user_id="ann")
    assert f"the last hit has {first.score:.4f}" in text
    assert 'class="cut"' in text
    assert "outranked, rank 2" in text
    assert re.search(rf'href="/ui/why\?memory={ids[1]}&amp;q=query&amp;profile=zeromemory&amp;limit=1"', text)
    assert client.get(f"{QUESTION}&scores=1&limit=1").text.count('id="scores"') == 1


@pytest.mark.parametrize("cut", [0.0, 0.005, 0.04, 0.1, 0.3, 0.6, 0.635, 0.64, 0.9])
def test_the_labels_of_the_scores_never_overprint(cut):
    texts = re.findall(
        r'<text x="([^"]+)" y="[^"]+" text-anchor="(\w+)">', charts.histogram([3, 1], "", high=0.64, cut=cut)
    )
    edges = {"start": (0, 40), "middle": (-20, 20), "end": (-40, 0)}  # of four characters of 16 pixels
    boxes = sorted((float(x) + edges[anchor][0], float(x) + edges[anchor][1]) for x, anchor in texts)
    assert all(left[1] < right[0] for left, right in pairwise(boxes))
    assert boxes[0][0] >= 0
    assert boxes[-1][1] <= 480


def test_the_answer_of_the_past_and_a_limit_out_of_range(client, engine, clock):
    store(engine)
    then = f"{clock():%Y-%m-%dT%H:%M}"
    assert client.get(f"{QUESTION}&as_of=2000-01-01T00:00").text.count('class="hit"') == 0
    assert hits(client.get(f"{QUESTION}&now={then}").text) == ["near", "far"]
    for wrong in ("limit=0", "limit=1000", "limit=x", "as_of=soon", "min_score=-1", "profile=none", "tiers=x"):
        assert client.get(f"{QUESTION}&{wrong}").status_code == 422, wrong


def test_a_page_of_long_memories_stays_small(client, engine):
    engine.remember_many([{"content": f"{number} near " + "word " * 5_000, "user_id": "ann"} for number in range(60)])
    found = client.get("/ui/playground?q=near&limit=50&min_score=0&scores=1&profile=zeromemory")
    assert found.text.count('class="hit"') == 50
    assert len(found.content) < 300_000


HARD = "it's \"quoted\" $HOME `x` \\n\n-- 'ünï' query"
URL = {
    "q": HARD, "profile": "zeromemory", "w_importance": "5", "limit": "7", "min_score": "0.05", "tags": "a b,c",
    "user_id": "ann's", "project": "x y", "now": "2026-05-01T12:00",
}  # fmt: skip


def test_the_python_program_gives_the_same_answer(client, engine, monkeypatch, capsys):
    store(engine)
    monkeypatch.setattr(salience, "connect", lambda: engine)
    for url in ({"q": "query"}, {"q": "query", "profile": "zeromemory", "w_importance": "5", "limit": "1"}):
        text = client.get("/ui/playground", params=url).text
        exec(compile(snippets(text)[0], "snippet", "exec"), {})  # noqa: S102
        printed = [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()]
        assert printed == hits(text) != []


def test_the_programs_pass_on_every_argument(client, monkeypatch):
    python, curl, command = snippets(client.get("/ui/playground", params=URL).text)
    calls = []

    class Recorder:
        def recall(self, *arguments, **named):
            calls.append((arguments, named))
            return []

    monkeypatch.setattr(salience, "connect", Recorder)
    exec(compile(python, "snippet", "exec"), {})  # noqa: S102
    expected = {
        "profile": "zeromemory", "weights": {"importance": 5.0}, "limit": 7, "min_score": 0.05, "tags": ["a b", "c"],
        "user_id": "ann's", "project": "x y", "agent_id": salience.ANY, "environment": salience.ANY,
        "now": "2026-05-01T12:00:00+00:00",
    }  # fmt: skip
    assert calls == [((HARD.strip(),), expected)]
    words = shlex.split(curl.replace("\\\n", ""))
    assert words[:2] == ["curl", "http://127.0.0.1/v1/recall"]
    body = json.loads(words[words.index("-d") + 1])
    assert body == {"query": HARD.strip(), **expected, "agent_id": "*", "environment": "*"}
    assert client.post("/v1/recall", json=body).status_code == 200
    words = shlex.split(command)
    assert words[:2] == ["salience", "recall"]
    assert words[-1] == HARD.strip()
    assert words.count("--tag") == 2


def test_the_command_runs(client, engine, target, monkeypatch):
    store(engine)
    command = shlex.split(snippets(client.get(f"{QUESTION}&w_similarity=0.5&min_score=0").text)[2])
    if target == ":memory:":
        pytest.skip("a store in memory is of one process")
    monkeypatch.setenv("SALIENCE_URL", target)
    found = invoke([*command[1:], "--json"])
    assert "Usage" not in found.output
    assert found.exit_code in (0, 1), found.output


def test_metadata_filters_the_hits_and_is_in_each_snippet(client, engine):
    for text, plan in (("near", "free"), ("far", "pro")):
        engine.remember(text, metadata={"plan": plan})
    text = client.get(f"{QUESTION}&where=%7B%22plan%22:+%22pro%22%7D").text
    assert hits(text) == ["far"]
    assert all("plan" in snippet for snippet in snippets(text))
    assert "where is not JSON" in client.get(f"{QUESTION}&where=plan").text


def test_an_empty_store_and_no_question(client, engine):
    assert "salience remember" in client.get("/ui/playground").text
    assert "No memories yet" in client.get(QUESTION).text
    store(engine)
    assert "Ask a question" in client.get("/ui/playground").text
    assert "No memory answers" in client.get(f"{QUESTION}&min_score=99").text


def test_a_read_key_sees_no_form_that_writes_and_a_bound_key_its_user_alone(keyed, engine):
    engine.remember("near", user_id="ann")
    engine.remember("far", user_id="bob")
    text = keyed("read").get(f"{QUESTION}&scores=1").text
    assert re.findall(r'method="post" action="([^"]+)"', text) == ["/ui/logout"]
    bound = keyed("read", user_id="ann")
    for path in (f"{QUESTION}&scores=1", "/ui/playground/scores?q=query"):
        assert "far" not in re.findall(r'dir="auto">([^<]*)<', bound.get(path).text)
    assert hits(bound.get(QUESTION).text) == ["near"]
    assert bound.get(f"{QUESTION}&user_id=bob").status_code == 403


def test_markup_is_text(client, engine):
    engine.remember("<script>alert(1)</script> near", user_id="<b>ann")
    text = client.get("/ui/playground", params={"q": "<i>near</i>", "scores": "1", "min_score": "0"}).text
    assert "<script>alert" not in text
    assert "<i>" not in text
    assert "<b>" not in text


@pytest.mark.slow
def test_a_slider_moves_by_keyboard_and_the_answer_follows(page):
    page.goto("/ui/playground?q=What+language+does+Alice+like%3F", wait_until="networkidle")
    assert_fits(page)
    assert_accessible(page)
    if page.locator(".sliders").get_attribute("open") is None:
        page.locator(".sliders summary").click()
    slider = page.locator("#w_similarity")
    slider.focus()
    page.keyboard.press("End")
    page.wait_for_url("**w_similarity=1**")
    assert "w_importance" not in page.url
    page.get_by_text("the profile has 0.30").wait_for(state="attached")
    page.goto(page.url, wait_until="networkidle")
    assert page.locator("#w_similarity").input_value() == "1"
    assert_accessible(page)


@pytest.mark.slow
def test_it_works_without_scripts(plain_page):
    plain_page.goto("/ui/playground?q=What+language+does+Alice+like%3F")
    plain_page.locator("#w_similarity").fill("1")
    plain_page.get_by_role("button", name="Apply").last.click()
    assert "w_similarity=1" in plain_page.url
    assert "the profile has 0.30" in plain_page.inner_text(".sliders")
    plain_page.get_by_role("link", name="Show the scores of all memories").click()
    assert "Not in the answer" in plain_page.inner_text("#scores")
