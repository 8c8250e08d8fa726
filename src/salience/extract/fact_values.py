"""Checks of the values and subjects of facts, in English: is this a place, a tool, an occupation?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

from salience.extract.wordlists import CALENDAR, MONTHS, NEITHER, ORDINARY, load

MAX_WORDS: Final = 6
"""Longest value, in words."""
MAX_AGE: Final = 120
SPELLINGS: Final[Mapping[str, str]] = {"color": "colour", "theater": "theatre", "film": "movie"}
"""Words that a key spells in one way."""
_LISTS: Final = {name: frozenset(words) for name, words in load("facts").items()}
SKIPPED: Final = _LISTS["skipped"]
ACTIVITIES: Final = _LISTS["activities"]
NOUNS_IN_ING: Final = _LISTS["nouns_in_ing"]
SINGULAR_IN_S: Final = _LISTS["singular_in_s"]
PLURALS_OF_IE: Final = _LISTS["plurals_of_ie"]
WITH_TO: Final = _LISTS["with_to"]
TALKS: Final = _LISTS["talks"]
GUARDS: Final = _LISTS["guards"]
NO_NAMES: Final = _LISTS["no_persons"] | _LISTS["no_names"]
NO_PLACES: Final = _LISTS["no_places"] | _LISTS["tools"] | _LISTS["holidays"]
COMMON: Final = NEITHER | ORDINARY | frozenset("he she it they you one everyone people".split())
"""Words that are no name of a subject."""
_PLACES: Final = {name: frozenset(words) for name, words in load("places").items()}
LISTED: Final = _PLACES["countries"] | _PLACES["regions"] | _PLACES["towns"]

_JOINED = frozenset("of the de del da do la le las los el upon am an der den und y sur".split())
_NUMBER = re.compile(r"\d")
_MAIL = re.compile(r"\S+@\S+\.\w+")
_PHONE = re.compile(r"\+?[\d /.-]{5,}")
_BLOOD = re.compile(r"(?:A|B|AB|O|0)(?: ?(?:[+-]|positive|negative|pos|neg))?", re.IGNORECASE)
_WORKER = re.compile(r".{2,}(?:er|or|ist|ista|ian|eer|yst|ant|ress|man|woman|person)s?")
_MEASURE = re.compile(
    r"[$€£¥₹]? ?\d[\d.,'’]*\"? ?(?:k|kg|kgs|kilos?|kilograms?|lbs?|pounds?|st|stone|cm|m|metres?|meters?|ft|feet|foot|"
    r"in|inch|inches|euros?|dollars?|eur|usd|gbp|chf|€|\$|£)?(?: \d+(?: ?(?:in|inch|inches|cm|\"))?)?"
    r"(?: (?:a|per) (?:year|month|hour|week))?",
    re.IGNORECASE,
)
_DAY = re.compile(rf"\b(?i:{'|'.join(f'{month[:3]}(?:{month[3:]})?' for month in MONTHS)}|sept)\b|\d[./-]\d")
_ZONE = re.compile(r"(?:UTC|GMT)\b.*|[A-Z]{2,5}|[A-Z]\w+/\w+|[A-Z]\w+(?: [A-Z]\w+)* (?:[Tt]ime|[Ss]tandard [Tt]ime)")
_AGE = re.compile(r"\d{1,3}(?: years old)?")


def plain(value: str) -> bool:
    """Return whether `value` names one thing: a few words that are no clause, list or remark."""
    words = [word.casefold() for word in value.split()]
    bare = words[1:] if words[:1] and words[0] in ("a", "an", "the") else words
    if not bare or value.split()[0] in _LISTS["prepositions"]:
        return False
    if "," in value or len(words) > MAX_WORDS or not _LISTS["clause"].isdisjoint(words):
        return False
    if words[-1] in _LISTS["measured"] and value.split()[-1].islower() and (len(words) > 1):
        return False
    return bare[0] not in _LISTS["remarks"] and not (bare[0].endswith("ed") and bare[0] != "red" and bare[0] in value)


def named(value: str) -> bool:
    """Return whether `value` is a name: plain, and capitalised except for the small words inside a name."""
    words = value.removeprefix("the ").removeprefix("The ").split()
    capital = [word[:1].isupper() or word.casefold() in _JOINED for word in words]
    return plain(value) and all(capital) and words[0][0].isupper() and words[0].casefold() not in NEITHER


def person(value: str) -> bool:
    """Return whether `value` can name a person."""
    return named(value) and not any(value.casefold() in _LISTS[name] for name in ("no_persons", "tools", "employers"))


def tool(value: str) -> bool:
    """Return whether `value` names a tool: a name, a word with a capital or digit, or a listed tool."""
    first = value.split()[0]
    return plain(value) and (named(value) or first.casefold() in _LISTS["tools"] or first != first.lower())


def place(value: str) -> bool:
    """Return whether `value` can be a residence: a known place, or a capitalised name of nothing else.

    In a script without capitals any words can be a place.
    """
    if value.casefold() not in NO_PLACES and all(map(is_known, _parts(value))):
        return True
    words = value.replace(",", "").casefold().split()
    inner = any(sign.isupper() or sign.isdigit() for word in value.split() for sign in word[1:] if not word.isupper())
    is_name = _has_no_case(value) or named(value.replace(",", ""))
    is_other = not (NO_PLACES | CALENDAR).isdisjoint(words) or _LISTS["no_persons"].issuperset(words)
    return is_name and not inner and not is_other


def destination(value: str) -> bool:
    """Return whether `value` can be a place that someone moved to: a known place, since people move to many things."""
    return place(value) and (_has_no_case(value) or any(map(is_known, _parts(value))))


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]


def _has_no_case(value: str) -> bool:
    """Return whether `value` is written in a script without capitals."""
    return value.upper() == value.lower() and all(word.isalpha() for word in value.split())


def employer(value: str) -> bool:
    """Return whether `value` can be an employer."""
    return named(value) and (CALENDAR | _LISTS["holidays"]).isdisjoint(value.casefold().split())


def language(value: str) -> bool:
    """Return whether `value` can be a native language."""
    return named(value) and value.casefold() not in _LISTS["tools"]


def favoured(value: str, what: str) -> bool:
    """Return whether `value` names the favourite `what` instead of only describing it."""
    words, about = value.casefold().split(), set(what.casefold().split())
    if words[0] in ("a", "an"):
        return False
    if len(words) == 1 and value.islower() and words[0] in _LISTS["descriptions"]:
        return not about.isdisjoint(_LISTS["coloured"])
    return len(words) > 1 or words[0] not in _LISTS["no_persons"] or not about.isdisjoint(_LISTS["peoples"])


def job(value: str) -> bool:
    """Return whether `value` can be an occupation: by its ending, its name, or a capitalised title.

    A form of address, or a job at some time or place only, is none.
    """
    words = value.split()
    last = words[-1].casefold()
    if not (named(value) or _WORKER.fullmatch(last) or last in _LISTS["occupations"]):
        return False
    if not {"on", "in", "at", "during"}.isdisjoint(words) or value.rstrip(".") in ("Dr", "Mr", "Mrs", "Ms", "Prof"):
        return False
    return plain(value) and not _NUMBER.search(value) and not value.casefold().endswith("ing")


def dated(value: str) -> bool:
    """Return whether `value` is a day: a number with a month, or in the form of a date."""
    words = value.casefold().replace(",", "").split()
    is_short = len(words) <= MAX_WORDS and _LISTS["clause"].isdisjoint(words)
    return is_short and bool(_NUMBER.search(value)) and bool(_DAY.search(value))


def placed(value: str) -> bool:
    """Return whether `value` is an address: a number and a name, and no distance."""
    if not {"from", "away", "blocks", "minutes"}.isdisjoint(value.casefold().split()):
        return False
    return bool(_NUMBER.search(value)) and bool(re.search("[A-Z]", value)) and len(value.split()) <= 2 * MAX_WORDS


def favourite(what: str) -> bool:
    """Return whether `what` can have one favourite: one to three words, or the time of day or year."""
    words = what.casefold().split()
    if what.casefold() in ("time of day", "time of year", "day of the week", "season of the year"):
        return True
    return len(words) <= 3 and _LISTS["no_favourites"].isdisjoint(words) and named_thing(what)


def named_thing(what: str) -> bool:
    """Return whether `what` is a few words without a clause or a preposition."""
    words = what.casefold().split()
    joined = {"of", "in", "on", "at", "for", "from", "with", "by", "about", "among", "so", "far"}
    return 0 < len(words) <= 4 and joined.isdisjoint(words) and _LISTS["clause"].isdisjoint(words)


def purpose(what: str) -> bool:
    """Return whether `what` can be the purpose of a tool."""
    words = [word for word in what.casefold().split() if word not in SKIPPED]
    if (
        not words
        or words in (["work"], ["data"])
        or not _LISTS["several"].isdisjoint((words[-1], words[-1].rstrip("s")))
    ):
        return False
    return named_thing(what) and words[0] not in _LISTS["no_purposes"] and not _NUMBER.search(what)


CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "plain": plain,
    "name": named,
    "own name": named,
    "person": person,
    "place": place,
    "destination": destination,
    "language": language,
    "tool": tool,
    "employer": employer,
    "job": job,
    "date": dated,
    "address": placed,
    "look": lambda value: plain(value) and not value.casefold().endswith("ing"),
    "age": lambda value: bool(_AGE.fullmatch(value)) and int(value.split()[0]) <= MAX_AGE,
    "blood": lambda value: bool(_BLOOD.fullmatch(value)),
    "currency": lambda value: bool(re.fullmatch("[A-Z]{3}|[$€£¥₹]", value)) or value.casefold() in _LISTS["currencies"],
    "mail": lambda value: bool(_MAIL.fullmatch(value)),
    "phone": lambda value: bool(_PHONE.fullmatch(value)),
    "zone": lambda value: bool(_ZONE.fullmatch(value)) and value != "OK",
    "number": lambda value: bool(_MEASURE.fullmatch(value)),
    "favourite": favourite,
    "purpose": purpose,
}
"""Checks of values and of the middle part of a key, by name."""


_TOWN: Final = re.compile(
    r"(?:(?:San|Santa|Santo|São|Saint|Sainte|St|Los|Las|Fort|Port|Mount|Bad) [^\W\d_]\w+.*"
    r"|.* (?:City|Island|Islands|Beach|County|Valley|Heights|Hills|Springs)"
    r"|\w{2,}(?:ville|burg|burgh|borough|stadt|dorf|grad|abad|polis|mouth|minster|shire|pur|nagar))"
)
"""Forms of towns: "San Mateo", "Iowa City", "Neustadt"."""


def is_known(name: str) -> bool:
    """Return whether a name, as written, is a listed place or has the form of a town."""
    plain = _folded(name)
    if name.islower() and plain in _PLACES["also_words"]:
        return False
    return plain in LISTED or (name[:1].isupper() and _TOWN.fullmatch(name.replace(".", "")) is not None)


def is_country(name: str) -> bool:
    """Return whether a name is a country or continent."""
    return _folded(name) in _PLACES["countries"]


def _folded(name: str) -> str:
    """Return a name in lower case, without article, accents, full stops and hyphens."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(sign for sign in letters if not unicodedata.combining(sign))
    return " ".join(plain.replace(".", "").replace("-", " ").split()).removeprefix("the ")
