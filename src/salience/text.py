"""Text functions: normal form, words and index terms, language, content hash, display. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import Stemmer
from stop_words import StopWordError, get_stop_words

from salience.errors import unknown

LANGUAGES: Final = tuple(sorted(Stemmer.algorithms()))
"""Languages with a Snowball stemmer."""
NO_LANGUAGE: Final = "none"
"""Setting for no stop words and no stemming."""
AUTO: Final = "auto"
"""Setting for texts of several languages: the language of each text is detected."""
ENGLISH: Final = "english"
DETECTED: Final = (
    ENGLISH,
    "spanish",
    "french",
    "german",
    "portuguese",
    "italian",
    "dutch",
    "swedish",
    "danish",
    "norwegian",
    "finnish",
    "hungarian",
    "romanian",
    "turkish",
)
"""Languages in Latin letters that `detect` knows; where two fit equally, the first one is detected."""

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

BOUNDARIES: Final = tuple(map(re.compile, (r"\n\s*\n", r"\n", r"[.!?][\"')\]]*\s|[。！？]", r"\s")))
"""Ends of a paragraph, a line, a sentence and a word: where to split a long message, best first."""
LEAST_PART: Final = 4
"""A part shorter than the limit divided by this is split at the next best boundary instead."""
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_HIDDEN_SIGNS: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\uff07": "'"})
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_SIGNS: Final = (
    "\u0900-\u0963\u0966-\u0df3\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59"
    "\u0e81-\u0edf\u0f40-\u0fbc\u1000-\u1049\u1050-\u109f\u1780-\u17d3"
)
"""Letters of scripts whose vowels are marks: `\\w` alone would split their words."""
_MARK = re.compile(f"[{_SIGNS}]")
_MARKED_WORD = re.compile(rf"(?:[^\W_]|[{_SIGNS}])+(?:'[^\W_]+)*")
_SYMBOL = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}|[\u2190-\u23ff\u25a0-\u27bf\u2900-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
)
"""Flags, emoji without skin tones, arrows and other signs."""
LATIN: Final = "\u0000-\u02ff\u1e00-\u1eff"
"""Characters of Latin scripts, and ASCII, as in a regular expression."""
_OTHER_SCRIPT = re.compile(f"[^{LATIN}]")
LONGEST_NAME: Final = 128
"""Characters of the longest compound that has terms of its own; longer ones are data."""
_MAYBE_COMPOUND = re.compile(
    r"[-.@/\\:_+#A-Z](?:(?<=[^\W_][-.@/\\:_])(?=\w)|(?<=[a-z][A-Z])|(?<=[A-Z]{2})(?=[a-z]{2})|(?<=[A-Za-z][+#]))"
)
_COMPOUND = re.compile(r"[^\W_](?:\+\+|#)(?![\w+#])|[^\W_]\w*(?:[-.@/\\:]\w+)*")
_SEPARATORS: Final = (r"[/\\]", "@", ":", r"\.", "[-_]")
"""Separators of a compound, from the widest part to the smallest."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_MORE_WORDS: Final = {
    "english": "also bye every get go got just may new now one per please say see take thanks two use will yes "
    "alt care car cat chose col come comment dice die dig dir dog door due end exact face fare fine font force hat hay "
    "hit ill man men met min mine non oh plus point pro sale sent sit solo son total van via want war",
    "spanish": "cuándo quién quiénes dónde cuál cuáles cómo cuánto cuánta cuántos cuántas mi mis",
    "french": "où quoi quel quelle quels quelles comment combien pourquoi mon ma mes",
    "german": "wer wo wann wie was wohin woher wobei wem wen wessen warum wieso welche welcher welches für mein meine",
    "portuguese": "quando onde quem qual quais como quanto meu minha",
    "italian": "quando dove chi che quale quali come perché quanto mio mia",
    "dutch": "wie wat waar wanneer welke welk hoe hoeveel mijn",
    "arabic": "أين متى من ما ماذا كيف هل كم أي إلى حين لماذا",
}
"""Further evidence for a language. Other languages: question words, which are stop words too. English: frequent words,
and words that are stop words elsewhere."""
_LETTERS: Final = {
    "spanish": "ñ¿¡áíóú",
    "french": "çœèêùàîô",
    "german": "ßäöü",
    "portuguese": "çãõê",
    "italian": "èùà",
    "swedish": "åäö",
    "danish": "åøæ",
    "norwegian": "åøæ",
    "finnish": "äö",
    "hungarian": "őűü",
    "romanian": "ățșî",
    "turkish": "ığşü",
}
"""Characters that speak for a language."""
_MARGIN: Final = 0.7
"""Least evidence for a language beyond that for English, which is the language of a text without evidence."""
_ELISION = re.compile(
    r"(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quelqu|dell|nell|all|un|sull|dall)'(?=[haeiouyàâéèêëîïôùûœ])"
)
_ARABIC_MARKS = re.compile("[\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]+")
"""Tashkeel and tatweel."""
_LAST_DIACRITIC: Final = "\u08ff"
"""The marks of scripts after it, such as Devanagari, are vowels."""
_UNDECOMPOSED = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "œ": "oe", "æ": "ae", "ı": "i"})
_PAIRED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese and Khmer, which have no spaces between words."""
_HAN = "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_SCRIPTS = re.compile(
    rf"(?P<han>[{_HAN}]+)|(?P<pairs>[\u3041-\u309f]+|[\u30a0-\u30ff]+|[\uac00-\ud7a3]+|[{_PAIRED}]+)"
    rf"|(?P<arabic>[\u0600-\u06ff]+)|(?P<russian>[\u0400-\u052f]+)|(?P<greek>[\u0370-\u03ff\u1f00-\u1fff]+)"
    rf"|(?P<latin>[^{_HAN}{_PAIRED}\u3041-\u30ff\uac00-\ud7a3\u0370-\u052f\u0600-\u06ff\u1f00-\u1fff]+)"
)
LEAST_CORRECTED: Final = 4
"""Letters of the shortest term that a store corrects."""
MOST_CORRECTED: Final = 32
"""Letters of the longest."""
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz"
_HAN_STOPWORDS: Final = frozenset(
    "的了是在我有和就不都也很到要去你会着没这那他她它们吗呢吧啊哪什么个为与或被把从对谁怎"
)

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


def is_latin(text: str) -> bool:
    """Return whether `text` has only characters of Latin scripts, and ASCII."""
    return text.isascii() or not _OTHER_SCRIPT.search(text)


def words(text: str) -> list[str]:
    """Return the normalised words and numbers of `text` in order, including stop words, not stemmed.

    Scripts without spaces (Han, kana) give overlapping pairs of characters.
    """
    plain = folded(text)
    found = _words(plain)
    if plain.isascii() or not _UNSPACED.search(plain):
        return found
    return [piece for word in found for piece in _pieces(word)]


def _words(plain: str) -> list[str]:
    """Return the words of a text in normal form."""
    has_marks = not plain.isascii() and _MARK.search(plain)
    found: list[str] = (_MARKED_WORD if has_marks else _WORD).findall(plain)
    return found


def symbols(text: str) -> list[str]:
    """Return the emoji and other signs of `text` in order, each without its variants, such as skin tones."""
    return [] if text.isascii() else _SYMBOL.findall(text)


class Compound(NamedTuple):
    """The terms of a name such as `MAX_RETRY_COUNT`, `parseConfig`, `app.settings.timeout` or `eu-west-1`.

    Attributes:
        names: the name and the names within it, in normal form: `_` for `-`, `_` and each change of case. Words that
            plain English joins, such as `follow-up`, `and/or` and `12-year-old`, are no names.
        aliases: names in camel case, likewise.
        words: the words of names in camel case, and two words with a hyphen written as one: `email` for `e-mail`.
        is_brand: whether it has a capital first, such as `GitHub`: it is often written without its capitals, so a query
            needs only its one word, as the others would count as missing.
    """

    names: tuple[str, ...]
    aliases: tuple[str, ...]
    words: tuple[str, ...]
    is_brand: bool


def compounds(text: str) -> list[Compound]:
    """Return the compounds of `text` in order; most texts have none."""
    if not _MAYBE_COMPOUND.search(text):
        return []
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    found = [_COMPOUNDS[word] for word in _COMPOUND.findall(plain) if len(word) <= LONGEST_NAME]
    return [compound for compound in found if compound.names or compound.aliases or compound.words]


def _compound(text: str) -> Compound:
    names, aliases, words = list[str](), list[str](), list[str]()

    def read(part: str, level: int = 0) -> None:
        part = part.strip("_")
        while level < len(_SEPARATORS) and not re.search(_SEPARATORS[level], part):
            level += 1
        if level == len(_SEPARATORS):
            pieces = _CAMEL.split(part)
            if len(pieces) > 1 and min(map(len, pieces)) > 1:  # "iPhone" has no words
                aliases.append("_".join(pieces).casefold())
                words.extend(map(str.casefold, pieces))
            elif part.endswith(("++", "#")):
                names.append(part.casefold())
            return
        pieces = [piece for piece in re.split(_SEPARATORS[level], part) if piece]
        if _is_name(part, _SEPARATORS[level], pieces):
            names.append(re.sub("[-_]+", "_", _CAMEL.sub("_", part)).casefold())
        if "_" not in part and len(pieces) == 2 and _SEPARATORS[level] == "[-_]" and all(map(str.isalpha, pieces)):
            words.append("".join(pieces).casefold())
        for piece in pieces:
            read(piece, level + 1)

    read(text)
    return Compound(tuple(names), tuple(aliases), tuple(words), text[0].isupper() or not aliases)


def _is_name(text: str, separator: str, parts: Sequence[str]) -> bool:
    """Return whether a text with these parts is a name and no words of plain English."""
    has_digit = any(map(str.isdigit, text))
    match separator:
        case "@":
            return True
        case ":":
            return False
        case r"[/\\]":
            return len(parts) > 2 or "." in text
        case r"\.":
            return has_digit or max(map(len, parts)) > 1  # not "e.g" and "U.S"
    is_measure = text[0].isdigit() and not all(map(str.isdigit, parts))  # "12-year-old"
    is_plain = len(parts) < 3 or is_measure or not ENGLISH_STOPWORDS.isdisjoint(map(str.casefold, parts))
    return "_" in text or not is_plain


_COMPOUNDS: Final = Kept(_compound)


def _pieces(word: str) -> Iterator[str]:
    start = 0
    for run in _UNSPACED.finditer(word):
        yield from filter(None, (word[start : run.start()].strip("'"),))
        yield from (run[0][i : i + 2] for i in range(max(1, len(run[0]) - 1)))
        start = run.end()
    yield from filter(None, (word[start:].strip("'"),))


class Tokeniser:
    """Splits texts into index terms: stemmed words without stop words.

    With `auto`, each text is of the language that `detect` returns, and terms have no diacritics. A text that is not
    English also has the terms of its words in English, so that names match in texts of all languages. Words in other
    scripts are of the script's own language whatever the text's: Arabic, Russian, Greek; Han gives characters and
    overlapping pairs, kana and Hangul give pairs.

    Args:
        language: a name from `LANGUAGES`, `auto`, or `none` for neither stop words nor stemming.

    Raises:
        InputError: an unknown language.
    """

    def __init__(self, language: str = ENGLISH) -> None:
        if language not in (*LANGUAGES, AUTO, NO_LANGUAGE):
            raise unknown("language", language, (AUTO, *LANGUAGES, NO_LANGUAGE))
        self.language = language
        self._stopwords = stopwords(language)
        stem = _stemmer(NO_LANGUAGE if language == AUTO else language)
        self._own_terms = Kept(lambda word: () if word in self._stopwords else (stem(word),))
        self._by_language = {name: Kept(partial(_terms_of, name)) for name in DETECTED}

    def language_of(self, text: str) -> str:
        """Return the language of `text`: that of the tokeniser, or with `auto` the detected one."""
        return detect(text) if self.language == AUTO else self.language

    def terms(self, text: str, language: str | None = None) -> tuple[str, ...]:
        """Return the terms of a stored text, with repetitions; `language` is that of the text, if known.

        First come the terms of its words in order. With `auto` a word may have several; the last one says most: its
        stem, or a pair of Han characters. The terms of its `compounds` and `symbols` follow.
        """
        found, of_word = self._words_and_terms(text, language)
        terms = [term for word in found for term in of_word[word]]
        for compound in compounds(text):
            terms += _terms_of_compound(compound, of_word)
        return tuple(terms if text.isascii() else terms + symbols(text))

    def query_terms(self, text: str, language: str | None = None) -> tuple[str, ...]:
        """Return the distinct terms to search for: of a compound, only its words and its names."""
        found, of_word = self._words_and_terms(text, language)
        terms = [term for word in found for term in of_word[word]]
        for compound in compounds(text):
            terms += compound.names if compound.is_brand else _terms_of_compound(compound, of_word)
        return tuple(dict.fromkeys(terms + symbols(text)))

    def _words_and_terms(self, text: str, language: str | None) -> tuple[Sequence[str], Mapping[str, Sequence[str]]]:
        """Return the words of a text, and the mapping of words to their terms."""
        if self.language != AUTO:
            return words(text), self._own_terms
        plain = folded(text)
        if not plain.isascii():
            plain = _ARABIC_MARKS.sub("", plain)
        found = _words(plain)
        return found, self._by_language[language or _voted(plain, found)]

    def correctable(self, text: str, language: str) -> frozenset[str]:
        """Return the terms of a query in a language that may be misspelt: no numbers, compounds or English words.

        Nor terms over `MOST_CORRECTED` letters, since the number of similar spellings grows with the length.

        Only of queries whose words have one term each: of a word with several, another one may be known.
        """
        if self.language == AUTO and language != ENGLISH:
            return frozenset()
        if _MAYBE_COMPOUND.search(text):
            text = " ".join(word for word in _COMPOUND.findall(text) if not _MAYBE_COMPOUND.search(word))
        known = english_words() if language == ENGLISH else frozenset[str]()
        wrong = {
            term
            for word in words(text)
            if word not in known
            for term in self.terms(word, language)
            if LEAST_CORRECTED <= len(term) <= MOST_CORRECTED and is_plain_word(term) and term not in known
        }
        return frozenset(wrong - self._frequent) if wrong else frozenset()

    @cached_property
    def _frequent(self) -> frozenset[str]:
        language = ENGLISH if self.language == AUTO else self.language
        try:
            return frozenset(term for word in get_stop_words(language) for term in self.terms(word))
        except StopWordError:
            return frozenset()

    def respelled(self, text: str, term: str, similar: str) -> tuple[str, str]:
        """Return the word of a query that gives a term, and the same word with the spelling of a similar term."""
        word = next((word for word in words(text) if term in self.terms(word)), term)
        if any(similar in spellings for spellings in similar_terms(word)):
            return word, similar
        pairs = enumerate(zip(word, term, strict=False))
        end = next((place for place, (one, other) in pairs if one != other), min(len(word), len(term)))
        spelling = similar.removesuffix(term[end:]) + word[end:]  # as "alergy" and its term "alergi" end
        return word, spelling if similar in self.terms(spelling) else similar


@cache
def english_words() -> frozenset[str]:
    """Return the words of at least `LEAST_CORRECTED` letters in the vocabulary of the default embedding model."""
    path = Path(__file__).parent / "models" / "data" / "bert-base-uncased-vocab.txt"
    words = path.read_text("utf-8").split()
    return frozenset(word for word in words if len(word) >= LEAST_CORRECTED and is_plain_word(word))


def _terms_of_compound(found: Compound, of_word: Mapping[str, Sequence[str]]) -> list[str]:
    return [*found.names, *found.aliases, *(term for word in found.words for term in of_word[word])]


def detect(text: str) -> str:
    """Return the language of the words of `text` in Latin letters, one of `DETECTED`; English without evidence.

    Each stop word of a language, and each of its letters that English lacks, is evidence for it; less so if it is
    evidence for other languages too.
    """
    plain = folded(text)
    return _voted(plain, _WORD.findall(plain))


def _voted(plain: str, found: Sequence[str]) -> str:
    """Return the language of a text in normal form with these words."""
    votes = _votes()
    scores = dict.fromkeys(DETECTED, 0.0)
    for piece in found if plain.isascii() else (*found, *[sign for sign in plain if sign > "\x7f"]):
        for language, weight in votes.get(piece, ()):
            scores[language] += weight
    if "'" in plain:
        scores["french"] += sum(1 for word in found if _ELISION.match(word))
    best = max(DETECTED, key=scores.__getitem__)
    return best if scores[best] >= scores[ENGLISH] + _MARGIN else ENGLISH


@cache
def _votes() -> Mapping[str, Sequence[tuple[str, float]]]:
    """Return stop word or letter -> languages with the weight of this evidence, 1 / sqrt(number of languages)."""
    languages: dict[str, list[str]] = {}
    for language in DETECTED:
        listed = stopwords(language).union(_MORE_WORDS.get(language, "").split())
        for piece in {folded(word) for word in listed}.union(_LETTERS.get(language, "")):
            languages.setdefault(piece, []).append(language)
    return {
        piece: [(language, len(each) ** -0.5) for language in each]
        for piece, each in languages.items()
        if len(piece) > 1 or not piece.isascii()
    }


def _terms_of(language: str, word: str) -> tuple[str, ...]:
    """Return the terms of a word in a text of a language of `DETECTED`."""
    terms: list[str] = []
    for run in _SCRIPTS.finditer(word):
        script, part = run.lastgroup or "", run[0].strip("'")
        if script == "han":
            terms += [sign for sign in part if sign not in _HAN_STOPWORDS]
        if script in ("han", "pairs"):
            pairs = [part[i : i + 2] for i in range(len(part) - 1)]
            terms += [pair for pair in pairs if not _HAN_STOPWORDS.issuperset(pair)]
        elif script != "latin":
            terms += _stemmed(script, part)
        elif part and language == ENGLISH:
            terms += _stemmed(ENGLISH, part)
        elif part:
            if language in ("french", "italian"):
                part = _ELISION.sub("", part, 1)
            if own := _stemmed(language, part):
                terms += dict.fromkeys((_stem_of(ENGLISH)(without_marks(part)), *own))
    return tuple(terms)


def _stemmed(language: str, word: str) -> tuple[str, ...]:
    """Return the stem of a word without diacritics; nothing for a stop word."""
    if word in _stopwords_of(language):
        return ()
    bare = without_marks(word) if language in (ENGLISH, "arabic") else word  # other stemmers read the marks
    return (without_marks(_stem_of(language)(bare)),)


@cache
def _stopwords_of(language: str) -> frozenset[str]:
    """Return the stop words of a language in normal form."""
    listed = {*stopwords(language), *(_MORE_WORDS.get(language, "").split() if language != ENGLISH else ())}
    return frozenset(_ARABIC_MARKS.sub("", folded(word)) for word in listed)


@cache
def _stem_of(language: str) -> Callable[[str], str]:
    return _stemmer(language)


def similar_term(term: str, frequency: Callable[[str], int]) -> str | None:
    """Return the known term that `term` is most likely a misspelling of: one edit away, with the same first letter.

    Two letters in the wrong order and single letters for double ones come first, then missing letters, and in words of
    six letters or more extra and wrong letters; among equals the most frequent term. Shorter words have too many
    neighbours, and a letter after the last one is rather another form of the word.

    Args:
        term: of the letters a to z.
        frequency: returns how many memories contain a term; 0 for an unknown one.
    """
    for candidates in similar_terms(term):
        best = max(candidates, key=frequency, default=None)
        if best is not None and frequency(best):
            return best
    return None


def similar_terms(term: str) -> Iterator[list[str]]:
    """Yield the terms that `term` may be a misspelling of in lists, the likeliest first."""
    size = len(term)
    if size >= LEAST_CORRECTED:
        swapped = [term[:i] + term[i + 1] + term[i] + term[i + 2 :] for i in range(size - 1) if term[i] != term[i + 1]]
        doubled = [term[:i] + term[i] + term[i:] for i in range(1, size)]
        yield list(dict.fromkeys((*swapped, *doubled)))
    if size > LEAST_CORRECTED:
        yield list(dict.fromkeys(term[:i] + sign + term[i:] for i in range(1, size) for sign in _ALPHABET))
    if size > LEAST_CORRECTED + 1:
        shorter = [term[:i] + term[i + 1 :] for i in range(1, size)]
        changed = [term[:i] + sign + term[i + 1 :] for i in range(1, size) for sign in _ALPHABET if sign != term[i]]
        yield list(dict.fromkeys((*shorter, *changed)))


def without_marks(text: str) -> str:
    """Return `text` without diacritics: `Müller` and `Muller`, and the forms of alef, are equal."""
    if text.isascii():
        return text
    letters = unicodedata.normalize("NFD", text)
    kept = "".join(sign for sign in letters if sign > _LAST_DIACRITIC or unicodedata.category(sign) != "Mn")
    return unicodedata.normalize("NFC", kept).translate(_UNDECOMPOSED)


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
    if language == ENGLISH:
        return ENGLISH_STOPWORDS
    try:
        return frozenset(get_stop_words(language)) if language not in (AUTO, NO_LANGUAGE) else frozenset()
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
    if not also and text.isascii() and text.isprintable():
        return text
    return "".join(
        json.dumps(sign)[1:-1] if is_hidden(sign) else f"\\u{ord(sign):04x}" if sign in also else sign for sign in text
    )


def one_line(text: str) -> str:
    """Return `text` on one line with single spaces and hidden characters escaped."""
    return spelled(" ".join(text.split()))


def same_text(content: str) -> str:
    """Return a form that is equal for contents that differ only in spaces or in the composition of letters.

    It is the Unicode form NFC, stripped; a text of one line without code gets single spaces. Case and line breaks are
    unchanged.
    """
    composed = unicodedata.normalize("NFC", content).strip()
    return composed if "\n" in composed or "`" in composed else " ".join(composed.split())


def content_hash(content: str) -> str:
    """Return the sha256 of `content` in UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def split(text: str, limit: int) -> Sequence[str]:
    """Return `text` in order as parts of at most `limit` bytes in UTF-8; only white space between parts is lost.

    Each part ends at a paragraph, else a line, a sentence or a word, else at the limit.
    """
    parts, start = [], 0
    while start < len(text):
        window = text[start : start + limit].encode()[:limit].decode(errors="ignore") or text[start]
        end = len(window)
        if start + end < len(text):
            for boundary in BOUNDARIES:
                end = max((match.end() for match in boundary.finditer(window)), default=0)
                if end >= len(window) // LEAST_PART:
                    break
            end = end or len(window)
        if not window[:end].isspace():
            parts.append(window[:end])
        start += end
    return parts
