"""Words that English capitalises, or starts a sentence with, without naming anybody or anything."""

from __future__ import annotations

from typing import Final

from salience import text

CALENDAR: Final = frozenset(
    """
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
    sundays january february march april may june july august september october november december mon tue tues wed
    thu thur thurs fri sat sun jan feb mar apr jun jul aug sep sept oct nov dec
    """.split()
)
"""Weekdays and months: capitalised, and no names. (A person called April is not found by rules.)"""

TITLES: Final = frozenset("mr mrs ms miss mx dr prof professor sir madam".split())
"""Words before a name, with or without a full stop; they are no part of it."""

ABBREVIATED: Final = TITLES | {"st", "mt", "vs", "no"}
"""Words whose full stop does not end a sentence."""

PARTICLES: Final = frozenset("van von de der den des del della di da do dos das du la le el al bin ibn ter of".split())
"""Small words inside a name: Ludwig van Beethoven, Bank of Lisbon."""

NEVER: Final = text.ENGLISH_STOPWORDS | frozenset(
    """
    hello hi hey hiya dear thanks thank thx cheers welcome bye goodbye congrats congratulations sorry please wow oh
    ah yes yeah yep no nope ok okay sure right great good nice cool perfect awesome absolutely well lol haha today
    tomorrow yesterday tonight now later soon already still yet again ever never always often sometimes once twice
    next last first second third also however moreover therefore thus hence otherwise instead besides although
    though despite unless whenever wherever whether since maybe perhaps anyway anyways everyone everybody everything
    someone somebody something anyone anybody anything nobody nothing none one two three four five six seven eight
    nine ten many much several another others every either neither like per via within without across along around
    among inside outside near toward towards upon beyond behind beneath just even let can could do does did may
    might must shall should will would btw woah woohoo whoa yum yo aww oof gotcha gotta lots tons plus definitely
    totally glad mine looks sounds remember note reminder todo tbd tba fyi asap ps p.s nb n.b am pm a.m p.m utc etc
    vs user assistant system agent
    """.split()
)
"""Words that name nothing wherever they stand capitalised, and are no part of a name that they stand before."""

NEITHER: Final = NEVER | CALENDAR | TITLES
"""What is no part of any name."""

ORDINARY: Final = frozenset(
    """
    morning afternoon evening night week month year day lunch dinner breakfast coffee tea food money work home house
    school weather traffic music life time love water people person family friend mother father mom dad sister
    brother question answer summary decision rule fact context feedback notice warning error update status result
    reason problem issue ticket bug task plan goal idea test build release deploy deployment deploys rollback
    migration backup server service database table column schema index query cache queue worker job cron log alert
    incident outage pipeline branch commit merge review code repo repository file folder script config setting
    version package library frontend backend client customer team manager meeting standup call email mail message
    invoice payment contract order price budget cost report document doc page password key token secret vault
    account project product feature production staging dependency latency memory according unlike finally eventually
    meanwhile recently lately currently then unfortunately
    """.split()
)
"""Words that often open a sentence; there, alone, they are not taken for names."""

IMPERATIVES: Final = frozenset(
    """
    add allow ask avoid book bring build buy call change check choose close come compare consider create cut delete
    deploy email ensure find finish fix follow forget get give go had has have help hold include install is join
    keep know learn leave let look make meet merge message met move need open pay pick prefer put read release
    remind remove rename review run said save say see send set show skip speak start stop switch take talk tell
    think told try turn use verify wait walk want watch went write
    """.split()
)
"""Verbs that open a sentence as an order; they are no part of a name that follows: in "Call Nadia", Nadia."""

ORDINARY_ENDINGS: Final = ("ing", "ly", "ed", "tion", "tions", "sion", "ness", "ment", "ments", "ity", "ship", "ism")
"""Endings of words that are not taken for names where they open a sentence."""

FINITE: Final = frozenset(
    """
    is isn't was wasn't has hasn't had hadn't will won't would wouldn't can can't could couldn't should does doesn't
    did didn't may might must said told asked went came got took made gave found left kept thought knew felt wrote
    built bought brought sold sent met spoke ran began chose drove flew sang taught won lost cut put set let and or
    also never always really usually often still already just currently recently now
    """.split()
)
"""What may follow a name that opens a sentence; besides these, words in -s and -ed are taken for its verb."""
