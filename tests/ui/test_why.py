"""Why: the path of a memory, the number that decided, and fixes that work; from a wrong answer in four clicks."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboards import assert_accessible, assert_fits, csrf_of
from salience.rank import profiles
from salience.rank.profile import parse
from salience.records import Part, ScoreDetail
from salience.server.ui.views.profiles import with_figures
from salience.server.ui.views.why import weights_to_try


def detail(sums, factors=()):
    parts = tuple(Part(name, raw, weight, raw * weight, "sum") for name, raw, weight in sums)
    parts += tuple(Part(name, raw, weight, raw**weight, "product") for name, raw, weight in factors)
    made = ScoreDetail(parts, 0.0)
    return ScoreDetail(parts, made.recompute())


def reweighed(one, label, weight):
    sums = [(p.signal, p.raw, weight if p.signal == label else p.weight) for p in one.parts if p.combine == "sum"]
    factors = [
        (p.signal, p.raw, weight if p.signal == label else p.weight) for p in one.parts if p.combine == "product"
    ]
    return detail(sums, factors).final


@pytest.mark.parametrize(
    ("own", "other", "labels"),
    [
        (
            ([("a", 0.9, 0.1), ("b", 0.2, 0.5)], [("f", 0.9, 0.5)]),
            ([("a", 0.3, 0.1), ("b", 0.6, 0.5)], [("f", 0.8, 0.5)]),
            {"a", "b"},
        ),
        (([("a", 0.5, 1.0)], [("f", 0.9, 1.0)]), ([("a", 0.6, 1.0)], [("f", 0.85, 1.0)]), {"f"}),
        (([("a", 0.5, 1.0)], ()), ([("a", 0.6, 1.0)], ()), set()),
    ],
)  # fmt: skip
def test_a_suggested_weight_puts_one_score_above_the_other(own, other, labels):
    own, other = detail(*own), detail(*other)
    assert own.final < other.final
    tried = weights_to_try(own, other)
    assert {label for label, _, _ in tried} == labels
    for label, old, new in tried:
        assert old != new
        assert reweighed(own, label, new) > reweighed(other, label, new)


def why(client, memory_id, **parameters):
    response = client.get("/ui/why", params={"q": "query", "memory": memory_id, **parameters})
    assert response.status_code == 200, response.text
    return response.text


def sent(client, text, do):
    """Send the form of a fix, and return the page after it."""
    form = next(one for one in re.findall(r'<form method="post".*?</form>', text, re.DOTALL) if f'value="{do}"' in one)
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)) | {"do": do}
    action = html.unescape(re.search(r'action="([^"]+)"', form)[1])
    if "<textarea" in form:
        fields["content"] = "near"
    response = client.post(action, data=fields)
    assert response.status_code == 303, response.text
    return client.get(response.headers["location"]).text


def test_a_memory_past_the_limit_has_its_path_the_number_and_the_limit(client, engine):
    engine.remember("near", user_id="ann")
    far = engine.remember("far", user_id="ann").memory.id
    text = why(client, far, profile="zeromemory", limit="1")
    assert "Why it is not returned" in text
    assert re.search(
        r'class="fell"><span class="stage">trim</span> <span class="outcome">fell</span><span class="number"', text
    )
    assert "rank 2 of 2, limit 1" in text
    assert "would return it at rank 1. As it is, a limit of 2 returns it." in text
    assert "is first with" in text
    link = html.unescape(re.search(r'href="([^"]+)">Ask for 2 hits in the playground', text)[1])
    assert "limit=2" in link
    assert ">far</p>" in client.get(link).text
    assert "Why it is returned" in why(client, far, profile="zeromemory", limit="2")


def test_the_weight_that_is_suggested_returns_the_memory(client, engine):
    engine.remember("near", user_id="ann", importance=0.5)
    far = engine.remember("far", user_id="ann", importance=0.7).memory.id
    text = why(client, far, profile="zeromemory", limit="1")
    link = html.unescape(re.search(r'href="([^"]+)">Try this weight', text)[1])
    found = client.get(link).text
    assert ">far</p>" in found[found.index('class="hits"') : found.index("Why is this here")]


def test_a_changed_figure_leads_to_a_copy_of_the_profile_that_has_it(client, engine):
    engine.remember("near", user_id="ann", importance=0.5)
    far = engine.remember("far", user_id="ann", importance=0.7).memory.id
    text = why(client, far, profile="zeromemory", limit="1")
    old, new = re.search(r"of ([\d.]+) instead of ([\d.]+)", text).groups()[::-1]
    link = html.unescape(re.search(r'href="([^"]+)">Edit a copy of the profile', text)[1])
    assert link.startswith("/ui/profiles/edit?")
    found = client.get(link).text
    assert "Valid." in found
    assert "up 1" in found
    toml = parse_qs(urlsplit(link).query)["toml"][0]
    before, after = profiles.load("zeromemory"), parse(toml, "the copy")
    [(label, weight)] = set(after.weights("").items()) - set(before.weights("").items())
    assert (before.weights("")[label], weight) == (float(old), float(new))


def test_a_lower_least_score_leads_to_a_copy_of_the_profile(client, engine):
    engine.remember("near", user_id="ann")
    other = engine.remember("something else", user_id="ann").memory.id
    text = why(client, other, profile="salience")
    assert "A min_score of" in text
    link = html.unescape(re.search(r'href="([^"]+)">Edit a copy of the profile', text)[1])
    found = client.get(link).text
    assert "Valid." in found
    assert "something else" in found
    assert "Edit a copy of the profile" not in why(client, other, profile="salience", min_score="0.3")


def test_figures_of_a_profile_change_in_place():
    toml = '# a\nname = "x"\n\n[signal.similarity] # b\nweight = 0.5 # c\n\n[signal.lexical]\nk1 = 0.9'
    changed = with_figures(toml, {"signal.similarity.weight": 0.25, "signal.lexical.weight": 2.0, "min_score": 0.1})
    assert changed == (
        'min_score = 0.1\n# a\nname = "x"\n\n[signal.similarity] # b\nweight = 0.25 # c\n\n'
        "[signal.lexical]\nweight = 2\nk1 = 0.9"
    )
    for name in profiles.NAMES:
        profile = profiles.load(name)
        figures = {f"signal.{term.signal}.weight": 0.123 for term in profile.terms}
        assert set(parse(with_figures(profile.toml, figures), name).weights("").values()) == {0.123}


def test_an_edit_of_the_importance_returns_the_memory(client, engine):
    low = engine.remember("near", user_id="ann", importance=0.01).memory.id
    text = why(client, low, profile="memorysync")
    assert "importance floor" in text
    text = sent(client, text, "edit")
    assert "Changed." in text
    assert "Why it is returned" in text
    assert engine.history(low, user_id="ann")[-1].memory.reason == "dashboard: query"


def test_correct_replace_and_forget(client, engine):
    wrong = engine.remember("far", user_id="ann", project="p", tags=["t"]).memory.id
    assert "Corrected." in sent(client, why(client, wrong), "correct")
    assert engine.get(wrong, user_id="ann", project="p").content == "near"
    assert "Stored." in sent(client, why(client, wrong), "replace")
    [hit] = engine.recall("query", user_id="ann", project="p", dry_run=True)
    assert (hit.memory.supersedes, hit.memory.tags) == (wrong, ("t",))
    text = sent(client, why(client, hit.memory.id), "forget")
    assert "Forgotten." in text
    assert 'class="badge status">forgotten' in text


@pytest.mark.parametrize("fields", [{"fact_key": "k"}, {"supersedes": True}])
def test_dismissing_the_relation_puts_the_older_memory_first(client, engine, fields):
    old = engine.remember("near", user_id="ann", **({"fact_key": "k"} if "fact_key" in fields else {})).memory.id
    new = {"supersedes": old} if "supersedes" in fields else fields
    newer = engine.remember("far", user_id="ann", **new).memory.id
    text = why(client, old)
    assert re.search(rf">{newer[-8:]}</a> replaces <[^>]*>{old[-8:]}</a>", text)
    assert "said by a caller" in text
    assert "Confirm" not in text  # the caller did
    text = sent(client, text, "dismiss")
    assert "Dismissed." in text
    assert "Why it is returned" in text
    assert engine.recall("query", user_id="ann", dry_run=True)[0].memory.id == old
    assert "Why it is not returned" in sent(client, text, "undo")


def test_a_hit_that_is_not_first_shows_the_relation_which_one_click_confirms_or_dismisses(client, engine):
    berlin, rome = (engine.remember(f"I live in {city}", user_id="ann").memory.id for city in ("Berlin", "Rome"))
    question = {"q": "Where do I live?"}
    text = why(client, berlin, **question)
    assert "What would put it first" in text
    assert "said by the fact key" in text
    assert "does not replace it, the button below would put it at rank 1." in text
    confirmed = sent(client, text, "supersede")
    assert "Confirmed." in confirmed
    assert [one.memory.id for one in engine.recall(question["q"], user_id="ann", dry_run=True)] == [rome]
    assert "Undone." in sent(client, confirmed, "undo")
    dismissed = sent(client, why(client, berlin, **question), "dismiss")
    assert "Dismissed." in dismissed
    assert engine.get(rome, user_id="ann").replaced_ids == ()
    assert "Undone." in sent(client, dismissed, "undo")
    assert engine.get(rome, user_id="ann").replaced_ids == (berlin,)


def test_forget_is_not_beside_advice_to_return_a_memory(client, engine):
    first, second = (engine.remember(text, user_id="ann").memory.id for text in ("near", "far"))
    assert 'value="forget"' in why(client, first)  # the wrong answer, perhaps
    for advised in (why(client, second), why(client, second, limit="1"), why(client, second, min_score="0.9")):
        assert "Not the right answer?" not in advised
        assert 'value="forget"' not in advised


def test_a_search_finds_memories_of_any_status_by_words_or_id(client, engine):
    gone = engine.remember("far away", user_id="ann").memory
    engine.forget(gone.id, user_id="ann")
    engine.remember("near", user_id="ann")
    text = client.get("/ui/why?q=query&find=far").text
    assert gone.short_id in text
    assert ">near</" not in text
    assert "No memory of this scope" in client.get("/ui/why?q=query&find=nothing").text
    for one in (gone.id, gone.short_id):
        moved = client.get(f"/ui/why?q=query&find={one}")
        assert moved.headers["location"] == f"/ui/why?q=query&memory={one}"
    assert "was forgotten on" in why(client, gone.id)
    assert "Ask a question" in client.get("/ui/why").text
    assert client.get("/ui/why", params={"q": "query", "memory": "0" * 32}).status_code == 404


def test_a_form_needs_its_token_and_known_words(client, engine):
    memory = engine.remember("near", user_id="ann").memory.id
    good = {"csrf": csrf_of(client, f"/ui/why?q=query&memory={memory}"), "id": memory, "do": "edit"}
    assert client.post("/ui/why?q=query", data={**good, "csrf": "0"}).status_code == 403
    assert client.post("/ui/why?q=query", data={**good, "do": "erase"}).status_code == 422
    assert client.post("/ui/why?q=query", data={**good, "importance": "much"}).status_code == 422
    assert client.post("/ui/why?q=query", data={**good, "importance": "0.9"}).status_code == 303
    assert engine.get(memory, user_id="ann").importance == 0.9


def test_a_read_key_sees_no_form_and_cannot_mend(keyed, engine):
    memory = engine.remember("near", user_id="ann", importance=0.01).memory.id
    client = keyed("read")
    text = why(client, memory, profile="memorysync")
    assert re.findall(r'method="post" action="([^"]+)"', text) == ["/ui/logout"]
    fields = {"csrf": csrf_of(client), "id": memory, "do": "forget"}
    assert client.post("/ui/why?q=query", data=fields).status_code == 403


def test_a_bound_key_sees_its_user_alone(keyed, engine):
    bobs = engine.remember("near", user_id="bob").memory.id
    shared = engine.remember("far").memory.id
    client = keyed("read", "write", user_id="ann")
    assert client.get("/ui/why", params={"q": "query", "memory": bobs}).status_code == 404
    assert "near" not in re.findall(r'dir="auto">([^<]*)<', client.get("/ui/why?q=query&find=near").text)
    assert re.findall(r'method="post" action="([^"]+)"', why(client, shared)) == ["/ui/logout"]


def test_markup_is_text(client, engine):
    memory = engine.remember("<script>alert(1)</script>", user_id="ann").memory.id
    for text in (why(client, memory), client.get("/ui/why?q=%3Ci%3E&find=script").text):
        assert "<script>alert" not in text
        assert "<i>" not in text


@pytest.mark.slow
def test_a_wrong_answer_is_mended_in_four_clicks(fresh_page):
    page, clicks = fresh_page, []

    def click(locator):
        clicks.append(locator)
        locator.click()

    page.goto("/ui/playground?q=What+language+does+Alice+like%3F&limit=1&profile=zeromemory", wait_until="networkidle")
    hit = page.locator(".hit .text").inner_text()
    assert "Rust for backend" not in hit
    page.get_by_label("Words of the memory, or its id").fill("now prefers Rust")
    click(page.get_by_role("button", name="Find"))
    click(page.get_by_role("link", name="Explain"))
    assert page.locator(".path .fell .number").inner_text().startswith("rank ")
    assert "a limit of " in page.locator(".counterfactual").inner_text()
    click(page.get_by_role("link", name=re.compile("in the playground")).first)
    page.wait_for_url("**/ui/playground**")
    assert "Alice now prefers Rust for backend work" in page.inner_text(".hits")
    assert len(clicks) <= 4


@pytest.mark.slow
def test_a_wrong_hit_is_replaced_in_two_clicks(fresh_page):
    page = fresh_page
    wrong = "Bob is allergic to peanuts"
    every = "limit=50&min_score=0"  # whatever the rank of the hit, before and after
    page.goto(f"/ui/playground?q=What+may+Bob+not+eat%3F&user_id=bob&{every}", wait_until="networkidle")
    page.locator(".hit", has_text=wrong).get_by_role("link", name="Why is this here?").click()
    page.get_by_label("Text").fill(f"{wrong}, and to almonds")
    page.get_by_role("button", name="Save as a new version").click()
    page.get_by_role("status").wait_for()
    assert "Corrected." in page.get_by_role("status").inner_text()
    page.get_by_role("link", name="Back to the playground").click()
    assert f"{wrong}, and to almonds" in page.inner_text(".hits")


@pytest.mark.slow
def test_the_explanation_is_accessible_and_fits(page):
    page.goto("/ui/playground?q=What+language+does+Alice+like%3F", wait_until="networkidle")
    page.get_by_role("link", name="Why not?").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/why**")
    assert page.locator(".path .fell").count() == 1
    assert_fits(page)
    assert_accessible(page)
    page.goto("/ui/why?q=What+language+does+Alice+like%3F&find=Alice", wait_until="networkidle")
    assert_fits(page)
    assert_accessible(page)
