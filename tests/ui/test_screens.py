"""Every view in Chromium: dark and light, narrow and wide, by keyboard, without JavaScript."""

from __future__ import annotations

import pytest

from bench.browser import dashboard, served
from bench.screenshots import PAGES
from dashboards import NARROW, assert_accessible, assert_fits
from salience.server.auth import create_key

pytestmark = pytest.mark.slow
STATIC = sorted({path for path in PAGES.values() if "{" not in path})


@pytest.mark.parametrize("path", STATIC)
def test_a_view_is_accessible_and_fits(page, path):
    page.goto(path, wait_until="networkidle")
    assert page.locator("h1").count() == 1
    assert_fits(page)
    assert_accessible(page)


@NARROW
def test_the_answers_of_the_explorer_fit_at_every_width(page):
    page.goto("/ui/?mode=recall&q=What+language+does+Alice+like%3F&decay=mememory", wait_until="networkidle")
    for width in (390, 768, 1024, 1330, 1440, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        assert_fits(page)


@NARROW
def test_filters_are_loaded_and_a_click_filters(page):
    page.goto("/ui/", wait_until="networkidle")
    facet = page.locator(".facet", has=page.locator("summary", has_text="Project"))
    if facet.get_attribute("open") is None:
        facet.locator("summary").click()
    facet.locator("a", has_text="bistro").click()
    page.wait_for_url("**/ui/?f_project=bistro*")
    page.locator(".facet a.chosen", has_text="bistro").wait_for()  # the filters load after the page
    assert "The bistro is closed on Mondays" in page.inner_text(".results")
    assert "Alice" not in page.inner_text(".results")


@NARROW
def test_the_search_works_by_keyboard(page):
    page.goto("/ui/", wait_until="networkidle")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("input[type=search]").focus()
    page.keyboard.type("allergic")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=allergic**")
    assert "peanuts" in page.inner_text(".results")


@NARROW
def test_the_toggle_changes_the_colours_and_stays(page):
    page.goto("/ui/", wait_until="networkidle")

    def paper():
        return page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")

    page.goto("/ui/?theme=light", wait_until="networkidle")
    light = paper()
    page.get_by_role("link", name="Dark").click()
    page.wait_for_url("**theme=dark**")
    assert paper() != light
    page.goto(page.locator("nav a", has_text="Time").first.get_attribute("href"))
    assert "theme=dark" in page.url
    assert_accessible(page)


@NARROW
def test_stored_markup_is_shown_as_text(page):
    page.goto("/ui/?q=Sale", wait_until="networkidle")
    assert "<script>alert('x')</script>" in page.inner_text(".results")
    assert page.locator(".results b").count() == 0


def test_it_reads_well_without_scripts(plain_page):
    plain_page.goto("/ui/")
    plain_page.get_by_role("link", name="Show the filters with counts").click()
    plain_page.locator(".facet a", has_text="bistro").click()
    assert "f_project=bistro" in plain_page.url
    assert "The bistro is closed on Mondays" in plain_page.inner_text(".results")
    plain_page.locator(".scope summary").click()
    plain_page.locator("input[name=user_id]").fill("alice")
    plain_page.get_by_role("button", name="Apply").first.click()
    assert "user_id=alice" in plain_page.url


def test_log_in_and_out_in_the_browser(browser, engine, keyring, clock):
    token, key = create_key("default", ("read",), {}, None, None, clock())
    keyring.add(key)
    with served(dashboard(engine, keyring)) as url:
        page = browser.new_context(base_url=url).new_page()
        page.goto("/ui/sessions")
        page.get_by_label("API key").fill(token)
        assert_accessible(page)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{url}/ui/sessions")
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/ui/login")
        page.goto("/ui/")
        assert "/ui/login" in page.url
