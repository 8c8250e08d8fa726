"""The explorer: filters, sorting, pages and search."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest

from bench.browser import dashboard
from dashboards import client_of

pytestmark = pytest.mark.slow

SORTS = ("id", "created_at", "updated_at", "accessed_at", "importance", "weight", "access_count")


def contents(text):
    return re.findall(r'class="text" dir="auto">([^<]*)<', text)


def store(engine, count=120):
    drafts = [
        {"content": f"memory {number}", "importance": number % 7 / 10, "weight": 1 - number % 5 / 10, "user_id": "ann"}
        for number in range(count)
    ]
    engine.remember_many(drafts)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", SORTS)
def test_pages_show_every_memory_once_in_order(client, engine, sort, order):
    store(engine)
    found, path = [], f"/ui/?sort={sort}&order={order}"
    for size in (50, 50, 20):
        text = client.get(path).text
        page = contents(text)
        assert len(page) == size
        found += page
        path = (re.findall(r'href="([^"]+)" rel="next"', text) or [""])[0].replace("&amp;", "&")
    assert path == ""
    assert len(set(found)) == 120
    if sort in ("importance", "weight"):
        by = {f"memory {n}": (n % 7 / 10 if sort == "importance" else 1 - n % 5 / 10) for n in range(120)}
        values = [by[content] for content in found]
        assert values == sorted(values, reverse=order == "desc")


def test_filters_add_up_and_a_link_removes_each(client, engine):
    engine.remember("one", user_id="ann", tags=["x"], kind="rule")
    engine.remember("two", user_id="ann", tags=["y"])
    engine.remember("three", user_id="bob", tags=["x"])
    assert set(contents(client.get("/ui/?f_user_id=ann").text)) == {"one", "two"}
    assert contents(client.get("/ui/?f_user_id=ann&f_tag=x").text) == ["one"]
    assert set(contents(client.get("/ui/?f_kind=rule&f_kind=fact&f_tag=x").text)) == {"one", "three"}
    facets = client.get("/ui/facets?f_user_id=ann&f_tag=x").text
    assert "<strong>1 memory</strong>" in facets
    assert 'href="/ui/facets' not in facets
    assert 'href="/ui/?f_tag=x"' in facets
    assert 'href="/ui/?f_user_id=ann"' in facets


def test_forgotten_memories_are_one_filter_away(client, engine):
    memory = engine.remember("gone", user_id="ann").memory
    engine.forget(memory.id, user_id="ann")
    assert contents(client.get("/ui/").text) == []
    assert contents(client.get("/ui/?f_status=forgotten").text) == ["gone"]


def test_a_replaced_memory_is_marked(client, engine):
    for text in ("I live in Berlin", "I moved to Lisbon"):
        engine.remember(text, user_id="ann")
    old, new = engine.list(user_id="ann").memories
    row = client.get("/ui/?q=Berlin").text
    assert f">{old.replaced_by}</span>" in row
    assert f"by {new.short_id}" in str(old.replaced_by)
    assert "replaced on" not in client.get("/ui/?q=Lisbon").text


def test_words_are_searched_literally(client, engine):
    engine.remember("costs 100% more", user_id="ann")
    engine.remember("costs 1000 more", user_id="ann")
    assert contents(client.get("/ui/", params={"q": "100%"}).text) == ["costs 100% more"]


def test_a_question_is_answered_with_scores_and_counts_no_access(client, engine):
    ids = [engine.remember(text, user_id="ann").memory.id for text in ("far", "near")]
    text = client.get("/ui/", params={"q": "query", "mode": "recall"}).text
    assert contents(text) == ["near", "far"]
    assert "best first" in text
    assert "Confidence" in text
    assert [engine.get(id_, user_id="ann").access_count for id_ in ids] == [0, 0]


def test_decay_is_shown_under_the_profile_of_the_server_or_a_chosen_one(client, engine, planted):
    engine.remember("one", user_id="ann")
    assert "Decay, 30 days" not in client.get("/ui/").text  # the ranking of salience does not depend on age
    assert "in 30 days under memorysync" in client.get("/ui/?decay=memorysync").text
    fading = client_of(dashboard(planted(profile="zeromemory")))
    assert "in 30 days under zeromemory" in fading.get("/ui/").text
    assert "Decay, 30 days" not in fading.get("/ui/?decay=none").text


def test_created_is_the_time_of_the_text_and_stored_that_of_the_write(client, engine, clock):
    memory = engine.remember("long ago", user_id="ann", created_at=clock.now - timedelta(days=400)).memory
    assert re.search(r'data-label="Created"><[^>]*>1 year ago<', client.get("/ui/").text)
    assert 'data-label="Stored"' not in client.get("/ui/").text
    card = client.get(f"/ui/memory/{memory.id}").text
    assert re.search(r"<dt>Created</dt><dd><[^>]*>1 year ago<", card)
    assert re.search(r"<dt>Stored</dt><dd><[^>]*>just now<", card)
    assert "Created <time" in client.get("/ui/tiers").text


def test_an_empty_store_says_how_to_fill_it(client):
    assert "salience remember" in client.get("/ui/").text
    assert "No memory matches" in client.get("/ui/?q=nothing").text


def test_a_question_that_no_text_contains_leads_to_its_answer(client, engine):
    engine.remember("near", user_id="ann")
    text = client.get("/ui/?q=What+is+near%3F").text
    assert "No memory contains all of these words." in text
    [link] = re.findall(r'href="([^"]*mode=recall[^"]*)">Search by meaning', text)
    assert "near" in contents(client.get(unescape(link)).text)[0]


def test_a_page_of_long_memories_stays_small(client, engine):
    engine.remember_many([{"content": f"{number} " + "word " * 12_000, "user_id": "ann"} for number in range(50)])
    response = client.get("/ui/")
    assert len(response.content) < 300_000
    assert len(contents(response.text)) == 50


def test_a_read_key_sees_no_form_but_the_search_and_the_log_out(keyed):
    text = keyed("read").get("/ui/").text
    assert re.findall(r'method="post" action="([^"]+)"', text) == ["/ui/logout"]
