"""Facts: the key of the fact that a text states, by which a newer statement replaces an older one.

A wrong key hides a true memory under profiles that keep one memory per fact; a missing key only loses that service. So
a text has a key only if it is one sentence in one of the plain forms of `FORMS`, after removing openings and endings
such as "Actually, ... now". A longer text with such a clause has none, since it states more than the fact and would be
hidden as a whole. Questions, negations, wishes, plans, past states and hearsay have none either.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from salience import text
from salience.extract.fact_values import (
    ACTIVITIES,
    CHECKS,
    COMMON,
    GUARDS,
    NO_NAMES,
    NOUNS_IN_ING,
    PLURALS_OF_IE,
    SINGULAR_IN_S,
    SKIPPED,
    SPELLINGS,
    TALKS,
    WITH_TO,
    favoured,
    is_country,
    named_thing,
    plain,
)
from salience.extract.wordlists import MONTHS
from salience.records.checks import NAME_LIMIT

MAX_LENGTH: Final = 200
"""Longest text, in characters, that is read for a fact; a longer one states more than one."""
USER: Final = "user"
TEAM: Final = "team"
USERS: Final = frozenset({"user", "human", "the user"})
"""Names of the user as a speaker or in a text."""
TEAMS: Final = frozenset({"we", "our", "our team", "the team"})
SELVES: Final = frozenset({"i", "my"})
_SENTENCE_END: Final = re.compile(r"[.!…]\s")
_SIGNS: Final = re.compile(r"(?:\s[^\w\s]+)+\Z")
"""Signs at the end of a line, such as ":)"."""
_MAY: Final = re.compile(r"\bMay\b")
"""The month; "may" makes a sentence uncertain."""
_NOBODY: Final = re.compile(r"(?:Lives|Resides|Works|Moved|Relocated|Uses|Prefers|Switched|Migrated)\b(?= )")
"""Verbs that begin a note about the user: "Lives in Rome"."""


_NAME = r"[A-Z][\w'-]*(?<!'s)(?: [A-Z][\w'-]*(?<!'s)){0,2}"
_WHO = rf"(?P<who>I|[Ww]e|(?:[Oo]ur|[Tt]he) team|(?:[Tt]he )?[Uu]ser|{_NAME})"
_WHOSE = rf"(?P<who>[Mm]y|[Oo]ur|(?:(?:[Oo]ur|[Tt]he) team|(?:[Tt]he )?[Uu]ser|{_NAME})'s)"
_ADVERB = r"(?: (?:now|currently|presently|still|just|recently|finally|officially|permanently|actually))*"
_HAVE = r"(?:(?: have| has|'ve|'s))?"
_BE = r"(?:'m|'s| am| is)"
_IS = r"(?: is|'s)(?: now| currently| actually| still)?"
_CHANGED = r"(?:(?: has| have)?(?: just| recently)?| was| has been| got) changed(?: from .+)? to"
_BECAME = rf"(?:{_IS}|{_CHANGED})"
_WORDS = r"[^\s,;:!?()](?:[^,;:!?()]*[^\s,;:!?()])?"
_VALUE = rf"(?P<value>{_WORDS})"
_WHAT = rf"(?P<what>{_WORDS})"
_OLD = rf"(?:from (?P<old>{_WORDS}) )?"
_PLACE = rf"(?P<value>{_WORDS}(?:, {_WORDS})?)"
_PRONOUN = r"(?:my|our|his|her|their|the user's)"
_KIND = r"(?:(?P<what>work|home|personal|office|private|business|editor|terminal|ide|shipping|billing|mobile) )?"


@dataclass(frozen=True, slots=True)
class Attribute:
    """A property with one value at a time.

    Attributes:
        key: its part of the key.
        spellings: alternatives of a pattern, longer ones first.
        check: the check of its value, a name of `fact_values.CHECKS`.
    """

    key: str
    spellings: str
    check: str


ATTRIBUTES: Final[Sequence[Attribute]] = (
    Attribute("name", "full name|name", "own name"),
    Attribute("nickname", "nickname|nick name", "name"),
    Attribute("username", "username|user name|login|handle", "plain"),
    Attribute("pronouns", "pronouns?", "plain"),
    Attribute("age", "age", "age"),
    Attribute("birthday", "birthday|date of birth|birth date|birthdate", "date"),
    Attribute("email", "e-?mail(?: address)?", "mail"),
    Attribute("phone", "(?:tele)?phone(?: number)?|(?:cell|mobile)(?: phone)? number", "phone"),
    Attribute("address", "address|postal address|street address", "address"),
    Attribute("timezone", "time ?zone", "zone"),
    Attribute("residence", "(?:place|city|town|country) of residence|home city|residence", "place"),
    Attribute("hometown", "home ?town", "place"),
    Attribute("birthplace", "birthplace|place of birth", "place"),
    Attribute("employer", "employer|company", "employer"),
    Attribute("job", "job title|job|occupation|profession", "job"),
    Attribute("title", "title", "job"),
    Attribute("role", "role", "job"),
    Attribute("manager", "manager|boss|line manager|supervisor", "person"),
    Attribute("wife", "wife's name|wife", "person"),
    Attribute("husband", "husband's name|husband", "person"),
    Attribute("partner", "partner's name|partner|spouse|fiancée?", "person"),
    Attribute("girlfriend", "girlfriend's name|girlfriend", "person"),
    Attribute("boyfriend", "boyfriend's name|boyfriend", "person"),
    Attribute("mother", "mother's name|mom's name|mum's name", "person"),
    Attribute("father", "father's name|dad's name", "person"),
    Attribute("native_language", "native language|first language|mother tongue", "language"),
    Attribute("preferred_language", "preferred language|preferred programming language", "plain"),
    Attribute("nationality", "nationality|citizenship", "name"),
    Attribute("blood_type", "blood type|blood group", "blood"),
    Attribute("height", "height", "number"),
    Attribute("weight", "weight|body weight", "number"),
    Attribute("shoe_size", "shoe size", "number"),
    Attribute("salary", "salary|annual salary", "number"),
    Attribute("theme", "theme|colou?r theme|colou?r scheme|ui theme", "look"),
    Attribute("editor", "(?:code |text )?editor|ide", "tool"),
    Attribute("operating_system", "operating system|os", "tool"),
    Attribute("browser", "(?:default |main )?browser", "tool"),
    Attribute("shell", "shell", "tool"),
    Attribute("currency", "currency|preferred currency|base currency", "currency"),
)

TOOLS: Final = (
    r"(?:primary |main |production )?(?:database|data store|message queue|queue|message broker|cache|ci|ci system|"
    r"issue tracker|linter|formatter|test runner|test framework|package manager|build tool|cloud provider|"
    r"(?:web|frontend|backend) framework|search engine|data warehouse|orm|identity provider|monitoring(?: tool)?|"
    r"logging|version control|error tracker|feature flag service|(?:payment|e-?mail) provider|vector store)"
)
"""Purposes for which a team has one tool, as in "our database is PostgreSQL"."""


@dataclass(frozen=True, slots=True)
class Form:
    """A way to state a fact.

    Attributes:
        pattern: matches the whole sentence; has the groups `who` and `value`, and `attribute` or `what` if the key has.
            The ending of a group `verb` shows whether the subject is one third person.
        key: the key after the subject.
        check: the check of the value, a name of `fact_values.CHECKS`; an attribute has its own.
        kinds: the check of `what`, a name of `fact_values.CHECKS`; None if `what` is optional.
        is_taste: whether the statement gets no fact key, since people can like several things, and only helps to label
            a pair of texts.
    """

    pattern: str
    key: str
    check: str = "plain"
    kinds: str | None = None
    is_taste: bool = False


_ATTRIBUTE = rf"(?P<attribute>(?i:{'|'.join(one.spellings for one in ATTRIBUTES)}))"
_MOVED = r"moved(?: back| over| permanently)?"
_SWITCHED = r"(?:switched|migrated|changed)(?: over)?"
_USED = ("uses.{what}", "plain", "purpose")
_LIKED = ("favourite.{what}", "plain", "favourite")
FORMS: Final[Sequence[Form]] = (
    Form(rf"{_WHO}{_ADVERB} (?P<verb>lives?|resides?){_ADVERB} in {_PLACE}", "residence", "place"),
    Form(rf"{_WHO}{_BE}{_ADVERB} (?:based|living|residing) in {_PLACE}", "residence", "place"),
    Form(rf"{_WHO}{_HAVE}{_ADVERB} {_MOVED} to {_PLACE} from (?P<old>{_WORDS})", "residence", "destination"),
    Form(rf"{_WHO}{_HAVE}{_ADVERB} {_MOVED} {_OLD}to {_PLACE}", "residence", "destination"),
    Form(rf"{_WHO}{_HAVE}{_ADVERB} relocated to {_PLACE} from (?P<old>{_WORDS})", "residence", "place"),
    Form(rf"{_WHO}{_HAVE}{_ADVERB} relocated {_OLD}to {_PLACE}", "residence", "place"),
    Form(rf"{_WHO}{_ADVERB} (?P<verb>works?){_ADVERB} (?:at|for) {_VALUE}", "employer", "employer"),
    Form(rf"{_WHO}{_BE}{_ADVERB} (?:working|employed) (?:at|for|by) {_VALUE}", "employer", "employer"),
    Form(rf"{_WHO}{_HAVE}{_ADVERB} started(?: at| work at| working (?:at|for)) {_VALUE}", "employer", "employer"),
    Form(rf"{_WHO}{_HAVE}{_ADVERB} (?:got|took) a (?:new )?job (?:at|with) {_VALUE}", "employer", "employer"),
    Form(rf"{_WHO}{_ADVERB} (?P<verb>works?){_ADVERB} as (?P<value>an? {_WORDS})", "job", "job"),
    Form(rf"{_WHO}{_BE}{_ADVERB} working as (?P<value>an? {_WORDS})", "job", "job"),
    Form(rf"(?P<who>(?:[Tt]he )?[Uu]ser|I)(?:'m| am| is) (?:called|named) {_VALUE}", "name", "own name"),
    Form(rf"{_WHO}{_BE}{_ADVERB} (?P<value>\d{{1,3}} years old)", "age", "age"),
    Form(rf"{_WHO}{_HAVE}{_ADVERB} turned (?P<value>\d{{1,3}}(?: years old)?)", "age", "age"),
    Form(rf"{_WHO}{_BE}{_ADVERB} in (?:the )?(?P<value>\S+(?: \S+){{0,2}})(?i: time ?zone)", "timezone", "name"),
    Form(
        rf"{_WHOSE} (?:current |new |all-time |all time )?favou?rite {_WHAT}{_BECAME} {_VALUE}",
        *_LIKED,
    ),
    Form(
        rf"{_VALUE}(?: is|'s)(?: now| still)? {_WHOSE} (?:current |new |all-time |all time )?favou?rite {_WHAT}",
        *_LIKED,
    ),
    Form(
        rf"{_WHO}{_ADVERB} (?P<verb>prefers?|likes?|uses?)(?: the| a| to use)? (?P<value>dark|light) (?:mode|theme)s?"
        r"(?: (?:to|over) (?:dark|light)(?: (?:mode|theme)s?)?)?",
        "theme",
        is_taste=True,
    ),
    Form(
        rf"{_WHO}{_HAVE}{_ADVERB} (?:switched|changed) (?:(?:back )?to|{_PRONOUN} theme to)(?: the| a)? "
        r"(?P<value>dark|light)(?: (?:mode|theme))",
        "theme",
    ),
    Form(rf"{_WHOSE} (?:current |new |primary |main )?{_KIND}{_ATTRIBUTE}{_BECAME} {_PLACE}", "{attribute}.{what}"),
    Form(
        rf"{_WHO}{_HAVE}{_ADVERB} (?:changed|updated|set|switched) {_PRONOUN} {_KIND}{_ATTRIBUTE} {_OLD}to {_PLACE}",
        "{attribute}.{what}",
    ),
    Form(rf"{_WHO}{_ADVERB} (?P<verb>uses?) {_VALUE} for {_WHAT}", *_USED),
    Form(rf"{_WHO}{_BE}{_ADVERB} using {_VALUE} for {_WHAT}", *_USED),
    Form(rf"{_WHO}{_HAVE}{_ADVERB} {_SWITCHED} {_OLD}to (?:using )?{_VALUE} for {_WHAT}", *_USED),
    Form(
        rf"{_WHO}{_HAVE}{_ADVERB} (?:switched|migrated) (?P<what>(?!from |to |over |back )(?:\S+ ){{0,3}}?\S+) "
        rf"{_OLD}to {_VALUE}",
        *_USED,
    ),
    Form(rf"{_WHO}{_HAVE}{_ADVERB} replaced (?P<old>{_WORDS}) with {_VALUE} for {_WHAT}", *_USED),
    Form(
        rf"(?P<who>[Oo]ur|[Tt]he team's) (?:current |new )?(?P<what>(?i:{TOOLS})){_BECAME} {_VALUE}",
        "uses.{what}", "tool",
    ),
    Form(
        rf"{_WHO}{_ADVERB} (?P<verb>prefers?){_ADVERB} (?:to use |using )?{_VALUE} for {_WHAT}",
        "prefers.{what}", "plain", "purpose",
    ),
)  # fmt: skip
"""The forms; the first match counts."""
_PREFERENCE = r"(?P<word>to|over|rather than|instead of)"
EITHER: Final = rf"{_WHO}{_ADVERB} (?P<verb>prefers?) (?P<one>{_WORDS}) {_PREFERENCE} (?P<other>{_WORDS})"
"""A choice between two: its key names both in alphabetical order, its value is the first."""

_MONTH = "|".join(month.title() for month in MONTHS)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_WHEN = rf"(?:\d{{4}}-\d\d(?:-\d\d)?|(?:{_DAY} )?(?:{_MONTH})(?: {_DAY})?,?(?: \d{{4}})?|\d{{4}})"
OPENING: Final = re.compile(
    r"(?i:(?:(?:actually|btw|by the way|fyi|for the record|just so you know|just to let you know|hi|hello|hey|oh|so|"
    r"well|yes|yeah|yep|note|fact|update|correction|decision|preference|reminder|now|currently|these days|nowadays|"
    r"today|recently|from now on|good news|note to self|new|again)(?: there)?\s*(?:[,:!.–—-]+(?:\s+|\Z)|\Z))"
    r"|(?:(?:please )?remember(?: that|:)?|(?:please )?note that|keep in mind that|it turns out(?: that)?)\s+"
    rf"|(?:as of|since|from) (?:now|today|{_WHEN}),?\s+"
    r"|\[?\d{4}-\d\d-\d\d\]?:?\s+|[-*•]\s+)"
)
"""Openings that say nothing about the fact."""
TAILS: Final = re.compile(
    r"(?<!\bis)(?:,? (?:now|currently|these days|nowadays|at present|again|yesterday|recently|instead|actually|too|"
    r"right now|last (?:week|month|weekend)|a (?:few|couple of) (?:days|weeks|months) ago|"
    rf"(?:as of|since|from) (?:now|today|last (?:week|month|year)|{_WHEN})|in (?:{_MONTH})|on {_WHEN}|btw|by the way|"
    r"because .+|due to .+|thanks to .+|(?:instead of|rather than) \S+(?: \S+){0,3}|"
    r"(?:and )?no longer(?: in| at| for)? \S+(?: \S+){0,3})"
    r"|, (?:and )?not (?!sure|really|that|yet|any|only|just|for|to)\S+(?: \S+){0,3})\Z",
    re.IGNORECASE,
)
"""Endings that do not change a fact: its time, reason or previous value."""


class Fact(NamedTuple):
    """A fact: its key, such as `user.residence`, its value as written, and `is_taste` as in `Form`."""

    key: str
    value: str
    is_taste: bool = False


def fact_key(content: str, *, speaker: str | None = None, user_id: str | None = None) -> str | None:
    """Return the key of the fact that `content` states, such as `user.residence`; None for no fact and for a taste."""
    found = fact(content, speaker=speaker, user_id=user_id)
    return None if found is None or found.is_taste else found.key


def may_state(content: str) -> bool:
    """Return whether a text can state a fact: one short sentence that is no question, negation, wish or plan."""
    return _sentence(content, None) is not None


@lru_cache(maxsize=4096)
def fact(content: str, *, speaker: str | None = None, user_id: str | None = None) -> Fact | None:
    """Return the fact that a text states in one of `FORMS`, or None.

    The key is `subject.attribute` or `subject.attribute.what`, in lower case, with `_` between words. The subject of
    the first person is the speaker. "The user", a speaker called user, and the name `user_id` are `user`; "we" and "our
    team" are `team`; others have their name. "I live in Berlin" and "I moved to Lisbon" have the same key.

    Args:
        content: any text.
        speaker: the speaker; None for the user or an unknown speaker.
        user_id: the user whose memory this is.
    """
    sentence = _sentence(content, user_id)
    if sentence is None:
        return None
    for form in FORMS:
        match = re.fullmatch(form.pattern, sentence)
        if match and (found := _read(form, match, speaker, user_id)):
            return found
    return _either(sentence, speaker, user_id)


def _sentence(content: str, user_id: str | None) -> str | None:
    """Return the sentence of a text that can state a fact, without opening and ending, or None."""
    if len(content) > MAX_LENGTH or "?" in content or "\n" in content.strip():
        return None
    line = " ".join(unicodedata.normalize("NFKC", content).replace("’", "'").split())
    line = _SIGNS.sub("", line).rstrip(" .!…\"'")
    while opening := OPENING.match(line):
        line = line[opening.end() :]
    while tail := TAILS.search(line):
        line = line[: tail.start()]
    if verb := _NOBODY.match(line):
        line = f"User {verb[0].lower()}{line[verb.end() :]}"
    elif user_id and line.casefold().startswith((f"{user_id.casefold()} ", f"{user_id.casefold()}'s ")):
        line = f"User{line[len(user_id) :]}"
    elif line.startswith(("i ", "i'")):
        line = f"I{line[1:]}"
    is_one = not _SENTENCE_END.search(line)
    return line if is_one and GUARDS.isdisjoint(text.words(_MAY.sub("", line))) else None


def _read(form: Form, match: re.Match[str], speaker: str | None, user_id: str | None) -> Fact | None:
    """Return the fact of a sentence that matches a form; None if its parts are not plausible."""
    groups = match.groupdict()
    value, old, what = groups["value"], groups.get("old"), groups.get("what") or ""
    attribute = _attribute(groups["attribute"]) if "attribute" in groups else None
    subject, about, check = _subject(match, speaker, user_id), slug(what), attribute.check if attribute else form.check
    named = value
    if check == "own name" and not value.startswith("the ") and value not in NO_NAMES and len(value.split()) <= 2:
        rest = match.string.removeprefix("I").removeprefix("User").removeprefix("My")
        named = value.title() if rest == rest.lower() else value  # a line without capitals
    if subject is None or not CHECKS[check](named):
        return None
    if check in ("place", "destination") and old and not CHECKS["place"](old):
        return None
    if form.kinds is not None and not (about and CHECKS[form.kinds](what)):
        return None
    is_odd = _is_doing(value) and ACTIVITIES.isdisjoint(text.words(what))
    if form.kinds == "favourite" and (is_odd or not favoured(value, what)):
        return None
    if subject == TEAM and not form.key.startswith("uses."):
        return None
    key = form.key.format(attribute=attribute and attribute.key, what=about)
    if key == "residence" and "old" not in groups and is_country(value):
        key = "residence.country"  # living in Germany leaves "lives in Berlin" true; moving to Germany does not
    key = f"{subject}.{key}".rstrip(".")
    return Fact(key, value, form.is_taste) if len(key) <= NAME_LIMIT else None


def _attribute(spelling: str) -> Attribute | None:
    return next((one for one in ATTRIBUTES if re.fullmatch(one.spellings, spelling, re.IGNORECASE)), None)


def attribute_key(spelling: str) -> str | None:
    """Return the key of an attribute in any spelling, such as `email` for "e-mail", or None."""
    attribute = _attribute(spelling)
    return attribute.key if attribute else None


def _either(sentence: str, speaker: str | None, user_id: str | None) -> Fact | None:
    """Return the choice between two things that a sentence states, or None."""
    match = re.fullmatch(EITHER, sentence)
    subject = match and _subject(match, speaker, user_id)
    if match is None or subject is None:
        return None
    one, other = match["one"], match["other"]
    last = one.split()[-1].casefold()
    if one.startswith("to ") or not all(plain(choice) and named_thing(choice) for choice in (one, other)):
        return None
    if match["word"] == "over" and last in TALKS:
        return None
    if match["word"] == "to" and (  # "I prefer walking to work", "I prefer Alice to go first"
        _is_doing(one) != _is_doing(other) or last in WITH_TO or one[0].isupper() != other[0].isupper()
    ):
        return None
    choices = sorted(map(slug, (one, other)))
    key = f"{subject}.prefers.{'_or_'.join(choices)}"
    return Fact(key, one) if all(choices) and len(key) <= NAME_LIMIT else None


def _is_doing(value: str) -> bool:
    word = value.split()[-1]
    return word.endswith("ing") and word.islower() and word not in NOUNS_IN_ING


def _subject(match: re.Match[str], speaker: str | None, user_id: str | None) -> str | None:
    """Return the subject of a fact as in its key; None if it is unclear or plural."""
    who = text.normalise(match["who"]).removesuffix("'s")
    if who not in TEAMS | SELVES:
        is_plural = not match.groupdict().get("verb", "s").endswith("s")  # "penguins live"
        if is_plural or (who not in USERS and not COMMON.isdisjoint(who.split())):
            return None
    return subject_key(who, speaker, user_id)


def subject_key(who: str, speaker: str | None, user_id: str | None) -> str | None:
    """Return a subject in normal form as in a key; None if it has no word."""
    if who in TEAMS:
        return TEAM
    if who in SELVES:
        who = text.normalise(speaker or USER)
    if who in USERS or (user_id is not None and who == text.normalise(user_id)):
        return USER
    return "_".join(text.words(who)) or None


def slug(words: str) -> str:
    """Return words as a part of a key: singular, in one spelling, joined by `_`. A capitalised word is a name."""
    names = {text.normalise(word) for word in words.split() if word[0].isupper() and not word[:-1].isupper()}
    parts = [word if word in names else _singular(word) for word in text.words(words) if word not in SKIPPED]
    return "_".join(SPELLINGS.get(word, word) for word in parts)


def _singular(word: str) -> str:
    """Return the singular of an English noun in small letters."""
    if len(word) <= 3 or not word.endswith("s") or word.endswith(("ss", "us", "is")) or word in SINGULAR_IN_S:
        return word
    if word.endswith("ies") and word not in PLURALS_OF_IE:
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("sses", "xes", "shes", "tches", "nches", "rches")) else word[:-1]
