"""What the values of a plain fact may be, and what a fact may be about. English."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from salience.extract.numerals import MONTHS
from salience.extract.places import is_known
from salience.extract.wordlists import CALENDAR, NEITHER, ORDINARY

MOST_WORDS: Final = 6
"""Most words of a value, and of what a fact is about."""

NO_PLAIN_VALUE: Final = frozenset(
    """
    and or but that which who whom when where how what why if to because than then while as is are was were be been
    am has have had do does did i i'm i've it it's he she they we you me him them this these those there here so too
    very really hard mine yours ours his hers theirs same different gone unknown changing obvious secret important
    not just always often sometimes usually over with one ones
    """.split()
)
"""Words that no value of a fact holds: with them it is a clause, a list or a remark."""
REMARKS: Final = frozenset(
    """
    open closed sick ill dead away late early full empty broken available cheap expensive good great nice fun bad
    better best worse worst amazing awesome beautiful delicious lovely perfect wonderful fantastic gorgeous cute
    cool stressful boring tough difficult easy interesting exciting demanding rewarding challenging safe secure fine
    ok okay over done ready missing private up down back out off on complicated tricky near nearby close coming soon
    tomorrow today mess joke nightmare dream bit lot blast pain challenge struggle team result whole charm example
    favour favor part thing ugly weird taken rare wrong right invalid unavailable annoying confusing laggy buggy
    outdated deprecated stolen remote hybrid temporary strange something someone anything everything nothing
    everyone anyone most many none all both either
    """.split()
)
"""What is said about a thing, or stands for another, and is no value of it: "my favourite shop is closed"."""
DESCRIPTIONS: Final = frozenset(
    """
    red blue green yellow orange purple pink black white brown grey gray silver gold golden teal turquoise beige
    loud quiet huge big small large little tiny long short tall old new young modern ancient classic popular famous
    weekly daily monthly local free heavy light soft warm cold hot spicy sweet sour salty vintage wooden plastic
    leather handmade
    """.split()
)
"""What a thing is like, in small letters: "my favourite mug is blue" leaves open which one."""
DESCRIBED: Final[Mapping[str, frozenset[str]]] = {
    "colour": frozenset("colour color shade hue crayon wine beer tea flavour flavor chocolate meat".split()),
    "people": frozenset("language food cuisine cooking accent subject culture kitchen dish beer wine".split()),
}
"""Of which favourites a colour, or the name of a people, does say which one."""
MEASURED: Final = frozenset("long old tall high wide deep heavy away only".split())
"""What ends a measure or a limit: "400 pages long", "Linux only"."""
SEVERAL: Final = frozenset(
    """
    frontend storage linting script scripting coding programming development cooking baking hair skin face photo
    school travel travelling cleaning monitoring coffee tea breakfast lunch dinner snack trip
    """.split()
)
"""Purposes for which several things are used side by side: "React" and "TypeScript" for the frontend."""
PREPOSITIONS: Final = frozenset("about of from in on at by for like set made based near under behind".split())
"""What opens a remark in small letters: "my favourite film is about hackers"."""
NO_PERSONS: Final = frozenset(
    """
    american british english irish scottish welsh canadian australian french german italian spanish portuguese dutch
    belgian swiss austrian danish swedish norwegian finnish polish czech slovak hungarian romanian bulgarian greek
    turkish russian ukrainian indian pakistani chinese japanese korean vietnamese thai brazilian mexican argentinian
    chilean colombian egyptian moroccan nigerian kenyan ethiopian african asian european latino latina jewish muslim
    catholic christian buddhist hindu vegan aries taurus gemini libra scorpio sagittarius capricorn aquarius pisces
    virgo
    """.split()
)
"""What is written like a name and says what somebody is: "my wife is Portuguese"."""
NO_NAMES: Final = NO_PERSONS | frozenset(
    """
    common uncommon unusual unique funny crazy stupid silly misspelled misspelt mispronounced unpronounceable boring
    """.split()
)
"""What is said of somebody's name in small letters and is none: "my name is unusual"."""
HOLIDAYS: Final = frozenset("christmas easter lent ramadan halloween thanksgiving hanukkah diwali".split())
NO_FAVOURITES: Final = frozenset(
    """
    part parts thing things one ones bit aspect memory moment way piece example line quote scene shot photo picture
    character chapter episode level kid child son daughter person people all few two three second
    """.split()
)
"""What may be a favourite only among things spoken of before, or has several: "my favourite part is the end"."""
ACTIVITIES: Final = frozenset("sport hobby activity exercise pastime workout discipline".split())
"""What is named by a verb in -ing."""
TOOL_NAMES: Final = frozenset(
    """
    linux windows mac macos ubuntu debian fedora arch nixos android ios neovim nvim vim vi emacs nano vscode pycharm
    zed sublime cursor slack teams discord zoom notion jira linear asana trello git github gitlab aws azure gcp
    heroku vercel docker podman kubernetes terraform postgres postgresql mysql mariadb mongodb sqlite duckdb redis
    valkey memcached kafka rabbitmq nats celery python rust go golang java kotlin swift typescript javascript ruby
    react vue svelte angular django flask fastapi rails spring node deno bun poetry uv pip npm pnpm yarn bazel
    gradle maven make cmake just pytest vitest jest mocha biome eslint prettier ruff black mypy pylint flake8 excel
    outlook gmail chrome chromium firefox safari brave edge vivaldi signal whatsapp telegram spotify bash zsh fish
    figma obsidian evernote dropbox confluence miro canva photoshop salesforce hubspot zendesk airtable clickup
    basecamp todoist copilot chatgpt claude perl php haskell scala clojure elixir erlang cobol fortran matlab
    laravel wordpress drupal shopify tailwind webpack vite airflow databricks redshift clickhouse cassandra dynamodb
    neo4j firebase supabase netlify cloudflare ansible opera thunderbird tmux nginx caddy sentry datadog grafana
    prometheus elasticsearch opensearch snowflake bigquery jenkins circleci stripe auth0 okta
    """.split()
)
"""Tools that are named without a capital as well."""
EMPLOYERS: Final = frozenset(
    "google microsoft apple amazon meta facebook netflix deloitte accenture stripe uber".split()
)
"""Companies that are much spoken of; no persons."""
NO_PLACES: Final = (
    TOOL_NAMES
    | frozenset(
        """
    engineering marketing sales finance hr legal support product design operations research security platform
    backend frontend management leadership data qa devops infrastructure infra it plan phase step stage version team
    group squad floor building room section chapter level tier part-time full-time remote hope fear peace poverty
    luxury hiding exile harmony style town city cities places apartments houses flats google microsoft apple amazon
    meta facebook netflix mode theme shift shifts desk desks row seat diet progress review backlog todo queue denial sin
    reality
    """.split()
    )
    | HOLIDAYS
)
"""What one moves to and does not live in: tools, departments, employers; and what one lives in that is no place."""
NOUNS_IN_ING: Final = frozenset("morning evening spring king ring wing string pudding building ceiling wedding".split())
"""Nouns that end like a verb."""
SKIPPED: Final = frozenset("a an the my our his her their its this that all new your own of most some".split())
"""Words that are no part of a key."""
SPELLINGS: Final[Mapping[str, str]] = {"color": "colour", "theater": "theatre", "film": "movie"}
"""Words that a key has in one spelling."""
NO_PURPOSES: Final = frozenset(
    """
    now free fun example instance granted sure good me us him her them it that this these those you everything
    anything something nothing everyone work years months weeks days hours minutes while long ages ever sale lunch
    first second last past next once real awhile reasons several many some few a-lot most other others someone
    anyone convenience gear gears focus topic topics subject subjects side sides seat seats place places job jobs lane
    lanes tone attention lent christmas
    """.split()
)
"""What follows "for" or "switched" and is no use of a thing: "we use it for now", "I switched gears to testing"."""
WITH_TO: Final = frozenset(
    """
    access answer answers reply replies response responses trip trips link links reference references visit visits guide
    guides solution solutions approach path paths invitation invitations change changes flight flights train trains way
    ways
    """.split()
)
"""Nouns that "to" goes with: "I prefer flights to Rome" is no choice between the two."""
TALKS: Final = frozenset(
    "talk talks talking call calls chat chats chatting meeting meetings meet discussion discussions discuss".split()
)
"""What one may have over something: "I prefer talks over coffee"."""
OCCUPATIONS: Final = frozenset(
    """
    nurse chef cook pilot student intern coach judge clerk smith surgeon vet dentist cto ceo cfo coo pm qa sre dba
    artist architect analyst scientist accountant consultant assistant lead head director freelance sales aide
    athlete nun monk priest guide host model mechanic paralegal apprentice musician au-pair
    """.split()
)
"""Work by its name, where no ending shows that it is somebody's work."""
CURRENCIES: Final = frozenset(
    "euro euros dollar dollars pound pounds yen yuan rupee rupees franc francs krona peso".split()
)

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
OLDEST: Final = 120
"""Years that a person may be old."""
_ZONE = re.compile(r"(?:UTC|GMT)\b.*|[A-Z]{2,5}|[A-Z]\w+/\w+|[A-Z]\w+(?: [A-Z]\w+)* (?:[Tt]ime|[Ss]tandard [Tt]ime)")
_AGE = re.compile(r"\d{1,3}(?: years old)?")


def plain(value: str) -> bool:
    """Whether `value` names one thing: a few words that are no clause, no list and no remark."""
    words = [word.casefold() for word in value.split()]
    bare = words[1:] if words[:1] and words[0] in ("a", "an", "the") else words
    if not bare or value.split()[0] in PREPOSITIONS:
        return False
    if "," in value or len(words) > MOST_WORDS or not NO_PLAIN_VALUE.isdisjoint(words):
        return False
    if words[-1] in MEASURED and value.split()[-1].islower() and (len(words) > 1):
        return False
    return bare[0] not in REMARKS and not (bare[0].endswith("ed") and bare[0] != "red" and bare[0] in value)


def named(value: str) -> bool:
    """Whether `value` is a name: plain, and capitalised words but for the small words inside a name."""
    words = value.removeprefix("the ").removeprefix("The ").split()
    capital = [word[:1].isupper() or word.casefold() in _JOINED for word in words]
    return plain(value) and all(capital) and words[0][0].isupper() and words[0].casefold() not in NEITHER


def person(value: str) -> bool:
    """Whether `value` may be who somebody is."""
    return named(value) and (NO_PERSONS | TOOL_NAMES | EMPLOYERS).isdisjoint((value.casefold(),))


def tool(value: str) -> bool:
    """Whether `value` names a tool: a name, a word with a capital or figure in it, or one of `TOOL_NAMES`."""
    first = value.split()[0]
    return plain(value) and (named(value) or first.casefold() in TOOL_NAMES or first != first.lower())


def place(value: str) -> bool:
    """Whether `value` may be a place that one lives in: a known one, else a name with a capital, and no other thing.

    In a script without capitals any words may be one.
    """
    if value.casefold() not in NO_PLACES and all(map(is_known, _parts(value))):
        return True
    words = value.replace(",", "").casefold().split()
    inner = any(sign.isupper() or sign.isdigit() for word in value.split() for sign in word[1:] if not word.isupper())
    is_name = _has_no_case(value) or named(value.replace(",", ""))
    return not inner and is_name and (NO_PLACES | CALENDAR).isdisjoint(words) and not NO_PERSONS.issuperset(words)


def destination(value: str) -> bool:
    """Whether `value` may be a place that one moved to, which may be all sorts of things: a place that is known."""
    return place(value) and (_has_no_case(value) or any(map(is_known, _parts(value))))


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]


def _has_no_case(value: str) -> bool:
    """Whether `value` is written in letters of a script without capitals."""
    return value.upper() == value.lower() and all(word.isalpha() for word in value.split())


def employer(value: str) -> bool:
    """Whether `value` may be who somebody works for."""
    return named(value) and (CALENDAR | HOLIDAYS).isdisjoint(value.casefold().split())


def language(value: str) -> bool:
    """Whether `value` may be a language that somebody grew up with."""
    return named(value) and value.casefold() not in TOOL_NAMES


def favoured(value: str, what: str) -> bool:
    """Whether `value` tells which `what` is the favourite one, and does not only describe it."""
    words, about = value.casefold().split(), set(what.casefold().split())
    if words[0] in ("a", "an"):
        return False
    if len(words) == 1 and value.islower() and words[0] in DESCRIPTIONS:
        return not about.isdisjoint(DESCRIBED["colour"])
    return len(words) > 1 or words[0] not in NO_PERSONS or not about.isdisjoint(DESCRIBED["people"])


def job(value: str) -> bool:
    """Whether `value` may be what somebody works as: an occupation by its ending or name, or a title with capitals.

    No form of address, and not at some time or place only.
    """
    words = value.split()
    last = words[-1].casefold()
    if not (named(value) or _WORKER.fullmatch(last) or last in OCCUPATIONS):
        return False
    if not {"on", "in", "at", "during"}.isdisjoint(words) or value.rstrip(".") in ("Dr", "Mr", "Mrs", "Ms", "Prof"):
        return False
    return plain(value) and not _NUMBER.search(value) and not value.casefold().endswith("ing")


def dated(value: str) -> bool:
    """Whether `value` is a day: it has a number, and a month or the form of a date."""
    held = value.casefold().replace(",", "").split()
    return (
        bool(_NUMBER.search(value))
        and bool(_DAY.search(value))
        and len(held) <= MOST_WORDS
        and NO_PLAIN_VALUE.isdisjoint(held)
    )


def placed(value: str) -> bool:
    """Whether `value` is an address: it has a number and a name, and says not how far it is from somewhere."""
    if not {"from", "away", "blocks", "minutes"}.isdisjoint(value.casefold().split()):
        return False
    return bool(_NUMBER.search(value)) and bool(re.search("[A-Z]", value)) and len(value.split()) <= 2 * MOST_WORDS


def coloured(value: str) -> bool:
    """Whether `value` is a way to look: a plain thing, of any ending."""
    return plain(value) and not value.casefold().endswith("ing")


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
    "look": coloured,
    "age": lambda value: bool(_AGE.fullmatch(value)) and int(value.split()[0]) <= OLDEST,
    "blood": lambda value: bool(_BLOOD.fullmatch(value)),
    "currency": lambda value: bool(re.fullmatch("[A-Z]{3}|[$€£¥₹]", value)) or value.casefold() in CURRENCIES,
    "mail": lambda value: bool(_MAIL.fullmatch(value)),
    "phone": lambda value: bool(_PHONE.fullmatch(value)),
    "zone": lambda value: bool(_ZONE.fullmatch(value)) and value != "OK",
    "number": lambda value: bool(_MEASURE.fullmatch(value)),
}
"""What a value must be, by name."""


def favourite(what: str) -> bool:
    """Whether there may be one favourite of `what`: one to three words, or the time of day or year."""
    words = what.casefold().split()
    if what.casefold() in ("time of day", "time of year", "day of the week", "season of the year"):
        return True
    return len(words) <= 3 and NO_FAVOURITES.isdisjoint(words) and named_thing(what)


def named_thing(what: str) -> bool:
    """Whether `what` is a few words without a clause or a preposition in it."""
    words = what.casefold().split()
    joined = {"of", "in", "on", "at", "for", "from", "with", "by", "about", "among", "so", "far"}
    return 0 < len(words) <= 4 and joined.isdisjoint(words) and NO_PLAIN_VALUE.isdisjoint(words)


def purpose(what: str) -> bool:
    """Whether `what` may be what a thing is used for."""
    words = [word for word in what.casefold().split() if word not in SKIPPED]
    if words in (["work"], ["data"]) or not SEVERAL.isdisjoint(words[-1:] + [word.rstrip("s") for word in words[-1:]]):
        return False
    return bool(words) and named_thing(what) and words[0] not in NO_PURPOSES and not _NUMBER.search(what)


KINDS: Final[Mapping[str, Callable[[str], bool]]] = {
    "favourite": favourite,
    "thing": named_thing,
    "purpose": purpose,
}
"""What `{what}` may be, by name."""

GUARDS: Final = frozenset(
    """
    not no never none nobody nothing neither nor without cannot don't doesn't didn't isn't aren't wasn't weren't
    won't wouldn't can't couldn't shouldn't haven't hasn't hadn't ain't longer anymore dont doesnt isnt cant wont if
    would could might may should must shall will i'll we'll he'll she'll they'll i'd we'd he'd she'd they'd wish
    wishes wished hope hopes hoping hoped want wants wanted wanting plan plans planning planned going gonna intend
    intends considering thinking think thinks dream dreams dreaming dreamed maybe perhaps probably possibly
    apparently supposedly allegedly guess suppose imagine pretend almost nearly was were used formerly previously
    former ex once until till temporarily temporary sometimes occasionally often usually said says told heard quit
    quitting quits left also both either tried trying try let's lets someday soon tomorrow next tonight originally
    initially
    """.split()
)
"""Words with which a sentence may say that it is not, was or may be so, is so for a while, or is said by another."""
COMMON: Final = NEITHER | ORDINARY | frozenset("he she it they you one everyone people".split())
"""Words that are no name of a subject."""
