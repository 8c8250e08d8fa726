"""The page stands alone, says what was measured, and shows every figure."""

from __future__ import annotations

import html
import re
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import pytest
from formats import LOCOMO, OTHER_LOCOMO, written

from salience.evaluate import report
from salience.evaluate.compare import Wanted, compare
from salience.evaluate.run import Plan, Terms, contenders, evaluate, sources
from salience.models import registry
from tests.contract.doubles import PlantedEmbedder

VOID = {"meta", "br", "link", "img"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder())
        path = written(tmp_path_factory.mktemp("report") / "a & b <c>.json", [LOCOMO, OTHER_LOCOMO])
        plan = Plan(Terms(contenders(["salience", "bm25", "cosine"]), 10), foreign=4)
        read = sources([path])
        return compare(read, plan, Wanted((1, 5, 10)), [evaluate(read, plan, "planted")])


@pytest.fixture(scope="module")
def page(measured):
    return report.page(measured, date(2026, 11, 22))


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))


def test_every_element_is_closed(page):
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert [name for name, _ in tags.seen].count("svg") == 3  # curves, categories, differences


def test_nothing_is_loaded_from_elsewhere(page):
    tags = Tags()
    tags.feed(page)
    assert not {"script", "link", "img", "iframe", "object"} & {name for name, _ in tags.seen}
    for _, attributes in tags.seen:
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_it_says_what_was_measured_and_how(page, measured):
    text = html.unescape(re.sub(r"<[^>]+>", " ", page))
    for words in (
        "LoCoMo JSON: a & b <c>.json",
        "n = 5",
        "turn: one memory each",
        "2026-11-22",
        "2,000 samples",
        "seed 0",
        "1 multi-hop",
        "left out, without stored evidence",
        "recall@10 over 5 questions",
    ):
        assert words in text
    assert "<c>" not in page


def test_every_figure_is_there(page, measured):
    for score in measured.scores:
        if score.metric != "hits":
            assert f"{score.estimate.mean:.3f}" in page
    for one in measured.differences:
        assert f"{one.estimate.mean:+.3f}" in page


def test_drawings_take_the_colours_of_the_page(page):
    assert "var(--ink)" in page
    assert "prefers-color-scheme: dark" in page
    assert report.INK not in page
    assert report.FAINT not in page


def test_one_category_and_one_depth_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder())
    read = sources([written(tmp_path / "one.json", OTHER_LOCOMO)])
    plan = Plan(Terms(contenders(["bm25"]), 10))
    alone = compare(read, plan, Wanted((10,)), [evaluate(read, plan, "planted")])
    tags = Tags()
    tags.feed(report.page(alone, date(2026, 11, 22)))
    assert [name for name, _ in tags.seen].count("svg") == 1
