"""Text functions: normal form, words and index terms, content hash, display. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, TypeVar

import Stemmer
from stop_words import StopWordError, get_stop_words

from salience.errors import unknown

LANGUAGES: Final = tuple(sorted(Stemmer.algorithms()))
"""Languages with a Snowball stemmer."""
NO_LANGUAGE: Final = "none"
"""Setting for texts of many languages: no stop words, no stemming."""

ENGLISH_STOPWORDS: Final = frozenset(
    """
    a about above after again against all am an and any are aren't as at be because been before being below between
    both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each few for from
    further had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers herself him himself his
    how how's i i'd i'll i'm i've if in into is isn't it it's its itself let's me more most mustn't my myself no nor
    not of off on once only or other ought our ours ourselves out over own same shan't she she'd she'll she's should
    shouldn't so some such than that that's the their theirs them themselves then there there's these they they'd
    they'll they're they've this those through to too under until up very was wasn't we we'd we'll we're we've were
    weren't what what's when when's where where's which while who who's whom why why's will with won't would wouldn't
    you you'd you'll you're you've your yours yourself yourselves
    """.split()
)
"""Function words (the field's usual English list, after Porter's Snowball site); content words are all kept."""

_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_HIDDEN_SIGNS: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\uff07": "'"})
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")

Made = TypeVar("Made")


class Kept(dict[str, Made]):
    """Cache of a function of short texts, used as `kept[text]`. Thread-safe.

    Texts over `LONGEST` characters are not cached; the cache is cleared at `MOST` entries, about ten megabytes.

    Args:
        make: returns an immutable value for a text.
    """

    MOST: Final = 65_536
    LONGEST: Final = 40

    def __init__(self, make: Callable[[str], Made]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> Made:
        made = self._make(text)
        if len(text) <= self.LONGEST:
            if len(self) >= self.MOST:
                self.clear()
            self[text] = made
        return made


def normalise(text: str) -> str:
    """Return `text` in Unicode form NFKC, case-folded, with straight apostrophes and single spaces."""
    return " ".join(folded(text).split())


def folded(text: str) -> str:
    """Return `text` as `normalise` does, but with its white space unchanged."""
    if text.isascii():  # is in form NFKC and has no other apostrophe
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold().translate(_APOSTROPHES)


def is_plain_word(text: str) -> bool:
    """Return whether `text` consists of the letters a to z, so that it is one word in normal form."""
    return text.isascii() and text.islower() and text.isalpha()


def words(text: str) -> list[str]:
    """Return the normalised words and numbers of `text` in order, including stop words, not stemmed.

    Scripts without spaces (Han, kana) give overlapping pairs of characters.
    """
    plain = folded(text)
    found: list[str] = _WORD.findall(plain)
    if plain.isascii() or not _UNSPACED.search(plain):
        return found
    return [piece for word in found for piece in _pieces(word)]


def _pieces(word: str) -> Iterator[str]:
    start = 0
    for run in _UNSPACED.finditer(word):
        yield from filter(None, (word[start : run.start()].strip("'"),))
        yield from (run[0][i : i + 2] for i in range(max(1, len(run[0]) - 1)))
        start = run.end()
    yield from filter(None, (word[start:].strip("'"),))


class Tokeniser:
    """Splits texts into index terms: stemmed words without stop words.

    Args:
        language: a name from `LANGUAGES`, or `none` for neither stop words nor stemming.

    Raises:
        InputError: an unknown language.
    """

    def __init__(self, language: str = "english") -> None:
        if language not in (*LANGUAGES, NO_LANGUAGE):
            raise unknown("language", language, (*LANGUAGES, NO_LANGUAGE))
        self.language = language
        self._stopwords = stopwords(language)
        self._stem = lru_cache(maxsize=65536)(_stemmer(language))

    def terms(self, text: str) -> tuple[str, ...]:
        """Return the terms of `text` in order, with repetitions."""
        return tuple([self._stem(word) for word in words(text) if word not in self._stopwords])


def _stemmer(language: str) -> Callable[[str], str]:
    """Return a thread-safe function from a word to its stem."""
    if language == NO_LANGUAGE:
        return str
    own = threading.local()  # a Snowball stemmer has state

    def stem(word: str) -> str:
        try:
            stemmed: str = own.stem(word)
        except AttributeError:  # the first word of this thread
            own.stem = Stemmer.Stemmer(language, 0).stemWord  # 0: without a cache of its own
            stemmed = own.stem(word)
        return stemmed

    return stem


def stopwords(language: str) -> frozenset[str]:
    """Return the stop words of a language: `ENGLISH_STOPWORDS`, or those of the `stop-words` package, if any."""
    if language == "english":
        return ENGLISH_STOPWORDS
    try:
        return frozenset(get_stop_words(language)) if language != NO_LANGUAGE else frozenset()
    except StopWordError:
        return frozenset()


def phrases(text: str, longest: int = 4) -> tuple[str, ...]:
    """Return every distinct run of 1 to `longest` normalised words of `text`: the names that it may contain.

    Words are taken unchanged, without surrounding punctuation, and without a possessive ending.
    """
    tokens = normalise(text).split()
    stripped = [token.strip("\"'`.,;:!?()[]{}<>") for token in tokens]
    bare = [token.removesuffix("'s") for token in stripped]
    found: dict[str, None] = {}
    for form in dict.fromkeys(map(tuple, (tokens, stripped, bare))):
        for length in range(1, longest + 1):
            for start in range(len(form) - length + 1):
                found[" ".join(form[start : start + length])] = None
    found.pop("", None)
    return tuple(found)


def is_hidden(sign: str) -> bool:
    """Return whether a character is invisible or changes how others are displayed; language models still read it.

    These are control, format and tag characters, line separators, private and unassigned characters, variation
    selectors and fillers.
    """
    return unicodedata.category(sign) in _HIDDEN_CATEGORIES or sign in _HIDDEN_SIGNS


def spelled(text: str, also: str = "") -> str:
    """Return `text` with hidden characters, and the characters in `also`, as JSON escapes."""
    return "".join(
        json.dumps(sign)[1:-1] if is_hidden(sign) else f"\\u{ord(sign):04x}" if sign in also else sign for sign in text
    )


def one_line(text: str) -> str:
    """Return `text` on one line with single spaces and hidden characters escaped."""
    return spelled(" ".join(text.split()))


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 session`, `2,000 sessions`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def same_text(content: str) -> str:
    """Return a form that is equal for contents that differ only in spaces or in the composition of letters.

    It is the Unicode form NFC, stripped; a text of one line gets single spaces. Case and line breaks are unchanged.
    """
    composed = unicodedata.normalize("NFC", content).strip()
    return composed if "\n" in composed else " ".join(composed.split())


def content_hash(content: str) -> str:
    """Return the sha256 of `content` in UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(content.encode("utf-8")).hexdigest()
