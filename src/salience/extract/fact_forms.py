"""What plain statements of a fact look like in English, one row of `FORMS` each, and what their values may be.

A form is matched against a whole sentence without its opening and its tail ("Actually, ... now"), so that a clause in
a longer text states no fact. Of `what`, such as the colour in "my favourite colour", a form makes a part of the key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from salience.extract.numerals import MONTHS

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
    """What somebody has one of at a time.

    Attributes:
        key: its part of the key.
        spellings: what it is called, as alternatives of a pattern, the longer before the shorter.
        check: what its value must be, a name of `fact_values.CHECKS`.
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
"""What has one value at a time; a new one replaces the old."""

TOOLS: Final = (
    r"(?:primary |main |production )?(?:database|data store|message queue|queue|message broker|cache|ci|ci system|"
    r"issue tracker|linter|formatter|test runner|test framework|package manager|build tool|cloud provider|"
    r"(?:web|frontend|backend) framework|search engine|data warehouse|orm|identity provider|monitoring(?: tool)?|"
    r"logging|version control|error tracker|feature flag service|(?:payment|e-?mail) provider|vector store)"
)
"""What a team has one tool for; without "for" as well: "our database is PostgreSQL"."""


@dataclass(frozen=True, slots=True)
class Form:
    """A way to state a fact.

    Attributes:
        pattern: matches the whole sentence; groups `who`, `value`, and, where the key has `{attribute}` or `{what}`,
            these; a `verb` that stands in the present shows by its ending whether one third person is meant.
        key: what follows the subject in the key.
        check: what the value must be, a name of `fact_values.CHECKS`; that of the attribute, where the key has one.
        kinds: what `{what}` must be, a name of `fact_values.KINDS`; None where it may be missing.
        is_taste: whether it only tells what two texts are to each other: somebody may like both.
        holding: what each such sentence holds, where the pattern takes long to find that it does not match.
    """

    pattern: str
    key: str
    check: str = "plain"
    kinds: str | None = None
    is_taste: bool = False
    holding: str = ""


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
        holding="favo",
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
"""The forms, the most telling first: the first one that matches counts."""
_PREFERENCE = r"(?P<word>to|over|rather than|instead of)"
EITHER: Final = rf"{_WHO}{_ADVERB} (?P<verb>prefers?) (?P<one>{_WORDS}) {_PREFERENCE} (?P<other>{_WORDS})"
"""A choice between two; its key names both in the order of the alphabet, its value is the first."""

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
"""What a sentence may open with and says nothing of the fact itself."""
TAILS: Final = re.compile(
    r"(?<!\bis)(?:,? (?:now|currently|these days|nowadays|at present|again|yesterday|recently|instead|actually|too|"
    r"right now|last (?:week|month|weekend)|a (?:few|couple of) (?:days|weeks|months) ago|"
    rf"(?:as of|since|from) (?:now|today|last (?:week|month|year)|{_WHEN})|in (?:{_MONTH})|on {_WHEN}|btw|by the way|"
    r"because .+|due to .+|thanks to .+|(?:instead of|rather than) \S+(?: \S+){0,3}|"
    r"(?:and )?no longer(?: in| at| for)? \S+(?: \S+){0,3})"
    r"|, (?:and )?not (?!sure|really|that|yet|any|only|just|for|to)\S+(?: \S+){0,3})\Z",
    re.IGNORECASE,
)
"""What may follow a fact and leaves it as it is: when, why, and what it was before."""
TELLTALES: Final = frozenset(
    (
        *"now currently days nowadays present again yesterday recently instead actually too last today ago".split(),
        *"btw way because due thanks rather longer not".split(),
        *MONTHS,
    )
)
"""Words of which each of `TAILS` holds one, or a digit."""
