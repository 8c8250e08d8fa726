"""The Python examples of docs/integrations run as they stand: the blocks of a page in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from salience import MissingExtraError
from salience.client import Client
from salience.engine import Engine

INDEX = Path(__file__).parents[2] / "docs/integrations/index.md"
PAGES = sorted(page for page in INDEX.parent.glob("*.md") if page != INDEX)
FENCE = re.compile(r"^(?:<!-- not run: (.+) -->\n)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A fence, after the reason why it does not run, if it does not."""

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{category}")  # of frameworks, at their import
    for category in ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning", "ImportWarning")
]


def test_the_index_lists_every_page():
    assert re.findall(r"^\| \[.*\]\(([\w-]+)\.md\) \| `\1` ", INDEX.read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"\(([\w-]+)\.md\) \|", INDEX.read_text("utf-8"))) == {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    blocks = FENCE.findall(page.read_text("utf-8"))
    assert any(not reason for reason, _ in blocks), "no example runs"
    namespace = {"__name__": "__main__"}
    for reason, block in blocks:
        if reason:
            continue
        try:
            exec(compile(block, page.name, "exec"), namespace)  # noqa: S102 - our own example
        except MissingExtraError as error:
            pytest.skip(str(error))
    for value in list(namespace.values()):
        if isinstance(value, Engine | Client):
            value.close()
