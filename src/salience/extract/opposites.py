"""Words that cannot both be said of the same thing at the same time, in English.

`contrasts.CONTRASTS` marks one half of a pair, which is enough to tell that two texts do not say the same. To tell that
one of them denies the other takes both halves: a text with "dark" and one without are different, a text with "dark" and
one with "light" in its place are at odds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

OPPOSITES: Final[Sequence[tuple[str, str]]] = (
    ("on enable enables enabled activate activated online",
     "off disable disables disabled deactivate deactivated offline"),
    ("open opens opened opening", "close closes closed closing shut shuts"), ("before", "after"),
    ("above over", "below under underneath beneath"), ("inside indoors indoor", "outside outdoors outdoor"),
    ("in into", "out"), ("up upstairs", "down downstairs"), ("left", "right"), ("front", "back"), ("onto", "off"),
    ("near nearby close", "far"), ("top", "bottom"), ("first", "last"), ("north", "south"), ("east", "west"),
    ("more", "less fewer"), ("minimum min", "maximum max"),
    ("increase increases increased increasing raise raised raises grow grows grew rising rose",
     "decrease decreases decreased decreasing reduce reduced reduces lower lowered lowers shrink shrank falling fell"),
    ("high higher highest", "low lower lowest"), ("long longer longest", "short shorter shortest"), ("tall", "short"),
    ("big large huge", "small little tiny"), ("wide", "narrow"), ("thick", "thin"), ("deep", "shallow"),
    ("heavy", "light lightweight"), ("strong", "weak"), ("fast quick faster quickly", "slow slower slowly"),
    ("early earlier", "late later"), ("old older", "new young younger newer"), ("hot warm", "cold cool chilly"),
    ("wet", "dry"), ("full", "empty"), ("clean", "dirty"), ("dark", "light bright"), ("light", "dark heavy"),
    ("loud noisy", "quiet silent"), ("hard difficult", "easy simple"), ("soft", "hard"), ("rich", "poor"),
    ("cheap inexpensive", "expensive costly"), ("good great excellent", "bad poor terrible awful"),
    ("better", "worse"), ("best", "worst"), ("safe", "dangerous unsafe risky"),
    ("healthy well", "sick ill unhealthy"), ("alive", "dead"), ("awake", "asleep sleeping"),
    ("happy glad", "sad unhappy"), ("calm", "angry upset"), ("true correct", "false incorrect untrue"),
    ("right", "wrong left"), ("same equal", "different unequal"), ("public", "private confidential secret"),
    ("mandatory required obligatory", "optional"),
    ("allowed permitted allow allows", "forbidden prohibited banned forbid forbids prohibits disallowed"),
    ("always", "never sometimes rarely seldom"), ("often frequently usually", "never rarely seldom hardly"),
    ("everyone everybody", "nobody none"), ("everything", "nothing"), ("all", "none no"), ("both", "neither"),
    ("with", "without"), ("add adds added adding", "remove removes removed removing delete deletes deleted"),
    ("install installs installed", "uninstall uninstalls uninstalled"), ("buy buys bought", "sell sells sold"),
    ("win wins won winning", "lose loses lost losing"), ("find finds found", "lose loses lost"),
    ("arrive arrives arrived", "leave leaves left depart departed"), ("join joins joined", "leave leaves left quit"),
    ("start starts started starting begin begins began", "stop stops stopped stopping end ends ended finish finished"),
    ("accept accepts accepted approve approved approves", "reject rejects rejected decline declined refuse refused"),
    ("agree agrees agreed", "disagree disagrees disagreed"),
    ("pass passes passed succeed succeeded succeeds", "fail fails failed"),
    ("like likes liked love loves loved enjoy enjoys enjoyed adore adores",
     "dislike dislikes disliked hate hates hated loathe loathes detest detests avoid avoids"),
    ("trust trusts", "distrust distrusts"), ("import imports", "export exports"),
    ("upload uploads", "download downloads"), ("push pushes pushing", "pull pulls pulling"),
    ("lock locks locked", "unlock unlocks unlocked"),
    ("connect connected connects", "disconnect disconnected disconnects"), ("encrypted", "unencrypted plaintext"),
    ("speak speaking talk talking", "silent quiet"), ("empty", "crowded packed"),
    ("manual manually", "automatic automatically"), ("synchronous sync", "asynchronous async"),
    ("internal", "external"), ("local locally", "remote remotely"), ("vegetarian vegan", "carnivore omnivore"),
    ("married", "single divorced unmarried"), ("employed", "unemployed"), ("active", "inactive"),
    ("available", "unavailable busy"), ("free", "busy occupied paid"), ("present", "absent"),
    ("morning mornings", "evening evenings night nights"), ("single-tenant", "multi-tenant"), ("metric", "imperial"),
    ("window", "aisle"), ("yes", "no"), ("success", "failure"), ("ascending", "descending"),
    ("uppercase", "lowercase"), ("positive", "negative"), ("temporary", "permanent"),
    ("done finished complete completed resolved fixed merged closed",
     "pending incomplete unfinished open unresolved broken unmerged"),
    ("verbose long detailed", "terse short concise brief"), ("formal", "informal casual"),
)  # fmt: skip
"""Pairs of halves, each as words with white space between; a word may stand in several pairs."""


def _sides() -> dict[str, frozenset[tuple[int, bool]]]:
    found: dict[str, set[tuple[int, bool]]] = {}
    for axis, halves in enumerate(OPPOSITES):
        for half, words in enumerate(halves):
            for word in words.split():
                found.setdefault(word, set()).add((axis, bool(half)))
    return {word: frozenset(places) for word, places in found.items()}


SIDES: Final[Mapping[str, frozenset[tuple[int, bool]]]] = _sides()
"""Word -> (number of its pair, whether it is the second half) of each pair that it stands in."""


def opposed(one: str, other: str) -> bool:
    """Return whether two words in small letters are the halves of a pair."""
    theirs = SIDES.get(other, frozenset())
    return any((axis, not half) in theirs for axis, half in SIDES.get(one, frozenset()))


def opposites(words: Iterable[str], others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each pair of `opposed` words, the first from `words` and the second from `others`, in their order."""
    sided: list[str] | None = None
    for word in words:
        if word in SIDES:  # most words have no opposite
            sided = [other for other in others if other in SIDES] if sided is None else sided
            yield from ((word, other) for other in sided if opposed(word, other))
