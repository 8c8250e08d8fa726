"""The memory card: versions, links, conflicts, and the forms that change a memory."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

import salience
from bench.browser import dashboard
from dashboards import client_of, csrf_of
from salience.errors import InputError
from salience.server.ui import words
from salience.server.ui.views.memory import changed_fields, fields_of
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.slow

DAY = timedelta(days=1)


def forms(text):
    return [action for action in re.findall(r'method="post" action="([^"?]+)', text) if action != "/ui/logout"]


def send(client, path, **fields):
    """Post a form as the page at the path's memory would, and return the page that it leads to."""
    csrf = csrf_of(client, re.sub(r"/(forget|restore|edit|dismiss|confirm)$", "", path))
    response = client.post(path, data={"csrf": csrf, **fields})
    return client.get(response.headers["location"]) if response.status_code == 303 else response


def remember(engine, content="near", **fields):
    return engine.remember(content, user_id="ann", **fields).memory


def test_the_card_links_to_the_views_of_its_memory(client, engine):
    memory = remember(engine, "Ann likes tea")
    text = client.get(f"/ui/memory/{memory.id}").text
    for view in ("why", "tiers", "time", "graph"):
        (link,) = set(re.findall(rf'href="(/ui/{view}[?][^"]+)"', text))
        shown = client.get(link.replace("&amp;", "&")).text
        assert (f'value="{memory.id}"' if view == "why" else "Ann likes tea") in shown, view  # it asks for a question


def test_the_card_shows_fields_provenance_and_metadata(client, engine):
    memory = remember(
        engine, "Ann <b>likes</b> tea", tags=["drink"], metadata={"source": "<i>mail</i>"}, fact_key="ann.tea"
    )
    text = client.get(f"/ui/memory/{memory.short_id}").text
    assert "Ann &lt;b&gt;likes&lt;/b&gt; tea" in text
    assert "&lt;i&gt;mail&lt;/i&gt;" in text
    assert memory.id in text
    assert memory.content_hash in text
    assert "user:ann" in text
    assert "ann.tea" in text
    assert "<b>likes" not in text


def test_versions_show_a_word_diff_and_changed_fields_newest_first(client, engine, clock):
    memory = remember(engine, "Ann likes green tea", importance=0.3)
    clock.now += DAY
    engine.update(memory.id, content="Ann likes black tea", importance=0.6, reason="she said so", user_id="ann")
    text = client.get(f"/ui/memory/{memory.id}").text
    assert "Ann likes <del>green</del><ins>black</ins> tea" in text
    assert "<del>0.30</del>" in text
    assert "<ins>0.60</ins>" in text
    assert "she said so" in text
    assert text.index("Version 2") < text.index("Version 1")


def test_any_version_is_restored_and_one_click_undoes_it(client, engine):
    memory = remember(engine, "one")
    for content in ("two", "three"):
        engine.update(memory.id, content=content, user_id="ann")
    path = f"/ui/memory/{memory.id}"
    assert forms(client.get(path).text).count(f"{path}/restore") == 2
    page = send(client, f"{path}/restore", version="1")
    assert engine.get(memory.id, user_id="ann").content == "one"
    assert "Restored version 1, as version 4." in page.text
    [undo] = re.findall(
        r'class="flash".*?<form.*?action="([^"]+)".*?name="version" value="(\d+)"', page.text, re.DOTALL
    )
    assert undo == (f"{path}/restore", "3")
    send(client, undo[0], version=undo[1])
    assert engine.get(memory.id, user_id="ann").content == "three"


def test_forget_says_why_and_undo_brings_the_memory_back(client, engine):
    memory = remember(engine)
    path = f"/ui/memory/{memory.id}"
    page = send(client, f"{path}/forget", reason="asked to")
    assert engine.list(user_id="ann").memories == ()
    assert "This memory is forgotten." in page.text
    assert "asked to" in page.text
    assert set(forms(page.text)) == {f"{path}/restore"}
    page = send(client, f"{path}/restore")
    assert engine.get(memory.id, user_id="ann").status == "live"
    assert re.search(r'class="flash".*?action="[^"]+/forget"', page.text, re.DOTALL)


def test_edit_changes_only_what_differs(client, engine):
    memory = remember(engine, "a\nb", importance=0.333, tags=["x, y", "z"], metadata={"n": 1})
    path = f"/ui/memory/{memory.id}/edit"
    given = {**fields_of(memory), "content": "a\r\nb", "weight": "0.5", "version": "1"}
    page = send(client, path, **given)
    assert "Saved as version 2." in page.text
    now = engine.get(memory.id, user_id="ann")
    assert (now.weight, now.importance, now.content) == (0.5, 0.333, "a\nb")
    assert (now.tags, now.metadata) == (memory.tags, memory.metadata)
    assert "Nothing was changed." in send(client, path, **{**given, "version": "2"}).text
    assert engine.get(memory.id, user_id="ann").version == 2


@pytest.mark.parametrize(
    ("field", "value", "status", "said"),
    [
        ("importance", "high", 422, "Give a number"),
        ("metadata", "[1]", 422, "is not a JSON object"),
        ("weight", "7", 422, "weight"),
        ("ttl", "soon", 422, "ttl"),
        ("version", "1", 412, "is at version 2, not at 1"),
    ],
)
def test_a_refused_edit_shows_the_form_again_as_it_was(client, engine, field, value, status, said):
    memory = remember(engine)
    engine.update(memory.id, tags=["x"], user_id="ann")
    path, memory = f"/ui/memory/{memory.id}/edit", engine.get(memory.id, user_id="ann")
    page = send(client, path, **{**fields_of(memory), "content": "my <new> text", "version": "2", field: value})
    assert page.status_code == status
    assert said in page.text
    assert "my &lt;new&gt; text" in page.text
    assert engine.get(memory.id, user_id="ann").version == 2


def test_fields_of_the_form_read_back_as_given(engine):
    memory = remember(engine, ttl="7d", tags=["a"], metadata={"n": 1}, fact_key="ann.x")
    given = fields_of(memory)
    assert changed_fields(memory, given) == {}
    changed = {"tags": "b\n c \n", "fact_key": "", "ttl": "none", "metadata": "", "importance": "1", "kind": " rule "}
    assert changed_fields(memory, {**given, **changed}) == {
        "tags": ["b", "c"], "fact_key": None, "ttl": None, "metadata": {}, "importance": 1.0, "kind": "rule",
    }  # fmt: skip
    with pytest.raises(InputError):
        changed_fields(memory, {**given, "weight": ""})


def test_relations_are_shown_on_both_memories_with_their_evidence(client, engine, clock):
    old = remember(engine, "rome", fact_key="ann.city").id
    clock.now += DAY
    new = remember(engine, "oslo", fact_key="ann.city").id
    other = remember(engine, "elsewhere", fact_key="ann.country").id
    for shown, word, linked in ((old, "replaced by", "oslo"), (new, "replaces", "rome")):
        text = client.get(f"/ui/memory/{shown}").text
        found = re.search(r'<ol class="chain">.*?</ol>', text, re.DOTALL)[0]
        assert f">{word}</span>" in found
        assert "said by a caller" in found
        assert "fact ann.city" in found
        assert f'dir="auto">{linked}<' in found
    assert f"replaced on {clock.now.day} {clock.now:%b %Y} by {new[-8:]}" in client.get(f"/ui/memory/{old}").text
    assert f"by {new[-8:]}" in client.get("/ui/").text
    assert '<ol class="chain">' not in client.get(f"/ui/memory/{other}").text


@pytest.mark.parametrize("from_older", [True, False])
def test_a_relation_is_dismissed_decided_again_and_confirmed_by_forms(client, engine, clock, from_older):
    old = remember(engine, "rome", fact_key="ann.city").id
    clock.now += DAY
    new = remember(engine, "oslo", fact_key="ann.city").id
    here, other = (old, new) if from_older else (new, old)
    confirm = f'action="/ui/memory/{new}/confirm'
    assert confirm not in client.get(f"/ui/memory/{here}").text  # a caller gave the key
    page = send(client, f"/ui/memory/{here}/dismiss", other=other)
    assert "Dismissed: " in page.text
    assert engine.get(old, user_id="ann").replaced_by is None
    assert f'name="other" value="{other}"' in page.text  # of the button that undoes it
    send(client, f"/ui/memory/{here}/dismiss", other=other, undo="1")
    assert engine.get(old, user_id="ann").replaced_by.id == new
    assert confirm not in client.get(f"/ui/memory/{here}").text  # it is the caller's word again
    send(client, f"/ui/memory/{new}/confirm", older=old)
    assert engine.get(new, user_id="ann").supersedes == old


def test_the_edit_form_says_what_a_memory_replaces(client, engine):
    old, new = remember(engine, "rome"), remember(engine, "oslo")
    given = {**fields_of(new), "version": "1", "supersedes": old.id}
    assert f"It replaces {old.short_id}." in send(client, f"/ui/memory/{new.id}/edit", **given).text
    assert engine.get(new.id, user_id="ann").supersedes == old.id


def test_conflicts_are_shown_on_both_memories(target, clock):
    texts = [f"The request limit is {number} a minute" for number in (30, 40)]
    embedder = PlantedEmbedder(dict.fromkeys(texts, 0.9), axes=dict.fromkeys(texts, 1))
    with salience.connect(target, embedder=embedder, clock=clock) as engine:
        client, ids = client_of(dashboard(engine)), [remember(engine, text).id for text in texts]
        for id_, rival, age in ((ids[0], texts[1], "a newer"), (ids[1], texts[0], "an older")):
            text = client.get(f"/ui/memory/{id_}").text
            found = text[text.index('id="conflicts"') :]
            assert f"with {age} memory" in found
            assert rival in found
        engine.dismiss(*ids, user_id="ann")
        assert "No live memory contradicts" in client.get(f"/ui/memory/{ids[0]}").text


def test_the_card_lists_the_recalls_that_returned_it(client, engine, keyed):
    made = engine.remember("near", user_id="ann").memory
    engine.remember("far", user_id="ann")
    engine.recall("before the log", user_id="ann")
    card = f"/ui/memory/{made.id}"
    text = client.get(card).text
    assert "The recall log is off" in text
    assert "before the log" not in text
    engine.services = replace(engine.services, recall_log=timedelta(days=30))
    text = client.get(card).text
    assert "no question that returned this memory" in text
    engine.recall("query", user_id="ann")
    engine.recall("query <b>", user_id="bob")
    entry = engine.recalls(user_id="ann").recalls[0]
    text = client.get(card).text
    assert f"/ui/recalls/{entry.id}" in text
    assert "rank 1 of 2" in text
    assert "&lt;b&gt;" not in text
    assert "recall log is off" not in text
    assert "query" in keyed("read", user_id="ann").get(card).text
    for number in range(11):
        engine.recall(f"query {number}", user_id="ann", min_score=0)
    text = client.get(card).text
    assert "All logged recalls" in text
    listed = client.get(f"/ui/recalls?memory={made.id}").text
    assert listed.count('class="question"') == 12
    assert "of bob" not in listed


def test_a_bound_key_sees_the_recalls_of_its_user_alone(keyed, engine):
    engine.services = replace(engine.services, recall_log=timedelta(days=30))
    made = engine.remember("near", user_id=None).memory
    for user in ("ann", "bob"):
        engine.recall(f"query of {user}", user_id=user, min_score=0)
    text = keyed("read", user_id="ann").get(f"/ui/memory/{made.id}").text
    assert "query of ann" in text
    assert "query of bob" not in text


def test_a_read_key_sees_no_form_and_its_posts_are_refused(keyed, engine):
    memory = remember(engine)
    engine.update(memory.id, content="far", user_id="ann")
    client = keyed("read")
    path = f"/ui/memory/{memory.id}"
    text = client.get(path).text
    assert forms(text) == []
    assert "/edit" not in text
    csrf = csrf_of(client, path)
    for action in ("forget", "restore", "edit"):
        data = {"csrf": csrf, "version": "1", **(fields_of(memory) if action == "edit" else {})}
        assert client.post(f"{path}/{action}", data=data).status_code == 403
    assert engine.get(memory.id, user_id="ann").version == 2


def test_a_bound_key_sees_its_user_and_gets_no_forms_for_shared_memories(keyed, engine):
    own, foreign = remember(engine), engine.remember("secret", user_id="bob").memory
    shared = engine.remember("shared by all").memory
    client = keyed("read", "write", user_id="ann")
    assert client.get(f"/ui/memory/{foreign.id}").status_code == 404
    assert forms(client.get(f"/ui/memory/{own.id}").text)
    assert forms(client.get(f"/ui/memory/{shared.id}").text) == []
    recent = client.get("/ui/memory").text
    assert "shared by all" in recent
    assert "secret" not in recent


def test_long_histories_have_pages_and_a_long_text_stays_small(client, engine):
    memory = remember(engine, "word " * 13_000)
    for number in range(30):
        engine.update(memory.id, content=f"{number} " + "word " * 12_900, user_id="ann")
    response = client.get(f"/ui/memory/{memory.id}")
    assert len(response.content) < 300_000
    assert "Version 31" in response.text
    assert "Version 11<" not in response.text
    [older] = re.findall(r'href="([^"]+before=[^"]+)"', response.text)
    assert "Version 1<" in client.get(older.replace("&amp;", "&")).text


def test_unknown_ids_and_bad_parameters_are_errors(client, engine):
    memory = remember(engine)
    assert client.get("/ui/memory/00000000").status_code == 404
    assert client.get(f"/ui/memory/{memory.id}?before=x").status_code == 422
    assert client.get(f"/ui/memory?id={memory.short_id}").headers["location"] == f"/ui/memory/{memory.short_id}"
    assert "No memories yet" not in client.get("/ui/memory").text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a b c", "a x c", [("same", "a "), ("gone", "b"), ("new", "x"), ("same", " c")]),
        ("a b c d", "a x y d", [("same", "a "), ("gone", "b c"), ("new", "x y"), ("same", " d")]),
        ("closed on Mondays", "closed on Mondays, too", [("same", "closed on Mondays"), ("new", ", too")]),
        ("", "a", [("new", "a")]),
        (
            "ليلى تعمل يوم الجمعة",
            "ليلى تعمل يوم السبت",
            [("same", "ليلى تعمل يوم "), ("gone", "الجمعة"), ("new", "السبت")],
        ),
    ],
)
def test_a_difference_is_by_words(old, new, expected):
    assert words.diff(old, new) == expected


@pytest.mark.parametrize("size", [10, 5_000])
def test_the_parts_of_a_difference_make_both_texts(size):
    old = "\n".join(f"line {n} of the text" for n in range(size))
    new = old.replace("line 7 ", "row 7 ").replace("line 3 of", "line 3 from")
    parts = [part for part in words.diff(old, new) if part[0] != "cut"]
    if size == 10:
        assert "".join(text for kind, text in parts if kind != "new") == old
        assert "".join(text for kind, text in parts if kind != "gone") == new
    assert {kind for kind, _ in parts} >= {"gone", "new"}
