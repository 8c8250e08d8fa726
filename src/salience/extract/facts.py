"""Which fact a text states: the identity by which a newer statement takes the place of an older one.

A wrong identity hides a memory that is still true, under profiles that keep one memory per fact; a missing one costs
nothing but that service. So a text has an identity only if it is one sentence in one of the plain forms of
`fact_forms.FORMS`, and nothing else. A longer text that holds such a clause has none: it says more than the fact, and
would be hidden whole. None either have questions, negations, wishes and plans, what was, and what somebody said.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final, NamedTuple

from salience import text
from salience.extract.fact_forms import ATTRIBUTES, EITHER, FORMS, OPENING, TAILS, TELLTALES, Attribute, Form
from salience.extract.fact_values import (
    ACTIVITIES,
    CHECKS,
    COMMON,
    GUARDS,
    KINDS,
    NO_NAMES,
    NOUNS_IN_ING,
    SKIPPED,
    SPELLINGS,
    TALKS,
    WITH_TO,
    favoured,
    named_thing,
    plain,
)
from salience.extract.places import is_country
from salience.records.checks import NAME_LIMIT

LONGEST: Final = 200
"""Most characters of a text that is read for a fact; a longer one says more than one."""
USER: Final = "user"
TEAM: Final = "team"
USERS: Final = frozenset({"user", "human", "the user"})
"""What the user is called as a speaker, or in a text."""
TEAMS: Final = frozenset({"we", "our", "our team", "the team"})
SELVES: Final = frozenset({"i", "my"})
"""What the speaker says of himself."""
_SENTENCE_END: Final = re.compile(r"[.!…]\s")
_SIGNS: Final = re.compile(r"(?:\s[^\w\s]+)+\Z")
"""What stands at the end and is no word: ":)"."""
_DIGIT: Final = re.compile(r"\d")
_MAY: Final = re.compile(r"\bMay\b")
"""The month, which is no "may"."""
_NOBODY: Final = re.compile(r"(?:Lives|Resides|Works|Moved|Relocated|Uses|Prefers|Switched|Migrated)\b(?= )")
"""Verbs with which a note on the user begins."""


class Fact(NamedTuple):
    """A fact as a text states it.

    `key` is its identity, such as `user.residence`; `value` what holds, as written; `is_taste` as in `Form`.
    """

    key: str
    value: str
    is_taste: bool = False


def fact_key(content: str, *, speaker: str | None = None, user_id: str | None = None) -> str | None:
    """Return the identity of the fact that `content` states, such as `user.favourite.colour`; None without one.

    `fact` says what it is and when there is none. A taste is none: somebody who likes the dark may like light as well.
    """
    found = fact(content, speaker=speaker, user_id=user_id)
    return None if found is None or found.is_taste else found.key


def may_state(content: str) -> bool:
    """Return whether a text may state a fact: one short sentence, and no question, negation, wish or plan."""
    return _sentence(content, None) is not None


def fact(content: str, *, speaker: str | None = None, user_id: str | None = None) -> Fact | None:
    """Return the fact that a text states in a plain English form, or None.

    The key is `subject.attribute`, or `subject.attribute.what`, in small letters, words joined by `_`. The first
    person is the speaker; "the user", a speaker called user, and whoever bears the name of `user_id` are `user`;
    "we" and "our team" are `team`; others go by their name. "I live in Berlin" and "I moved to Lisbon" have one key.

    Args:
        content: any text.
        speaker: who said it; None if it is the user, or is not known.
        user_id: whose memory it is.
    """
    sentence = _sentence(content, user_id)
    if sentence is None:
        return None
    for form in FORMS:
        match = _compiled(form.pattern).fullmatch(sentence) if form.holding in sentence else None
        if match and (found := _read(form, match, speaker, user_id)):
            return found._replace(is_taste=form.is_taste)
    return _either(sentence, speaker, user_id)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _sentence(content: str, user_id: str | None) -> str | None:
    """Return the one sentence of a text that may state a fact, without opening and tail; None if it cannot."""
    if len(content) > LONGEST or "?" in content or "\n" in content.strip():
        return None
    line = " ".join(unicodedata.normalize("NFKC", content).replace("’", "'").split())
    line = _with_subject(_bare(without_signs(line).rstrip(" .!…\"'")), user_id)
    is_one = not _SENTENCE_END.search(line)
    return line if is_one and GUARDS.isdisjoint(text.words(_MAY.sub("", line))) else None


def without_signs(line: str) -> str:
    """Return a line without what stands at its end and is no word; most end with one, and are not looked through."""
    return line if line.rpartition(" ")[2][:1].isalnum() else _SIGNS.sub("", line)


def _bare(line: str) -> str:
    while opening := OPENING.match(line):
        line = line[opening.end() :]
    while may_have_tail(line) and (tail := TAILS.search(line)):
        line = line[: tail.start()]
    return line


def may_have_tail(line: str) -> bool:
    """Return whether a line may end with one of `TAILS`, which take long to be sought; False is sure."""
    if not line.isascii():  # letters that are no "s" or "i" may stand for one where case is ignored
        return True
    return not TELLTALES.isdisjoint(line.lower().replace(",", " ").split()) or _DIGIT.search(line) is not None


def _with_subject(line: str, user_id: str | None) -> str:
    """Return the line with the user named as the forms name them: "Lives in Rome" is "User lives in Rome"."""
    if verb := _NOBODY.match(line):
        return f"User {verb[0].lower()}{line[verb.end() :]}"
    if user_id and line.casefold().startswith((f"{user_id.casefold()} ", f"{user_id.casefold()}'s ")):
        return f"User{line[len(user_id) :]}"
    return f"I{line[1:]}" if line.startswith(("i ", "i'")) else line


def _read(form: Form, match: re.Match[str], speaker: str | None, user_id: str | None) -> Fact | None:
    """Return the fact of a sentence that has a form, if what the form holds may be that."""
    held = match.groupdict()
    value, old, what = held["value"], held.get("old"), held.get("what") or ""
    attribute = _attribute(held["attribute"]) if "attribute" in held else None
    subject, about, check = _subject(match, speaker, user_id), slug(what), attribute.check if attribute else form.check
    if subject is None or not CHECKS[check](_cased(value, check, match.string)):
        return None
    if check in ("place", "destination") and old and not CHECKS["place"](old):
        return None
    if form.kinds is not None and not (about and KINDS[form.kinds](what)):
        return None
    if form.kinds == "favourite" and _is_doing(value) and ACTIVITIES.isdisjoint(text.words(what)):
        return None
    if form.kinds == "favourite" and not favoured(value, what):
        return None
    if subject == TEAM and not form.key.startswith("uses."):
        return None
    key = form.key.format(attribute=attribute and attribute.key, what=about)
    if key == "residence" and "old" not in held and is_country(value):
        key = "residence.country"  # who moves to a country leaves the town behind, who lives in one does not
    return _named(f"{subject}.{key}".rstrip("."), value)


def _attribute(spelling: str) -> Attribute:
    return next(one for one in ATTRIBUTES if re.fullmatch(one.spellings, spelling, re.IGNORECASE))


def _either(sentence: str, speaker: str | None, user_id: str | None) -> Fact | None:
    """Return the choice between two things that a sentence states."""
    match = _compiled(EITHER).fullmatch(sentence)
    subject = match and _subject(match, speaker, user_id)
    if match is None or subject is None:
        return None
    both = match["one"], match["other"]
    choices = sorted(map(slug, both))
    if not all(choices) or not all(plain(choice) and named_thing(choice) for choice in both):
        return None
    if both[0].startswith("to ") or not _is_choice(match["word"], *both):
        return None
    return _named(f"{subject}.prefers.{'_or_'.join(choices)}", match["one"])


def _is_choice(word: str, one: str, other: str) -> bool:
    """Return whether "one to other", or "one over other", puts one of them before the other."""
    last = one.split()[-1].casefold()
    if word == "over":
        return last not in TALKS
    if word == "to":
        is_odd = _is_doing(one) != _is_doing(other) or last in WITH_TO  # "I prefer walking to work"
        return not is_odd and one[0].isupper() == other[0].isupper()  # "I prefer Alice to go first"
    return True


def attribute_key(spelling: str) -> str | None:
    """Return the part of a key for what somebody has one of at a time, such as `email` for "e-mail", or None."""
    known = (one.key for one in ATTRIBUTES if re.fullmatch(one.spellings, spelling, re.IGNORECASE))
    return next(known, None)


def _named(key: str, value: str) -> Fact | None:
    return Fact(key, value) if len(key) <= NAME_LIMIT else None


def _is_doing(value: str) -> bool:
    word = value.split()[-1]
    return word.endswith("ing") and word.islower() and word not in NOUNS_IN_ING


def _cased(value: str, check: str, line: str) -> str:
    """Return `value` as it is; one's own name capitalised, in a line of small letters throughout."""
    small = line.removeprefix("I").removeprefix("User").removeprefix("My")
    is_name = check == "own name" and not value.startswith("the ") and value not in NO_NAMES
    return value.title() if is_name and small == small.lower() and len(value.split()) <= 2 else value


def _subject(match: re.Match[str], speaker: str | None, user_id: str | None) -> str | None:
    """Return who a fact is about, as the key says it; None if nobody can tell, or if they are many."""
    who = text.normalise(match["who"]).removesuffix("'s")
    is_one = match.groupdict().get("verb", "s").endswith("s")  # "penguins live" is of many
    if who not in TEAMS | SELVES and (_is_common(who) or not is_one):
        return None
    return subject_key(who, speaker, user_id)


def subject_key(who: str, speaker: str | None, user_id: str | None) -> str | None:
    """Return a subject, in normal form, as the key of a fact says it; None if it has no word."""
    if who in TEAMS:
        return TEAM
    if who in SELVES:
        who = text.normalise(speaker or USER)
    if who in USERS or (user_id is not None and who == text.normalise(user_id)):
        return USER
    return "_".join(text.words(who)) or None


def _is_common(who: str) -> bool:
    return who not in USERS and not COMMON.isdisjoint(who.split())


def slug(words: str) -> str:
    """Return words as a part of a key: in one spelling and number, joined by `_`."""
    kept = (_singular(word) for word in text.words(words) if word not in SKIPPED)
    return "_".join(SPELLINGS.get(word, word) for word in kept)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
