"""The graph around a memory or an entity."""

from __future__ import annotations

import re

import pytest

from dashboards import assert_accessible, assert_fits
from salience.server.ui.neighbourhood import MOST, RINGS, edges_of, of_entity, of_memory, places, within

ANN = {"user_id": "ann"}


def test_a_memory_has_its_links_entities_and_session(client, engine):
    old = engine.remember("first <i>", entities=["Oslo"], **ANN).memory
    new = engine.remember("second", entities=["Oslo", "<b>"], supersedes=old.id, session_id="talk", **ANN).memory
    text = client.get(f"/ui/graph?memory={new.id}").text
    for part in ("replaces", "Oslo", "talk", "first &lt;i&gt;", "&lt;b&gt;", f"memory={old.id}"):
        assert part in text
    assert "<i>" not in text
    assert "replaced by" in client.get(f"/ui/graph?memory={old.id}").text


def test_an_entity_with_many_memories_is_no_hairball(client, engine):
    engine.remember_many([
        {"content": f"memory {number}", "entities": ["Hub", f"E{number}", f"F{number}", f"G{number}"], **ANN}
        for number in range(60)
    ])  # fmt: skip
    text = client.get("/ui/graph?entity=Hub").text
    assert "48 more" in text
    [count] = re.findall(r"(\d+) nodes? and", text)
    assert int(count) <= MOST + 1
    assert len(text) < 300_000
    [link] = set(re.findall(r'href="([^"]+)"[^>]*>48 more<', text))
    listed = client.get(link.replace("&amp;", "&") + "&counts=1").text
    assert "60 memories" in listed
    assert len(set(re.findall(r"memory \d+<", listed))) == 50  # a page of them


def test_the_explorer_lists_the_memories_of_an_entity(client, engine):
    engine.remember("near", entities=["Oslo"], **ANN)
    engine.remember("far", entities=["Bergen <b>"], **ANN)
    for mode in ("", "&q=query&mode=recall"):
        text = client.get(f"/ui/?counts=1&f_entity=Oslo{mode}").text
        assert ">near</p>" in text
        assert ">far</p>" not in text
        assert "1 memory" in text
        assert "Clear filters" in text
    text = client.get("/ui/?counts=1&f_entity=Bergen+%3Cb%3E").text
    assert ">far</p>" in text
    assert "Bergen &lt;b&gt;" in text


def test_the_first_page_lists_entities_by_number(client, engine):
    assert "No entities yet" in client.get("/ui/graph").text
    for number in range(3):
        engine.remember(f"memory {number}", entities=["Oslo"] if number else ["Oslo", "Bergen"], **ANN)
    text = client.get("/ui/graph").text
    assert text.index("entity=Oslo") < text.index("entity=Bergen")
    assert "entity=Oslo" not in client.get("/ui/graph?q=berg").text


def test_a_bound_key_sees_its_user_alone(keyed, engine):
    secret = engine.remember("secret", entities=["Oslo", "Hidden"], user_id="bob").memory
    engine.remember("mine", entities=["Oslo"], **ANN)
    client = keyed("read", **ANN)
    text = client.get("/ui/graph").text + client.get("/ui/graph?entity=Oslo").text
    assert "mine" in text
    assert "secret" not in text
    assert "Hidden" not in text
    assert client.get(f"/ui/graph?memory={secret.id}").status_code == 404
    assert re.findall(r'method="post" action="([^"]+)"', text) == ["/ui/logout"] * 2


def test_nodes_are_on_two_rings_and_edges_have_types(engine):
    one = engine.remember("one", entities=["A", "B"], **ANN).memory
    two = engine.remember("two", entities=["A"], supersedes=one.id, **ANN).memory
    first = [of_memory(one, 0, None), of_entity("A", 1, one.id), of_entity("B", 1, one.id)]
    nodes = within(first, {"entity:A": [of_memory(two, 2, "entity:A")]}, {"entity:A": 5})
    assert [node.label for node in nodes] == ["one", "A", "B", "two", "4 more"]
    kinds = {(edge.source, edge.target): edge.kind for edge in edges_of(nodes)}
    assert kinds[two.id, one.id] == "replaces"
    assert kinds[one.id, "entity:B"] == "names"
    found = places(nodes)
    assert found[one.id] == (0, 0)
    for node, (width, height) in (("entity:A", RINGS[0]), (two.id, RINGS[1])):
        x, y = found[node]
        assert abs((x / width) ** 2 + (y / height) ** 2 - 1) < 0.01
    assert len(set(found.values())) == len(nodes)


@pytest.mark.slow
def test_the_list_marks_and_opens_nodes_by_keyboard(page):
    page.goto("/ui/graph?entity=Alice", wait_until="networkidle")
    assert page.locator(".graph-canvas canvas").count() > 0
    assert_accessible(page)
    assert_fits(page)
    page.locator(".graph-list a", has_text="Alice lives in Lisbon").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/graph?memory=*")
    assert "replaced by Alice moved to Porto in March" in page.inner_text(".graph-list")
    assert_accessible(page)


@pytest.mark.slow
def test_the_graph_is_a_list_without_scripts(plain_page):
    plain_page.goto("/ui/graph")
    plain_page.get_by_role("link", name="Alice", exact=True).click()
    plain_page.locator(".graph-list a", has_text="Alice lives in Lisbon").first.click()
    assert "names" in plain_page.inner_text(".graph-list")
    assert not plain_page.locator(".graph-canvas").is_visible()
