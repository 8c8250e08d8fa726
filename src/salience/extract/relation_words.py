"""Words and phrases that tell what a new text is to an older one, in English."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LATER: Final = (
    "now", "currently", "nowadays", "these days", "at present", "as of", "from now on", "starting today",
    "going forward", "no longer", "not anymore", "anymore", "any more", "not any longer", "used to", "formerly",
    "previously", "switched", "switch to", "switches to", "switching to", "moved", "moves to", "moving to",
    "migrated", "migrates to", "relocated", "changed", "changes to", "changed his mind", "replaced", "replaces",
    "replaced by", "instead", "became", "has become", "have become", "turned into", "updated", "update", "upgraded",
    "downgraded", "renamed", "extended", "postponed", "rescheduled", "delayed", "pushed back", "brought forward",
    "increased", "raised", "lowered", "reduced", "decreased", "bumped", "dropped to", "cut to", "went up",
    "went down", "promoted", "transferred", "converted", "reassigned", "handed over", "took over", "actually",
    "correction", "in fact", "i was wrong", "we were wrong", "i misspoke", "scratch that", "turns out", "recently",
    "since", "again", "just", "finally", "new", "newly", "started", "has started", "latest", "revised", "amended",
    "reverted", "was made", "were made", "yesterday", "today", "last week", "last month", "this week", "this month",
    "this morning", "rolled back", "went back to", "superseded", "supersedes", "fixed", "resolved",
)  # fmt: skip
"""What says or implies that a text tells of a change, or of what holds since then."""
ENDED: Final = (
    "no longer", "not anymore", "anymore", "any more", "stopped", "quit", "gave up", "given up", "used to",
    "formerly", "left", "sold", "cancelled", "canceled", "ended", "removed", "dropped", "deprecated", "retired",
    "resigned from", "divorced", "revoked", "shut down", "discontinued", "deleted", "uninstalled", "abandoned",
    "got rid of", "finished", "expired", "withdrew", "resigned",
)  # fmt: skip
"""What says that a thing is over."""
FOR_NOW: Final = (
    "for now", "temporarily", "for the time being", "until further notice", "at the moment", "provisionally",
    "tentatively", "so far", "as a stopgap",
)  # fmt: skip
"""What says of an older text that it was not meant to last."""

HIDING: Final = (
    "the left", "left side", "left hand", "left arm", "left leg", "left foot", "left eye", "left ear", "left lane",
    "turn left", "left over", "left handed", "is used to", "are used to", "be used to", "being used to",
    "was used to", "were used to", "get used to", "got used to", "just like", "just as", "ever since",
    "again and again", "be sold", "now and then", "right now and", "new york", "new zealand", "new delhi",
    "new orleans", "new jersey", "new mexico", "new year", "brand new", "dropped into", "dropped in", "dropped on",
    "dropped off", "moved by", "just in case", "finished with", "left to", "what's new", "anything new",
    "something new", "new to",
)  # fmt: skip
"""Phrases that hold such a word without its sense."""

SINGLE_VERBS: Final = (
    "live in", "lives in", "living in", "lived in", "reside in", "resides in", "based in", "located in", "located at",
    "work at", "works at", "work for", "works for", "working at", "working for", "reports to", "report to",
    "belongs to", "named", "called", "born in", "born on", "hosted on", "hosted in", "hosted at", "hosted by",
    "runs on", "run on", "runs at", "runs in", "running on", "listens on", "stored in", "stored on", "lives on",
    "deployed on", "deployed to", "deployed in", "deploys to", "owned by", "managed by", "led by", "leads", "run by",
    "maintained by", "assigned to", "written in", "implemented in", "built with", "built on", "powered by", "costs",
    "cost", "weighs", "measures", "starts at", "starts on", "begins at", "begins on", "ends at", "ends on",
    "opens at", "closes at", "expires on", "expires in", "expires after", "due on", "due by", "due at", "due in",
    "scheduled for", "scheduled on", "scheduled at", "planned for", "married to", "engaged to", "set to", "points to",
    "defaults to", "expects", "limited to", "kept in", "kept on", "kept at", "takes place in", "takes place on",
    "takes place at", "happens on", "happens at", "arrives at", "departs at", "leaves at", "sits in", "sits on",
    "goes to school at", "studies at", "majors in", "drives a", "rents in", "banks with", "is in", "is at", "are in",
    "are at", "is on", "stays at", "meets on", "meet on", "meets at", "meet at", "takes",
)  # fmt: skip
"""Verbs of which one thing has one object at a time."""
ADDITIVE: Final = frozenset(
    """
    support supports accept accepts know knows speak speaks include includes have has contain contains offer offers
    cover covers handle handles allow allows own owns visit visits meet meets see sees saw visited met read reads bought
    sold
    """.split()
)
"""Verbs whose object is one of several: what is said of another one now leaves the old one as it is."""
ADVERBS: Final = frozenset("now currently actually finally instead just recently newly still also".split())
"""What may stand before a value and says only when it holds."""
SINGLE_NOUNS: Final = frozenset(
    """
    address age author bandwidth base birthday boss branch browser budget capacity capital captain ceo channel city
    client code colour color contact copilot country cto currency database date deadline default dentist destination
    director doctor domain dosage dose due duration editor email employer endpoint engine expiry format framework
    frequency gate goal headquarters height host hostname hour hours husband id interval key language lead leader length
    level license licence limit linter location login major manager maximum max mentor minimum min mode model name
    nickname nationality number office owner partner passcode passphrase password path phone pin plan platform plate
    port position postcode price priority profession provider quota rank rate region rent resolution retention role
    room salary schedule schema seat server setting shift size slot speed start state status subject supervisor surname
    target teacher temperature theme threshold ticket time timeout timezone title token topic total type unit url user
    username vendor venue version wife wifi winner zip retry retries ttl window standup meeting appointment flight
    interview launch release demo sprint call lunch dinner exam wedding party review retro sync kickoff class lesson
    """.split()
)
"""Nouns of which a thing has one at a time, or whose place or time is one: "the deadline is Friday"."""
COPULAS: Final = frozenset("is are was were am be been became become becomes 's equals stands starts runs".split())
BETWEEN: Final = frozenset(
    """
    the a an at on in by to now currently set due still of about around only just my our his her their its for from as
    after every until over approximately roughly exactly always changed moved updated switched raised lowered increased
    reduced extended postponed rescheduled been has have
    """.split()
)
"""What may stand between a copula or such a noun and the value."""
CHANGED: Final = frozenset(
    """
    changed moved updated switched raised lowered increased reduced extended postponed rescheduled renamed bumped
    migrated set dropped went delayed pushed reassigned
    """.split()
)
"""Verbs that lead over to a new value."""
DIRECTED: Final = frozenset(
    "over before after under above below behind reports manages than instead beats owes pays follows".split()
)
"""Words of which one side is not the other."""
STOPS: Final = frozenset("stop stops stopped stopping cease ceases ceased quit quits quitting".split())
"""Verbs that deny what the next verb says."""
QUANTITIES: Final = frozenset(
    "all none no both neither always never everyone everybody nobody everything nothing often sometimes rarely".split()
)
"""Words of a subject that say how much of it, and not which."""
TURNS: Final = frozenset("by being of that which who whose".split())
"""Words with which the same is said in another order."""
INDEFINITE: Final = frozenset("a an some someone somebody another several many few one people".split())
"""What opens a text on somebody or something that is not named: another text may be on another one."""
FIRST_PERSON: Final = frozenset("i i'm i've i'd i'll me my mine myself we we're we've our ours us im".split())
PURPOSES: Final = frozenset({"for", "in", "as", "when"})
"""What follows the thing that an order says to use."""
WEAK: Final = frozenset({"new", "since", "again", "started", "just", "recently"})
"""Phrases of `LATER` that may as well tell of one thing more."""
STATES: Final = frozenset(
    """
    was were had been scheduled based located named called born expected required needed limited planned booked married
    engaged due red bed need used
    """.split()
)
"""Forms of the past, and words like them, that tell how a thing is."""
LIGHT: Final = frozenset(
    """
    set get gets got user user's please note remember actually update correction mind wrong right really currently turn
    turned has have have had been be am is are was were use used going like's per approx approximately exactly there
    here also still already yes well ok okay so today value people person someone going
    """.split()
)
"""Words that name nothing that a text is about."""
TRANSITIONS: Final[Mapping[str, str]] = {
    "from": r"\bfrom (?P<old>[^.,;]+?) (?:in)?to \S",
    "replaced": r"\breplac(?:ed|es|ing) (?!by\b|with\b)(?P<old>[^.,;]+?)(?: (?:with|by) \S|[.,;]|\Z)"
    r"|(?P<old2>[^.,;]+?) (?:was|were|is|are|has been|have been|got) replaced (?:with|by) \S",
    "instead": r"\b(?:instead of|rather than|in place of) (?P<old>[^.,;]+)",
    "not": r", not (?P<old>[^.,;]+)|\bnot (?!only|just)(?P<old2>[^.,;]+?),? but \S",
    "took over": r"\b(?:supersedes|superseded|(?:takes|took) over (?:[^.,;]+ )?from) (?P<old>[^.,;]+)",
}
"""How a text names what it puts something else in the place of."""
HOLDING: Final[Mapping[str, str]] = {"replaced": "replac"}
"""What every text holds, in small letters, in which a form of `TRANSITIONS` is found, where the form takes long."""
