"""Distinctions: the numbers, dates, names, claims, speaker, wording and statement that tell similar texts apart.

Embeddings hardly see these. "The limit is 30" and "The limit is 40", "Alice agreed" and "Bob agreed", "It is safe" and
"It is not safe" are almost equal to a model, and no two of them say the same.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from math import inf
from typing import Final

from salience import text
from salience.extract.answers import missing_kinds
from salience.extract.entities import Found, marks, names, read
from salience.extract.owners import owner
from salience.extract.periods import Window
from salience.extract.phrases import Phrasebook
from salience.extract.roles import roles
from salience.extract.subjects import stated
from salience.extract.when import event
from salience.extract.wordlists import MONTHS, NEVER, OPENING_VERBS, ORDINARY, WEEKDAYS, load
from salience.text import Kept, is_plain_word

_LISTS: Final = load("contrasts")
BASES: Final = {
    section[:-1] + word: word for section, words in _LISTS.items() if section.endswith("-") for word in words
}
"""Words with a negating prefix -> the word without it."""
CONTRASTS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: words for name, words in _LISTS.items() if name != "idioms" and not name.endswith("-")},
    "not": (*_LISTS["not"], *BASES),
}
"""Claim -> words and phrases that make it; a text without them makes the opposite claim or none."""
_CLAIMS: Final = {tuple(text.words(phrase)): claim for claim, phrases in CONTRASTS.items() for phrase in phrases}
_BOOK: Final = Phrasebook((*(phrase for phrases in CONTRASTS.values() for phrase in phrases), *_LISTS["idioms"]))


def distinctions(content: str, speaker: str | None = None, time: str = "") -> tuple[str, ...]:
    """Return the distinctions of a text, each as `kind:value` with a kind of `batch.KINDS`.

    The first is `text:` with a hash of the text in normal form, the second `same:` with a hash of the `statement`, its
    speaker and its time. If there are any, `speaker:` and `owner:` follow (see `owners`), `lacks:` for each kind of
    answer that the text does not give (see `answers`), and `role:` for who does what to whom (see `roles`). Then follow
    the numbers and dates of `numerals`, then the names and marks of `entities` and the claims of `CONTRASTS`, each
    group in the order of the text and with repetitions; `claim:asks` is the last one of a text that only asks.

    Args:
        content: the text.
        speaker: its speaker.
        time: the time that its words mean, as `stated_time` has it.
    """
    by, found = text.normalise(speaker) if speaker else "", details(content)
    return (
        f"text:{_hashed(text.normalise(content))}",
        "same:" + _hashed("\n".join((statement(content), by, time))),
        *([f"speaker:{by}"] if speaker else ()),
        *([f"owner:{whose}"] if (whose := owner(content)) else ()),
        *(f"lacks:{kind}" for kind in missing_kinds(content, found)),
        *roles(content),
        *found,
        *(["claim:asks"] if only_asks(content) else []),
    )


@lru_cache(maxsize=4096)  # a write reads a text twice: for its distinctions, and beside similar memories
def details(content: str) -> tuple[str, ...]:
    """Return the numbers, dates, names and claims among the distinctions of a text, except `claim:asks`."""
    pieces = read(content)
    found: list[Found] = [(at, f"name:{text.normalise(name)}") for at, name in (*marks(pieces), *names(pieces))]
    if claims := _BOOK.find(list(chain.from_iterable([piece.words for piece in pieces]))):
        piece_of = [at for at, piece in enumerate(pieces) for _ in piece.words]
        found += [(piece_of[start], f"claim:{_CLAIMS[phrase]}") for start, _, phrase in claims if phrase in _CLAIMS]
    return (*numerals(content), *[value for _, value in sorted(found)], *_foreign(content))


CLOSED: Final = frozenset(
    "is are am was were do does did has have had can could will would should must shall may isn't aren't doesn't don't "
    "ist sind war waren hat haben hast habe kann können soll sollte muss wird werden darf gibt "
    "es está están son era fue hay tiene tengo puedo debo est sont était peut dois".split()
)
"""First words of a question for yes or no, in English, German, Spanish and French."""


def numbered(question: str) -> list[str]:
    """Return the words of a question of which a number names one: "pr" in "Was PR 89 merged?".

    A number before a unit or a plural is an amount ("30 minutes", "5 restaurants"), and one at the end of a question
    for yes or no can be a value ("Is the limit 500?").
    """
    found, words = text.words(question), list[str]()
    is_closed = bool(found) and found[0] in CLOSED
    for before, number, after in zip(found, found[1:], (*found[2:], ""), strict=False):
        is_amount = after in _UNIT or (after.endswith("s") and not after.endswith(("ss", "us", "is")))
        is_noun = before.isalpha() and before not in text.ENGLISH_STOPWORDS and before not in _FIRST
        if is_noun and any(map(str.isdigit, number)) and not is_amount and not (is_closed and not after):
            words.append(before)
    return words


MAX_QUESTION: Final = 15
"""Words of the longest text that can be nothing but a question: a longer one tells something on the way."""


def only_asks(content: str) -> bool:
    """Return whether a text is nothing but a question."""
    return len(content) < 10 * MAX_QUESTION and not stated(content) and len(text.words(content)) <= MAX_QUESTION


def _foreign(content: str) -> list[str]:
    """Return the words in other scripts and the signs of a text as names: models of English do not tell them apart."""
    if content.isascii():
        return []
    words = [word for word in text.words(content) if not text.is_latin(word)]
    return [f"name:{word}" for word in (*words, *text.symbols(content))]


def _hashed(form: str) -> str:
    return hashlib.sha256(form.encode("utf-8")).hexdigest()[:16]


def distinguish(
    content: str, speaker: str | None, created_at: datetime
) -> tuple[tuple[str, ...], tuple[datetime, datetime] | None]:
    """Return the distinctions of a text, and the time that it states (None without one)."""
    window = event(content, created_at)
    return distinctions(content, speaker, _time_of(content, created_at, window)), window


def stated_time(content: str, created_at: datetime) -> str:
    """Return the time that the words of a text mean, if it depends on when they are said; "" without one.

    "I met Ann yesterday", said on two days, is two statements.
    """
    return _time_of(content, created_at, event(content, created_at))


def _time_of(content: str, created_at: datetime, window: Window | None) -> str:
    if window is not None:
        return f"{window[0].isoformat()}/{window[1].isoformat()}"
    plain = content.casefold()
    may_be_present = "day" in plain or "this " in plain or "tonight" in plain  # most texts need no search
    return created_at.date().isoformat() if may_be_present and _PRESENT.search(plain) else ""


_PRESENT: Final = re.compile(
    rf"\b(?:today|tonight|this (?:morning|afternoon|evening|week|weekend|month|year)|{'|'.join(WEEKDAYS)})\b"
)
"""Times that can contain the moment of telling, for which `event` returns None."""
_QUOTES: Final = str.maketrans({"\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"'})
_QUOTED: Final = re.compile(r'"([^"]*\s[^"]*)"(\.?)')
_OPENING: Final = re.compile(
    r"\A(?:(?:please,?|(?:note|remember) that|fyi[,:]?|by the way,) (?=\S+ \S)|the (?=user ))+", re.IGNORECASE
)
_PLAIN: Final = (NEVER | ORDINARY | OPENING_VERBS) - {"may", "will"}
_CONTRACTIONS: Final[Mapping[str, str]] = {
    "can't": "cannot", "won't": "will not", "i'm": "I am", "i've": "I have", "i'll": "I will", "I'm": "I am",
    **{
        f"{verb}n't": f"{verb} not"
        for verb in "do does did is are was were have has had could would should must need".split()
    },
    **{
        f"{who}'{short}": f"{who} {verb}"
        for who in ("I", "you", "we", "they")
        for short, verb in (("re", "are"), ("ve", "have"), ("ll", "will"))
    },
}  # fmt: skip
"""Contractions that have one meaning, unlike "she's" and "she'd"."""
_CONTRACTION: Final = re.compile(rf"(?<![\w'])(?:{'|'.join(_CONTRACTIONS)})(?![\w'])")


def statement(content: str) -> str:
    """Return a form that is equal for texts that differ in nothing that anyone could mean.

    These are white space, the composition of letters, the form of apostrophes and quotation marks, quotation marks
    around the whole text, a full stop at its end, words of politeness and attention before it ("please", "note that"),
    "the" before a first "user", the capital of a first word that means nothing else with it, and contractions such as
    "I'm". Everything else counts, case and the order of words among it, since one memory too many is better than a
    hidden one. Articles count: "few friends" are not "a few friends". A text with code, a quotation or several lines
    counts to the letter.
    """
    form = text.same_text(content)
    if not form.isascii():
        form = form.translate(_QUOTES)
    if form[:1] == '"' and (quoted := _QUOTED.fullmatch(form)):
        form = quoted[1].strip()
    if "\n" in form or "`" in form or '"' in form:
        return form
    if form[-1:] in (".", "\u3002") and form[-2:-1].isalnum():
        form = form[:-1]
    form = _OPENING.sub("", form, 1)
    first, space, rest = form.partition(" ")
    if space and first[1:].islower() and is_plain(first.removesuffix(",").lower()):
        form = f"{first.lower()} {rest}"
    return _CONTRACTION.sub(lambda found: _CONTRACTIONS[found[0]], form) if "'" in form else form


def is_plain(word: str) -> bool:
    """Return whether a word in lower case means nothing else with a capital, unlike "mark" and "will"."""
    return word in _PLAIN or (len(word) > 4 and word.endswith("ed"))


_ONES: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety".split()
CARDINALS: Final[Mapping[str, int]] = {
    **{word: number for number, word in enumerate(_ONES)},
    **{word: 10 * number for number, word in enumerate(_TENS, start=2)},
}
HUNDREDS: Final[Mapping[str, int]] = {
    "dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9,
}  # fmt: skip
"""Words that multiply the number before them."""
SCALES: Final[Mapping[str, int]] = {**HUNDREDS, "k": 1000, "bn": 10**9}
"""Words and abbreviations that multiply the digits before them."""
ORDINALS: Final[Mapping[str, int]] = {
    word: number
    for number, word in enumerate("first second third fourth fifth sixth seventh eighth ninth tenth".split(), start=1)
}
ENDINGS: Final = frozenset({"st", "nd", "rd", "th"})
"""Endings of ordinals after digits."""
MULTIPLES: Final[Mapping[str, str]] = {"once": "1", "twice": "2", "half": "1/2"}
BEFORE_A_PRONOUN: Final = frozenset("no the this that which each every any some another other last next only".split())
AFTER_A_PRONOUN: Final = frozenset("of another day way by".split())
"""Words before and after a "one" that is a pronoun."""
UNITS: Final[Mapping[str, str]] = {
    "percent": "% percent pct", "dollar": "$ usd dollar dollars", "euro": "€ eur euro euros",
    "pound": "£ gbp pound pounds", "yen": "¥ jpy yen", "rupee": "₹ inr rupee rupees", "cent": "cent cents",
    "millisecond": "ms millisecond milliseconds", "second": "s sec secs second seconds",
    "minute": "min mins minute minutes", "hour": "h hr hrs hour hours", "day": "d day days", "week": "week weeks",
    "month": "month months", "year": "y yr yrs year years", "time": "x time times",
    "kilometre": "km kilometre kilometres kilometer kilometers", "mile": "mi mile miles",
    "metre": "m metre metres meter meters", "centimetre": "cm", "millimetre": "mm", "foot": "ft foot feet",
    "inch": "inch inches", "kilogram": "kg kilo kilos kilogram kilograms", "gram": "g gram grams", "lb": "lb lbs",
    "ounce": "oz ounce ounces", "ton": "ton tons tonne tonnes", "litre": "l litre litres liter liters",
    "millilitre": "ml", "kilobyte": "kb", "megabyte": "mb", "gigabyte": "gb", "terabyte": "tb",
    "degree": "° degree degrees",
}  # fmt: skip
"""Units with their spellings; they count only beside a number."""
MOMENTS: Final[Mapping[str, str]] = {
    "morning": "morning mornings", "afternoon": "afternoon afternoons", "evening": "evening evenings",
    "night": "night nights tonight overnight", "12:00": "noon midday", "0:00": "midnight", "yesterday": "yesterday",
    "today": "today", "tomorrow": "tomorrow", "weekday": "weekday weekdays", "weekend": "weekend weekends",
    "summer": "summer", "autumn": "autumn", "winter": "winter", "every hour": "hourly", "every day": "daily",
    "every night": "nightly", "every week": "weekly", "every month": "monthly", "every year": "yearly annually",
}  # fmt: skip
"""Named times with their spellings."""
PERIODS: Final = frozenset("hour day night week month year".split())
EACH: Final = frozenset({"every", "each", "per", "a", "an"})
"""Words before a period: "once a week" is "once weekly"."""
RELATIVE: Final = frozenset({"last", "next", "previous"})
"""Words that select a period, month, weekday or named time."""
CAPITALISED: Final = frozenset({"jan", "mar", "march", "may", "dec", "mon", "wed", "sat", "sun"})
"""Months and weekdays that are other words unless capitalised or beside digits."""
MAX_DIGITS: Final = 15
"""Most digits that a scale multiplies; a longer number is an identifier."""

CURRENCIES: Final = frozenset("$€£¥₹")
"""Units before their number."""

_TOKEN: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?!\d)|\d+(?:[.,:]\d+)*|(?<!\w)[vV](?=\d)|[^\W\d_]+\d\w*|[^\W\d_]+|(?<!\w)[-−](?=[$€£¥₹]?\d)|[$€£¥₹%°]"
)
_ISO_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_CLOCK: Final = re.compile(r"(\d{1,2})[:.](\d\d)(:\d\d)?")


def _by_spelling(table: Mapping[str, str]) -> dict[str, str]:
    return {spelling: name for name, spellings in table.items() for spelling in spellings.split()}


def _by_form(names: Sequence[str]) -> dict[str, int]:
    """Return the number of each name by its name, plural and first three letters."""
    return {form: number for number, name in enumerate(names, start=1) for form in (name, f"{name}s", name[:3])}


_UNIT: Final = _by_spelling(UNITS)
_MONTH: Final = {**_by_form(MONTHS), "sept": 9}
_WEEKDAY: Final = {**_by_form(WEEKDAYS), "tues": 2, "thur": 4, "thurs": 4}
_MOMENT: Final = {**_by_spelling(MOMENTS), **{form: WEEKDAYS[number - 1] for form, number in _WEEKDAY.items()}}
_AFTER_RELATIVE: Final = PERIODS | _MONTH.keys() | _MOMENT.keys()
_FIRST: Final = (
    {*CARDINALS, *HUNDREDS} | ORDINALS.keys() | MULTIPLES.keys() | _MONTH.keys() | _MOMENT.keys() | EACH | RELATIVE
)
"""Words that can begin a value."""

Words = Sequence[str]
Value = tuple[int, list[str]]
"""The position after a value, and the distinctions that it gives."""


def numerals(content: str) -> list[str]:
    """Return the numbers and dates of `content` as `number:...` and `date:...`, in order, with repetitions.

    Equal values read the same: "2" and "two", "$30" and "30 dollars", "3 May 2023" and "2023-05-03", "3 pm" and
    "15:00". A number with a unit gives two values, `number:30` and `number:30 minute`, and a day also gives its month,
    `date:month 5` and `date:5-3`, so that the values of a less specific text are among those of a more specific one. A
    number that is part of nothing else stands for itself.
    """
    tokens = list(chain.from_iterable(map(_TOKENS.__getitem__, content.split())))
    words = [token.casefold() for token in tokens]
    for at, token in enumerate(tokens):
        if token in CAPITALISED and not any(
            word[:1].isdecimal() or word in ENDINGS for word in (_at(words, at - 1), _at(words, at + 1))
        ):
            words[at] = "_"  # "may", "march" and "sun" in lower case are no dates
    found: list[str] = []
    end = 0
    for at, word in enumerate(words):
        if at >= end and (word in _FIRST or not word.isalpha()):
            end, values = _value(words, at)
            found += values
    return found


def _tokens(part: str) -> tuple[str, ...]:
    """Return the words, numbers and signs of a text without white space."""
    if is_plain_word(part):
        return (part,)
    normal = unicodedata.normalize("NFKC", part)
    if not normal.isascii():
        normal = "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in normal)
    return tuple(_TOKEN.findall(normal))


_TOKENS: Final = Kept(_tokens)  # a bulk write reads the same words again and again


def _at(words: Words, at: int) -> str:
    return words[at] if 0 <= at < len(words) else ""


def _value(words: Words, at: int) -> Value:
    """Return the value that begins at a position."""
    word, before, after = words[at], _at(words, at - 1), _at(words, at + 1)
    if word[0].isdecimal():
        return _figures(words, at)
    if word in CARDINALS or word in HUNDREDS:
        return _written(words, at)
    values: list[str] = []
    if word in ORDINALS:
        values = [] if word == "second" and before in EACH else [f"number:rank {ORDINALS[word]}"]
    elif word in MULTIPLES:
        values = [f"number:{MULTIPLES[word]}"]
    elif word in _MONTH:
        if not _is_day(after):
            return _month(words, at + 1, _MONTH[word], None)
        return _month(words, at + 2 + (_at(words, at + 2) in ENDINGS), _MONTH[word], int(after))
    elif word in _MOMENT:
        values = [f"date:{_MOMENT[word]}"]
    elif word in EACH and after in PERIODS:
        return at + 2, [f"date:every {after}"]
    elif word in RELATIVE and after in _AFTER_RELATIVE:
        values = [f"date:{word}"]
    elif any(map(str.isdecimal, word)):
        values = [f"number:{word}"]
    return at + 1, values


def _is_day(word: str) -> bool:
    return word.isdecimal() and len(word) <= 2 and 1 <= int(word) <= 31


def _day(month: int, day: int | None, year: str) -> list[str]:
    days = [] if day is None else [f"date:{month}-{day}"]
    return [f"date:month {month}", *days, *([f"number:{year}", f"date:{year} {month}"] if year else [])]


def _month(words: Words, at: int, month: int, day: int | None) -> Value:
    """Return a month or day with the year that follows it, if any."""
    year = _at(words, at)
    return (at + 1, _day(month, day, year)) if year.isdecimal() and len(year) == 4 else (at, _day(month, day, ""))


def _figures(words: Words, at: int) -> Value:
    """Return a date, a time of day, a rank, or a number with sign, scale and unit; "1,000" is one number, "1,2" two."""
    word, after, end = words[at], _at(words, at + 1), at + 1
    if match := _ISO_DATE.fullmatch(word):
        return end, _day(int(match[2]), int(match[3]), match[1])
    clock, half, past_half = _CLOCK.fullmatch(word), after, at + 2
    if half in ("a", "p") and _at(words, at + 2) == "m":
        half, past_half = f"{half}m", at + 3
    hour, rest = (clock[1], f"{clock[2]}{clock[3] or ''}") if clock else (word, "00")
    if half in ("am", "pm") and hour.isdecimal() and int(hour) <= 12:
        return past_half, [f"date:{int(hour) % 12 + 12 * (half == 'pm')}:{rest}"]
    if clock and ":" in word and half not in ("am", "pm"):
        return end, [f"date:{int(hour)}:{rest}"]
    past_of = end + (after in ENDINGS)
    past_of += _at(words, past_of) == "of"
    if _is_day(word) and _at(words, past_of) in _MONTH:
        return _month(words, past_of + 1, _MONTH[words[past_of]], int(word))
    if after in ENDINGS:
        return at + 2, [f"number:rank {word}"]
    if not _THOUSANDS.fullmatch(word) and re.search("[,:]", word):
        return end, [f"number:{figures}" for figures in re.split("[,:]", word)]
    number = word.replace(",", "")
    if after in SCALES and number.count(".") <= 1 and len(number) <= MAX_DIGITS:
        number, end = f"{(Decimal(number) * SCALES[after]).normalize():f}", end + 1
    money = _UNIT[words[at - 1]] if _at(words, at - 1) in CURRENCIES else ""
    sign = _at(words, at - 2 if money else at - 1)
    return _with_unit(words, end, f"-{number}" if sign in ("-", "−") else number, money)


def _with_unit(words: Words, end: int, number: str, unit: str = "") -> Value:
    if not unit and _at(words, end) in _UNIT:
        unit, end = _UNIT[words[end]], end + 1
    return end, [f"number:{number}", *([f"number:{number} {unit}"] if unit else [])]


def _written(words: Words, at: int) -> Value:
    """Return a number in words: "two", "twenty-five", "a hundred and two", "three million", "twenty-first"."""
    if words[at] == "one" and (_at(words, at - 1) in BEFORE_A_PRONOUN or _at(words, at + 1) in AFTER_A_PRONOUN):
        return at + 1, []
    total, current, room, end = 0, 0, inf, at
    while True:  # the next word belongs to the same number if it is below `room`
        word = _at(words, end)
        if CARDINALS.get(word, inf) < room:
            current += CARDINALS[word]
            room = 10 if current % 100 >= 20 and current % 10 == 0 else 0
        elif word in HUNDREDS:
            current, room = max(current, 1) * HUNDREDS[word], HUNDREDS[word]
            if room >= 1000:
                total, current = total + current, 0
        elif not (word == "and" and 100 <= room < inf and CARDINALS.get(_at(words, end + 1), inf) < room):
            break
        end += 1
    if room == 10 and _at(words, end) in ORDINALS:
        return end + 1, [f"number:rank {total + current + ORDINALS[words[end]]}"]
    return _with_unit(words, end, str(total + current))
