"""Words that turn what a text says round: negation, and the marked half of common opposites.

Of a pair of opposites one half is enough to tell two texts apart: a text with "off" and one without do not say the
same, whether the other one says "on" or takes it for granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_AUXILIARIES: Final = (
    "is are was were has have had do does did would could should might must need ought may dare sha wo ca ai".split()
)
_NEGATED: Final[Mapping[str, str]] = {
    "un": "able acceptable accompanied available aware certain clear comfortable common controlled due employed "
          "expected fair familiar finished friendly happy healthy important interested known like likely limited "
          "lucky married necessary paid pleasant popular reliable safe stable successful supported sure usual wanted "
          "welcome willing",
    "in": "accurate active adequate capable complete consistent correct dependent direct effective efficient frequent "
          "secure sensitive significant stable sufficient valid visible",
    "im": "mature patient perfect polite possible practical probable proper",
    "ir": "rational regular relevant reversible responsible",
    "il": "legal legible legitimate literate logical",
    "dis": "advantage agree agreed agreement agrees allow allowed allows approve approved approves comfort "
           "connect connected connects continue continued honest like liked likes liking loyal obey proved satisfied "
           "trust trusted trusts",
    "non": "existent profit smoker smoking vegetarian",
}  # fmt: skip
"""Prefixes that negate, with the words that they are put before."""
BASES: Final[Mapping[str, str]] = {prefix + word: word for prefix, words in _NEGATED.items() for word in words.split()}
"""Words that a prefix negates -> the word without it."""

CONTRASTS: Final[Mapping[str, tuple[str, ...]]] = {
    "not": (
        "not", "no", "never", "none", "nobody", "nothing", "nowhere", "no one", "neither", "nor", "without", "cannot",
        "non", "nope", "isnt", "arent", "wasnt", "werent", "hasnt", "havent", "hadnt", "dont", "doesnt", "didnt",
        "wouldnt", "couldnt", "shouldnt", "wont", "cant",
        *(f"{verb}n't" for verb in _AUXILIARIES),
        *(prefix + word for prefix, words in _NEGATED.items() for word in words.split()),
        "no longer", "stop", "stops", "stopped", "stopping", "quit", "quits", "quitting", "cease",
        "ceased", "ceases", "gave up", "give up", "gives up", "given up", "giving up",
        "hate", "hates", "hated", "hating", "detest", "detests", "loathe", "loathes", "despise", "despises",
        "lack", "lacks", "lacked", "lacking", "fail", "fails", "failed", "failing", "refuse", "refuses", "refused",
        "refusing", "reject", "rejects", "rejected", "decline", "declines", "declined", "deny", "denies", "denied",
        "forbid", "forbids", "forbidden", "prohibit", "prohibits", "prohibited", "ban", "bans", "banned", "avoid",
        "avoids", "avoided", "avoiding", "cancel", "cancels", "canceled", "cancelled", "false", "untrue", "wrong",
        "gluten free", "dairy free", "sugar free", "meat free", "alcohol free", "nut free", "free of",
    ),
    "seldom": ("seldom", "rarely", "hardly", "hardly ever", "barely", "scarcely"),  # often
    "formerly": ("formerly", "previously", "used to", "former", "once was", "ex"),  # now
    "off": (
        "off", "disable", "disables", "disabled", "disabling", "deactivate", "deactivates", "deactivated", "offline",
    ),  # on, enable, activate, online
    "before": ("before", "prior to", "ahead of", "until", "till"),  # after, since
    "left": ("left side", "left hand", "left handed", "on the left", "to the left", "turn left", "left arm",
             "left leg", "left foot", "left eye", "left ear", "left knee", "left shoulder", "left lane"),  # right
    "below": ("below", "under", "beneath", "underneath", "downstairs", "at most", "maximum", "max"),
    # above, over, upstairs, at least, minimum
    "less": ("less", "fewer", "decrease", "decreases", "decreased", "decreasing", "reduce", "reduces", "reduced",
             "reducing", "lower", "lowers", "lowered", "shrink", "shrinks", "shrank", "went down", "goes down",
             "going down", "go down"),  # more, increase, raise, grow, go up
    "open": ("open", "opens", "opened", "opening"),  # close, shut
    "remove": (
        "remove", "removes", "removed", "removing", "delete", "deletes", "deleted", "deleting", "uninstall",
        "uninstalls", "uninstalled",
    ),  # add, create, install
    "sell": ("sell", "sells", "sold", "selling"),  # buy
    "lose": ("lose", "loses", "lost", "losing"),  # win, find, gain
    "export": ("export", "exports", "exported"),  # import
    "download": ("download", "downloads", "downloaded"),  # upload
    "private": ("private", "confidential", "secret"),  # public
    "outside": ("outside", "outdoors", "outdoor"),  # inside, indoors
    "empty": ("empty", "emptied", "empties", "emptying"),  # full
    "out": ("out of", "away from", "far from"),  # into, towards, near
    "bottom": ("bottom",),  # top
    "short": ("short", "shorter", "shortest"),  # long
    "dry": ("dry", "dried"),  # wet
    "bad": ("bad", "worse", "worst", "poor", "terrible", "awful", "horrible"),  # good, better, best
    "cold": ("cold", "colder", "chilly", "iced"),  # hot, warm
    "dark": ("dark", "darker"),  # light, bright
    "slow": ("slow", "slower", "slowest"),  # fast, quick
    "cheap": ("cheap", "cheaper", "inexpensive"),  # expensive
    "staging": ("staging",),  # production
    "female": (
        "woman", "women", "girl", "girls", "lady", "ladies", "mother", "mothers", "mom", "mum", "sister", "sisters",
        "daughter", "daughters", "wife", "aunt", "aunts", "grandmother", "grandma", "niece", "queen", "girlfriend",
    ),  # man, boy, father, brother, son, husband ...
}  # fmt: skip
"""What a text claims by a word: the claim -> words and phrases that make it; the other half is in the comments."""

IDIOMS: Final = (
    "not only", "not just", "no doubt", "no problem", "no worries", "never mind", "can't wait", "cannot wait",
    "why not", "nothing but", "couldn't agree more", "bus stop", "stop by", "stopped by", "as before", "is used to",
    "get used to", "got used to", "as much as", "off the record", "not to mention", "no matter",
)  # fmt: skip
"""Phrases that hold such a word without its sense."""
