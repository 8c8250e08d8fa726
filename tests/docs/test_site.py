"""The site of the docs is built without a warning, its links and anchors exist, and it loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


class Links(HTMLParser):
    """The anchors of a page, the addresses that it links to, and those that a browser loads with it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "__top"}
        self.linked: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.linked.append(found["href"])
        elif tag == "link" and found.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(found["href"])
        elif "src" in found:
            self.loaded.append(found["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site; return its folder and what MkDocs printed."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    return folder, built


@pytest.fixture(scope="module")
def pages(site):
    """Return path -> links of every page."""
    return {path: Links(path) for path in site[0].rglob("*.html")}


def test_it_is_built_without_a_warning(site):
    _, built = site
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr


def test_every_link_leads_to_a_page_and_an_anchor(pages, site):
    broken = []
    for path, links in pages.items():
        if path.name == "404.html":  # its addresses begin at the root of the site
            continue
        for address in (*links.linked, *links.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else {unquote(parts.fragment)}
            if not target.exists() or unquote(parts.fragment) not in anchors:
                broken.append(f"{path.relative_to(site[0])}: {address}")
    assert not broken, "\n".join(broken)


def test_pages_load_nothing_from_elsewhere(pages, site):
    for path, links in pages.items():
        assert not [address for address in links.loaded if urlsplit(address).netloc], path
    for path in site[0].rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", path.read_text("utf-8")), path
