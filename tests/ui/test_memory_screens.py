"""The memory card, time and tiers in Chromium: dark and light, narrow and wide, by keyboard, without JavaScript."""

from __future__ import annotations

import re

import pytest

from bench.browser import dashboard, served
from dashboards import NARROW, assert_accessible, assert_fits

pytestmark = pytest.mark.slow


def card_of(page, words):
    """Go to the card of the memory with some words."""
    page.goto(f"/ui/?f_status=live&f_status=forgotten&f_status=expired&q={words}", wait_until="networkidle")
    page.locator(".results .meta a").first.click()
    page.wait_for_url("**/ui/memory/*")
    page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("words", ["Pixel", "Lisbon", "incident+review", "Sale", "tabs", "rotated"])
def test_a_card_is_accessible_and_fits(page, words):
    card_of(page, words)
    assert_fits(page)
    assert_accessible(page)
    if words == "Pixel":
        page.get_by_role("link", name="Edit").click()
        page.wait_for_url("**/edit*")
        assert_fits(page)
        assert_accessible(page)


@pytest.mark.parametrize(
    "path",
    [
        "/ui/time?fact=alice.city&as_of=2026-03-01",
        "/ui/time?q=Where+does+Alice+live&as_of=2026-04-01",
        "/ui/tiers?days=365",
    ],
)
def test_time_and_tiers_are_accessible_and_fit(page, path):
    page.goto(path, wait_until="networkidle")
    assert_fits(page)
    assert_accessible(page)


@NARROW
def test_the_slider_moves_by_keyboard(page):
    page.goto("/ui/time?fact=alice.city", wait_until="networkidle")
    assert "Alice moved to Porto" in page.inner_text(".validity:not(.absent)")
    page.locator("#day").focus()
    page.keyboard.press("Home")
    page.wait_for_url("**as_of=**")
    page.wait_for_load_state("networkidle")
    assert "Alice lives in Lisbon" in page.inner_text(".validity:not(.absent)")
    page.get_by_role("link", name="Next change").click()
    page.wait_for_load_state("networkidle")
    assert "as_of=" in page.url


@NARROW
def test_the_question_of_forget_leaves_edit_as_high_as_it_was(page):
    card_of(page, "Pixel")
    edit = page.get_by_role("link", name="Edit")
    before = edit.bounding_box()["height"]
    page.locator("summary", has_text="Forget").click()
    assert edit.bounding_box()["height"] == before
    assert_fits(page)


@pytest.mark.parametrize("path", ["/ui/", "/ui/memory/{id}"])
def test_code_keeps_its_lines_and_indentation(narrow_page, engine, path):
    code = "def retry(call):\n    try:\n        return call()\n    except OSError:\n\tpass"
    memory = engine.remember(code, user_id="ann").memory
    with served(dashboard(engine)) as url:
        narrow_page.goto(f"{url}{path.format(id=memory.id)}", wait_until="networkidle")
        narrow_page.locator("main").evaluate(
            "(main) => main.querySelectorAll('.clamp').forEach((one) => { one.open = true; })"
        )
        for text in narrow_page.locator(".text").all():
            assert text.inner_text() == code
        assert_fits(narrow_page)


def test_edit_undo_forget_and_undo_by_keyboard(fresh_page):
    card_of(fresh_page, "Pixel")
    fresh_page.get_by_role("link", name="Edit").focus()
    fresh_page.keyboard.press("Enter")
    fresh_page.wait_for_url("**/edit*")
    text = fresh_page.get_by_label("Text")
    before = text.input_value()
    text.fill(f"{before} and Bit")
    text.press("Tab")
    fresh_page.get_by_label("Reason, optional").fill("a third cat")
    fresh_page.keyboard.press("Enter")
    fresh_page.wait_for_url(re.compile(r"/ui/memory/\w+\?"))
    assert fresh_page.locator(".versions ins").first.inner_text().strip() == "and Bit"
    assert_accessible(fresh_page)
    fresh_page.get_by_role("button", name="Undo").press("Enter")
    fresh_page.wait_for_load_state("networkidle")
    assert fresh_page.locator("article .text.large").inner_text() == before
    fresh_page.locator("summary", has_text="Forget").press("Enter")
    assert_accessible(fresh_page)
    fresh_page.get_by_label("Reason, optional").press("Enter")
    fresh_page.wait_for_load_state("networkidle")
    assert "This memory is forgotten." in fresh_page.inner_text("main")
    fresh_page.get_by_role("button", name="Undo").press("Enter")
    fresh_page.wait_for_load_state("networkidle")
    assert "This memory is forgotten." not in fresh_page.inner_text("main")


@NARROW
def test_curves_are_drawn_on_a_canvas_and_without_scripts_as_svg(page, plain_page):
    page.goto("/ui/tiers", wait_until="networkidle")
    assert page.locator(".plot canvas").count() == 3
    assert page.locator(".plot svg").count() == 0
    plain_page.goto("/ui/tiers")
    assert plain_page.locator(".plot svg").count() == 3
    plain_page.goto("/ui/time?fact=alice.city")
    plain_page.locator("#day").evaluate("(day) => { day.value = day.min; }")
    plain_page.get_by_role("button", name="Go to this day").click()
    assert "as_of=" in plain_page.url
