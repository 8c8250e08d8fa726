"""Roles: who does what to whom in a statement with a verb whose two sides differ. English.

To an embedding, "Bob reports to Cleo" answers "Who reports to Bob?" as well as "Ann reports to Bob" does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from salience import text
from salience.extract.answers import DENIALS, SECOND_CLAUSE
from salience.extract.owners import any_language
from salience.extract.wordlists import load

MOST: Final = 4
"""Words of content of the longest subject or object."""
_LISTS: Final = load("roles")
_VERBS: Final = frozenset(_LISTS["verbs"])
_PREPOSITIONS: Final = frozenset(_LISTS["prepositions"])
_OTHERS: Final = frozenset(_LISTS["others"])
_ASKING: Final = frozenset({"who", "what", "which"})
_SUPPORT: Final = frozenset({"do", "does", "did"})


def _stems(words: Sequence[str]) -> tuple[str, ...]:
    return any_language().terms(" ".join(words), text.ENGLISH)


def roles(content: str) -> list[str]:
    """Return `role:` distinctions of a statement: `role:subject bob report to`, `role:object cleo report to`.

    There are none of a text of several clauses, of one that denies, and of one without a verb of `words/roles.txt`.
    """
    words = text.words(content)
    verb = _verb(words)
    if verb is None or SECOND_CLAUSE.search(content) or content.rstrip().endswith("?"):
        return []
    if not (_OTHERS | DENIALS[text.ENGLISH]).isdisjoint(words):
        return []
    name, rest = _with_preposition(words, verb)
    return [
        f"role:{role} {' '.join(stems)} {name}"
        for role, part in (("subject", words[:verb]), ("object", rest))
        if 0 < len(stems := _stems(part)) <= MOST
    ]


def reversed_role(question: str, language: str) -> str:
    """Return the distinction of statements that say what a question asks the other way round; empty for none.

    For "Who reports to Bob?", that is Bob in the role of the one who reports to somebody.
    """
    words = text.words(question)
    verb = _verb(words)
    if language != text.ENGLISH or verb is None or words[0] not in _ASKING or not _OTHERS.isdisjoint(words):
        return ""
    name, rest = _with_preposition(words, verb)
    support = next((at for at in range(1, verb) if words[at] in _SUPPORT), None)
    if support is None:  # "Who reports to Bob?", "Which service calls the ledger?"
        role, asked = "subject", rest if verb == 1 or words[0] != "who" else []
    else:  # "Who does Bob report to?"
        role, asked = "object", [] if rest else words[support + 1 : verb]
    stems = _stems(asked)
    return f"role:{role} {' '.join(stems)} {name}" if 0 < len(stems) <= MOST else ""


def _verb(words: Sequence[str]) -> int | None:
    """Return the place of the first verb of the list after the first word; None without one."""
    return next((at for at in range(1, len(words)) if words[at] in _VERBS), None)


def _with_preposition(words: Sequence[str], verb: int) -> tuple[str, Sequence[str]]:
    """Return the stem of a verb with the preposition after it, and the words that follow."""
    has_preposition = words[verb + 1 : verb + 2] != [] and words[verb + 1] in _PREPOSITIONS
    stem = _stems(words[verb : verb + 1])[0]
    return f"{stem} {words[verb + 1]}" if has_preposition else stem, words[verb + 1 + has_preposition :]
