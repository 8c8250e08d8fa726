"""Pure text work: normal form, terms of the lexical channel, content hash."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
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
    """What a function makes of short texts, made once and kept: `kept[text]`.

    Most of a text are words that were read before. A longer text is never kept, and all is dropped once `MOST` are,
    so that no input takes more than some ten megabytes. Threads may share it: at worst two make the same.

    Args:
        make: from a text to a value that nobody changes.
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
    """Return `text` in Unicode form NFKC, case folded, apostrophes straight, white space runs as one space."""
    return " ".join(folded(text).split())


def folded(text: str) -> str:
    """Return `text` as `normalise` does, with its white space as it is."""
    if text.isascii():  # is in form NFKC and has no other apostrophe
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold().translate(_APOSTROPHES)


def is_plain_word(text: str) -> bool:
    """Return whether `text` is letters of a to z alone, as most words are: its own normal form, and one word."""
    return text.isascii() and text.islower() and text.isalpha()


def words(text: str) -> list[str]:
    """Return the words and numbers of `text` in order, normalised, with stop words and endings still on.

    Scripts that write without spaces (Han, kana) give overlapping pairs of characters, the field's usual stand-in for
    words there.
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
    """Text to the terms that are indexed and searched: words without stop words, reduced to their stems.

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
        self._kept = Kept(self._read)

    def terms(self, text: str) -> tuple[str, ...]:
        """Return the terms of `text` in order, with repetitions."""
        return tuple(chain.from_iterable(map(self._kept.__getitem__, text.split())))

    def _read(self, part: str) -> tuple[str, ...]:
        """Return the terms of what stands between white space; no word reaches further."""
        if is_plain_word(part):
            return () if part in self._stopwords else (self._stem(part),)
        return tuple(self._stem(word) for word in words(part) if word not in self._stopwords)


def _stemmer(language: str) -> Callable[[str], str]:
    """Return a function from a word to its stem, safe to share between threads."""
    if language == NO_LANGUAGE:
        return str
    own = threading.local()  # a Snowball stemmer keeps the word that it works on in itself

    def stem(word: str) -> str:
        try:
            stemmed: str = own.stem(word)
        except AttributeError:  # the first word of a thread
            own.stem = Stemmer.Stemmer(language, 0).stemWord  # which keeps none: we do, in a third of the time
            stemmed = own.stem(word)
        return stemmed

    return stem


def stopwords(language: str) -> frozenset[str]:
    """Return the stop words of a language: our own English list, else those of the `stop-words` package, if any."""
    if language == "english":
        return ENGLISH_STOPWORDS
    try:
        return frozenset(get_stop_words(language)) if language != NO_LANGUAGE else frozenset()
    except StopWordError:
        return frozenset()


def phrases(text: str, longest: int = 4) -> tuple[str, ...]:
    """Return every run of 1 to `longest` words of `text`, normalised, distinct: the names that it may hold.

    Words come as they stand, without the signs around them, and without a possessive ending.
    """
    tokens = normalise(text).split()
    stripped = [token.strip("\"'`.,;:!?()[]{}<>") for token in tokens]
    bare = [token.removesuffix("'s") for token in stripped]
    forms = dict.fromkeys(map(tuple, (tokens, stripped, bare)))
    runs = dict.fromkeys(chain.from_iterable(_runs(form, longest) for form in forms))
    runs.pop("", None)
    return tuple(runs)


def _runs(tokens: Sequence[str], longest: int) -> list[str]:
    """Return the runs of 1 to `longest` tokens, the shorter ones first; each is one of those and a token."""
    runs = found = list(tokens)
    for more in range(1, longest):
        runs = [f"{run} {token}" for run, token in zip(runs, tokens[more:], strict=False)]
        found = found + runs
    return found


def is_hidden(sign: str) -> bool:
    """Return whether a character shows nothing of its own or changes how others are shown.

    Such are controls, format and tag characters, line separators, private and unassigned ones, variation selectors
    and fillers: what a person does not see, a language model still reads.
    """
    return unicodedata.category(sign) in _HIDDEN_CATEGORIES or sign in _HIDDEN_SIGNS


def spelled(text: str, also: str = "") -> str:
    """Return `text` with hidden characters, and those in `also`, as JSON escapes."""
    return "".join(
        json.dumps(sign)[1:-1] if is_hidden(sign) else f"\\u{ord(sign):04x}" if sign in also else sign for sign in text
    )


def one_line(text: str) -> str:
    """Return `text` on one line, runs of white space as one space and hidden characters spelled out."""
    return spelled(" ".join(text.split()))


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 session`, `2,000 sessions`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def same_text(content: str) -> str:
    """Return what two contents have in common that differ in nothing but blanks or the composition of letters.

    That is Unicode form NFC without white space around it, and of one line, with runs of white space as one space.
    Case stays, which may matter, and so do line breaks and what lines begin with.
    """
    said = unicodedata.normalize("NFC", content).strip()
    return said if "\n" in said else " ".join(said.split())


def content_hash(content: str) -> str:
    """Return the sha256 of `content` in UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(content.encode("utf-8")).hexdigest()
