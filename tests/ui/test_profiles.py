"""Profiles: formulas, the check of an edited copy, and its effect on a question."""

from __future__ import annotations

import re
from html import unescape

import pytest

from dashboards import assert_accessible, assert_fits
from salience.errors import InputError
from salience.explain.profiles import describe
from salience.rank import profiles
from salience.server.ui.views.profiles import check, drawn, line_of, moves


def cells(text, label):
    return [
        unescape(re.sub("<[^>]+>", "", one)).strip()
        for one in re.findall(rf'data-label="{label}"[^>]*>(.*?)</td>', text)
    ]


def test_every_profile_is_listed_with_its_formula_and_stages(client):
    text = client.get("/ui/profiles").text
    for name in profiles.NAMES:
        assert f"profile={name}" in text
    assert text.count("used by default") == 1
    assert "late_interaction" in text
    assert "importance_floor" in text


@pytest.mark.parametrize("name", profiles.NAMES)
def test_a_page_of_a_profile_has_every_signal_stage_and_its_text(client, name):
    text = unescape(client.get(f"/ui/profiles?profile={name}").text)
    profile = profiles.load(name)
    for term in profile.terms:
        assert f"<strong>{term.label}</strong>" in text
    for stage in profile.stages:
        assert f"<strong>{stage}</strong>" in text
    assert profiles.source(name).strip() in text


def test_shares_of_a_sum_are_those_of_its_weights():
    known = describe(profiles.load("salience"))
    drawing = drawn(profiles.load("memlayer"), known)
    assert [round(part.share, 2) for part in drawing.sums] == [0.7, 0.2, 0.1]
    assert drawing.formula == "0.7 cosine + 0.2 recency + 0.1 importance"
    assert drawn(profiles.load("mememory"), known).formula == "similarity x scope_weight x weight x temporal_decay"


@pytest.mark.parametrize(
    ("old", "new", "field", "line"),
    [
        ("weight = 0.70", "weight = 700", "signal.similarity.weight", "weight = 700"),
        ("[signal.recency]", "[signal.recent]", "signal.recent", "[signal.recent]"),
        ("half_life_days = 30.0", "half_lives = 3", "signal.recency.half_lives", "half_lives = 3"),
        ('combine = "sum"', 'combine = "mean"', "combine", 'combine = "mean"'),
        ("limit = 5", "limit = = 5", "at line", "limit = = 5"),
    ],
)
def test_an_error_names_its_field_and_line(client, old, new, field, line):
    toml = profiles.source("memorysync").replace(old, new, 1)
    response = client.get("/ui/profiles/edit", params={"profile": "memorysync", "toml": toml})
    text = unescape(response.text)
    assert response.status_code == 200
    number = toml.splitlines().index(line) + 1
    assert f"Not valid: line {number}" in text
    assert field in text
    assert f'class="number">{number}</span>{line}' in text


def test_a_missing_key_has_the_line_of_its_table_or_none():
    toml = profiles.source("memorysync").replace('name = "memorysync"', "", 1)
    error = check(toml)
    assert isinstance(error, InputError)
    assert line_of(toml, error) is None
    toml = profiles.source("memorysync") + "\n[intent.other]\nwords = ['x']\n"
    error = check(toml)
    assert isinstance(error, InputError)
    assert toml.splitlines()[line_of(toml, error) - 1] == "[intent.other]"


@pytest.mark.parametrize("toml", ["", "x" * 9000, "\x00", "a = ["])
def test_other_texts_are_errors_of_the_check(client, toml):
    response = client.get("/ui/profiles/edit", params={"toml": toml})
    assert response.status_code == 200
    assert "Not valid" in response.text


def test_a_copy_shows_what_it_changes_and_counts_no_access(client, engine):
    ids = [
        engine.remember(text, user_id="ann", importance=weight).memory.id
        for text, weight in (("far", 1.0), ("near", 0.0))
    ]
    toml = profiles.source("zeromemory").replace("weight = 0.5", "weight = 9.0", 1)
    url, query = "/ui/profiles/edit", {"profile": "zeromemory", "q": "query"}
    assert cells(client.get(url, params=query).text, "Change") == ["same", "same"]
    text = client.get(url, params={**query, "toml": toml.replace("\n", "\r\n")}).text
    assert cells(text, "After") == ["1", "2"]
    assert cells(text, "Change") == ["up 1", "down 1"]
    assert [engine.get(id_, user_id="ann").access_count for id_ in ids] == [0, 0]


def test_moves_name_the_new_and_the_gone(engine):
    for text in ("near", "far"):
        engine.remember(text, user_id="ann")
    both = engine.recall("query", user_id="ann", dry_run=True, profile="mememory").hits
    assert [one.text for one in moves(both[:1], both[1:])] == ["new", "gone"]


def test_the_copy_is_a_download(client):
    response = client.get("/ui/profiles/toml?profile=cmm")
    assert response.text == profiles.source("cmm")
    assert response.headers["content-disposition"] == 'attachment; filename="cmm.toml"'
    assert client.get("/ui/profiles/toml", params={"profile": "cmm", "toml": "a\r\n<b>"}).text == "a\n<b>"


def test_an_unknown_profile_and_a_path_are_refused(client):
    for name in ("nope", "/etc/x.toml", ""):
        assert client.get("/ui/profiles", params={"profile": name}).status_code == 422
        assert client.get("/ui/profiles/edit", params={"profile": name}).status_code == 422


def test_the_text_of_a_copy_is_escaped(client):
    text = client.get("/ui/profiles/edit", params={"toml": "</textarea><script>x</script>", "q": "<b>"}).text
    assert "<script>x" not in text
    assert "<b>" not in text


def test_a_read_key_edits_without_a_post_and_a_write_key_sees_nothing(keyed):
    reader = keyed("read")
    for path in ("/ui/profiles", "/ui/profiles?profile=cmm", "/ui/profiles/edit?q=x"):
        assert re.findall(r'method="post" action="([^"]+)"', reader.get(path).text) == ["/ui/logout"]
    writer = keyed("write")
    for path in ("/ui/profiles", "/ui/profiles/edit", "/ui/profiles/toml"):
        assert writer.get(path).status_code == 403


def test_a_bound_key_sees_the_hits_of_its_user_alone(keyed, engine):
    engine.remember("near secret of bob", user_id="bob")
    engine.remember("near", user_id="ann")
    text = keyed("read", user_id="ann").get("/ui/profiles/edit?q=query&profile=mememory").text
    assert "secret of bob" not in text
    assert 'dir="auto">near<' in text


@pytest.mark.slow
def test_the_copy_is_checked_while_typing(page):
    page.goto("/ui/profiles/edit?profile=zeromemory&q=What+language+does+Alice+like%3F", wait_until="networkidle")
    assert "The order is the same" in page.inner_text("#result")
    page.get_by_label("TOML of the copy").fill(profiles.source("zeromemory").replace("weight = 0.5", "weight = 700", 1))
    page.wait_for_selector("#result .error")
    assert "signal.similarity.weight" in page.inner_text("#check")
    assert_fits(page)
    assert_accessible(page)
    page.get_by_label("TOML of the copy").fill(
        profiles.source("zeromemory").replace("weight = 0.5", "weight = 0.01", 1)
    )
    page.wait_for_selector("#result .shifts")
    assert "toml=" in page.url
    page.get_by_label("Question").fill("Where does Alice live?")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"q=Where(\+|%20)does"))
    assert_fits(page)
    assert_accessible(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download TOML").click()
    assert download.value.suggested_filename == "zeromemory.toml"


@pytest.mark.slow
def test_the_copy_is_checked_without_scripts(plain_page):
    plain_page.goto("/ui/profiles/edit?profile=cmm")
    plain_page.get_by_label("TOML of the copy").fill("name = 1")
    plain_page.get_by_role("button", name="Check").click()
    assert "Not valid" in plain_page.inner_text("#result")
