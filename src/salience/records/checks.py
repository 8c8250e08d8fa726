"""Validation of single values: each function returns the clean value or raises `InputError`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final

from salience.errors import InputError, Words, shown, unknown, wrong_type
from salience.records.ids import ID, WHOLE_OR_SHORT_ID

DURATION_PATTERN = r"([0-9]+(?:\.[0-9]+)?)\s*([smhdwSMHDW]?)"
"""Number and unit of a duration; the JSON schemas of REST and MCP use the same pattern."""
_DURATION = re.compile(DURATION_PATTERN, re.ASCII)
_AGO = re.compile(r"[0-9]+(?:\.[0-9]+)?\s*[smhdw]", re.ASCII)  # a number alone is not a time
_PERIOD = re.compile(r"([0-9]{4})(?:-([0-9]{2}))?", re.ASCII)
_DAY = timedelta(days=1)
_FIRST_DAYS: Final[Mapping[str, Callable[[date], date]]] = {
    "today": lambda today: today,
    "yesterday": lambda today: today - _DAY,
    "this week": lambda today: today - today.weekday() * _DAY,
    "last week": lambda today: today - (today.weekday() + 7) * _DAY,
    "this month": lambda today: today.replace(day=1),
    "last month": lambda today: (today.replace(day=1) - _DAY).replace(day=1),
    "this year": lambda today: today.replace(month=1, day=1),
    "last year": lambda today: today.replace(year=today.year - 1, month=1, day=1),
}
"""Name of a period -> its first day."""
INSTANT_PATTERN = rf"^(now|{'|'.join(_FIRST_DAYS)}|[1-9][0-9]{{0,2}}[smhdw]|[1-9][0-9]{{3}}(-(0[1-9]|1[0-2]))?)$"
"""Texts other than ISO 8601 that name an instant, in the JSON schemas of REST and MCP."""
_YEARS = "Give an instant between the years 1 and 9999 in UTC."
_REMEDY = (
    "Give a date (2026-05-01, 2026-05), a length of time before now (2d, 12h), today, yesterday, 'last week', "
    "or ISO 8601 (2026-05-01T09:30"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NO_CONTROL = "Remove line breaks, tabs and the like."
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
Instant = datetime | date | str
"""What `instant` reads."""
NAME_LIMIT = 256
"""Longest name (tag, kind, user id, key ...) in characters."""
QUERY_LIMIT = 4096
"""Longest query, characters; embedding models read the first 2,000 or so."""
METADATA_DEPTH = 32
"""How deep metadata may be nested."""
METADATA_LIMIT = 65_536
"""Largest metadata of a memory, bytes of its JSON in UTF-8."""
LABELS_LIMIT = 1000
"""Maximum number of tags of a memory, and of its entities."""
LABELS_SIZE = 32_768
"""Maximum size of all tags of a memory together, and of all its entities, bytes in UTF-8."""
DURATION_LEAST = 1e-6
"""Shortest duration, seconds: the resolution of an instant."""
DURATION_LIMIT = 100 * 366 * 86400.0
"""Longest duration, seconds: about a century."""


def path(field: str, value: str | Path) -> Path:
    """Return a path, with the home directory for a leading `~`.

    Raises:
        InputError: no path, or the `~` of an unknown user.
    """
    try:
        return Path(value).expanduser()
    except TypeError:
        raise wrong_type(field, value, "Give a path.") from None
    except RuntimeError:
        remedy = "Write ~/ for your own home directory, or ./~ for a file whose name starts with ~."
        raise InputError(field, str(value), remedy, f"{shown(str(value))} starts with ~ and no user's name") from None


def text(field: str, value: object, limit: int | None = None) -> str:
    """Return `value` if it is text that is not blank and that every store can hold.

    Args:
        field: the name in the error.
        value: anything.
        limit: most bytes in UTF-8; None: no limit.

    Raises:
        InputError: not a str, blank, too long, or with NUL bytes or lone surrogates. The message never shows the text.
    """
    if not isinstance(value, str):
        raise wrong_type(field, value, "Give text (str).")
    if not value or value.isspace():
        raise InputError(field, Words("empty text"), "Give some text.", "is empty")
    if "\0" in value:
        raise InputError(field, Words("text with a NUL byte"), "Remove the NUL (\\x00) characters.", "has a NUL byte")
    try:
        size = len(value) if value.isascii() else len(value.encode("utf-8"))
    except UnicodeEncodeError as error:
        remedy = f"Replace the lone surrogate at position {error.start}, for example with U+FFFD."
        raise InputError(field, Words("text with a lone surrogate"), remedy, "has a lone surrogate") from None
    if limit is not None and size > limit:
        remedy = f"Keep it within {limit:,} bytes, or split it."
        raise InputError(field, Words(f"text of {size:,} bytes"), remedy, f"has {size:,} bytes")
    return value


def query(field: str, value: object) -> str:
    """Return `value` if it is a text of at most `QUERY_LIMIT` characters that is not blank."""
    clean = text(field, value)
    if len(clean) > QUERY_LIMIT:
        size = f"{len(clean):,} characters"
        raise InputError(field, Words(f"text of {size}"), f"Keep it within {QUERY_LIMIT:,} characters.", f"has {size}")
    return clean


def texts(field: str, value: object, limit: int | None = None) -> tuple[str, ...]:
    """Return a tuple of texts validated by `text`; a single str is refused."""
    return tuple(text(f"{field}[{index}]", item, limit) for index, item in enumerate(_several(field, value)))


def name(field: str, value: object) -> str:
    """Return `value` if it is text of at most 256 characters without control characters."""
    if isinstance(value, str) and 0 < len(value) <= NAME_LIMIT and value.isprintable() and not value.isspace():
        return value  # the usual case: printable text has no control character, NUL or lone surrogate
    clean = text(field, value)
    if not clean.isprintable() and _CONTROL.search(clean):
        raise InputError(field, Words("text with a control character"), _NO_CONTROL, "has a control character")
    if len(clean) > NAME_LIMIT:
        size = f"{len(clean)} characters"
        raise InputError(field, Words(f"text of {size}"), f"Keep it within {NAME_LIMIT} characters.", f"has {size}")
    return clean


def names(field: str, value: object) -> tuple[str, ...]:
    """Return a tuple of distinct names in the given order; a single str is refused."""
    if isinstance(value, tuple) and not value:
        return ()
    return tuple(dict.fromkeys(name(f"{field}[{index}]", item) for index, item in enumerate(_several(field, value))))


def ids(field: str, value: object, *, whole: bool = False) -> tuple[str, ...]:
    """Return a tuple of distinct ids in the given order, short ones too unless `whole`; a single str is refused."""
    clean, pattern = names(field, value), ID if whole else WHOLE_OR_SHORT_ID
    for one in clean:
        if not pattern.fullmatch(one):
            remedy = "Give the whole id of a memory" + ("." if whole else ", or its last 8 characters.")
            raise InputError(field, one, remedy, f"has {shown(one)}, which is no {'whole ' * whole}id")
    return clean


def own(field: str, value: object) -> tuple[str, ...]:
    """Return a tuple of distinct names of a coordinate; an empty one stands for memories without it."""
    items = enumerate(_several(field, value))
    return tuple(dict.fromkeys("" if item == "" else name(f"{field}[{index}]", item) for index, item in items))


def few(field: str, values: tuple[str, ...], most: int) -> tuple[str, ...]:
    """Return `values` if there are at most `most`."""
    if len(values) > most:
        count = f"{len(values):,} texts"
        raise InputError(field, Words(f"a list of {count}"), f"Give at most {most:,}.", f"has {count}")
    return values


def labels(field: str, value: object) -> tuple[str, ...]:
    """Return tags or entities: distinct names, at most `LABELS_LIMIT` names and `LABELS_SIZE` bytes together."""
    clean = names(field, value)
    if len(clean) > LABELS_LIMIT:
        count = f"{len(clean):,} names"
        raise InputError(field, Words(f"a list of {count}"), f"Give at most {LABELS_LIMIT:,}.", f"has {count}")
    size = sum(len(one.encode()) for one in clean)
    if size > LABELS_SIZE:
        remedy = f"Keep all names within {LABELS_SIZE:,} bytes."
        raise InputError(field, Words(f"a list of {size:,} bytes"), remedy, f"has {size:,} bytes")
    return clean


def first_labels(found: Iterable[str]) -> tuple[str, ...]:
    """Return as many of the first names as `labels` accepts."""
    clean, size = [], 0
    for one in islice(found, LABELS_LIMIT):
        size += len(one.encode())
        if size > LABELS_SIZE:
            break
        clean.append(one)
    return tuple(clean)


def _several(field: str, value: object) -> Iterable[object]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise wrong_type(field, value, "Give a list of texts.")
    return value


def number(field: str, value: object, low: float, high: float) -> float:
    """Return `value` as a float if it is a finite number in [low, high]."""
    real = value if type(value) is float else _real(value)
    if not low <= real <= high:  # refuses NaN too
        raise InputError(field, value, f"Give a number from {low:g} to {high:g}.")
    return real


def _real(value: object) -> float:
    """Return `value` as a float; NaN if it is no number, infinity if it is too large."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def whole(field: str, value: object, low: int, high: int) -> int:
    """Return `value` as an int if it is a whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise InputError(field, value, f"Give a whole number from {low} to {high}.")
    return int(value)


def flag(field: str, value: object) -> bool:
    """Return `value` if it is true or false."""
    if not isinstance(value, bool):
        raise InputError(field, value, "Give true or false.")
    return value


def aware(field: str, value: object) -> datetime:
    """Return `value` in UTC if it is an aware datetime, or an ISO 8601 text with an offset."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InputError(field, value, "Give ISO 8601, such as 2026-05-01T09:30:00+00:00.") from None
    if not isinstance(value, datetime):
        raise InputError(field, value, "Give an aware datetime, such as datetime.now(timezone.utc).")
    if value.utcoffset() is None:
        remedy = "Give its time zone, such as tzinfo=timezone.utc or +00:00."
        raise InputError(field, value.isoformat(), remedy, f"{value.isoformat()} has no time zone")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InputError(field, value.isoformat(), _YEARS) from None


def instant(field: str, value: object, *, now: datetime | None = None, zone: tzinfo | None = UTC) -> datetime:
    """Return an instant in UTC.

    `value` is a datetime, a date, ISO 8601, a year or month (`2026-05`), `now`, `today`, `yesterday`, `this week`,
    `last month` and the like, or a length of time before now (`2d`, `12h ago`). A day, week, month or year means its
    first instant; weeks begin on Monday.

    Args:
        field: the name in the error.
        value: anything.
        now: aware; None for the time of the system.
        zone: of what has no offset; None for local time.
    """
    try:
        if isinstance(value, str):
            value = _moment(field, value, now or datetime.now(UTC), zone)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time.min)
        if isinstance(value, datetime):
            return (value if value.utcoffset() is not None else _placed(value, zone)).astimezone(UTC)
    except OverflowError:
        shown = value.isoformat() if isinstance(value, datetime) else value
        raise InputError(field, shown, _YEARS) from None
    raise InputError(field, value, "Give a datetime, a date, or text such as 2026-05-01, yesterday or 2d.")


def _moment(field: str, text: str, now: datetime, zone: tzinfo | None) -> datetime:
    words = " ".join(text.lower().split())
    if words == "now":
        return now
    if first := _FIRST_DAYS.get(words):
        return datetime.combine(first(now.astimezone(zone).date()), time.min)
    if period := _PERIOD.fullmatch(words):
        year, month = int(period[1]), int(period[2] or 1)
        if year and 1 <= month <= 12:
            return datetime(year, month, 1)  # noqa: DTZ001 - its zone is added by the caller
    try:
        if _AGO.fullmatch(ago := words.removesuffix(" ago")):
            return now - duration(field, ago)
        return datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        place = "local time" if zone is None else "UTC"
        raise InputError(field, text, f"{_REMEDY}, with an offset or in {place}).") from None


def _placed(moment: datetime, zone: tzinfo | None) -> datetime:
    return moment.astimezone() if zone is None else moment.replace(tzinfo=zone)


def duration(field: str, value: object) -> timedelta:
    """Return a duration of at most a century.

    `value` is seconds, a timedelta, or text such as `24h`, `7d` or `2w` (units: s, m, h, d, w).
    """
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        seconds = float(match[1]) * _SECONDS[match[2].lower()]
    elif not isinstance(value, bool) and isinstance(value, Real):
        seconds = _real(value)
    else:
        remedy = "Give seconds, a timedelta, or text such as '24h', '7d' or '2w' (s, m, h, d, w)."
        raise InputError(field, value, remedy)
    if not DURATION_LEAST <= seconds <= DURATION_LIMIT:  # also refuses NaN
        raise InputError(field, value, "Give a length of time of more than 0 seconds and at most 100 years.")
    return timedelta(seconds=seconds)


def choice(field: str, value: object, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`; the error lists them."""
    known = choices if isinstance(choices, (tuple, frozenset, dict)) else tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise unknown(field, value, known)
    return value


class Frozen(dict[str, Any]):
    """An immutable dict, for validated JSON values."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("this mapping cannot be changed; make a dict of it first")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return Frozen, (dict(self),)


def frozen(value: Any) -> Any:
    """Return an immutable JSON value; lists become tuples."""
    if isinstance(value, Mapping):
        return Frozen({key: frozen(item) for key, item in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, (list, tuple)) else value


def metadata(field: str, value: object) -> Frozen:
    """Return an immutable copy of a mapping of text to JSON values without NaN, of at most `METADATA_LIMIT` bytes."""
    if not isinstance(value, Mapping):
        raise wrong_type(field, value, "Give a mapping of JSON values.")
    if not value:
        return Frozen()
    plain = _json_object(field, value, METADATA_DEPTH)
    size = json_size(plain)
    if size > METADATA_LIMIT:
        remedy = f"Keep it within {METADATA_LIMIT:,} bytes of JSON; keep larger data elsewhere and name it here."
        raise InputError(field, Words(f"a mapping of {size:,} bytes"), remedy, f"has {size:,} bytes")
    clean: Frozen = frozen(plain)
    return clean


def json_size(value: object) -> int:
    """Return the size of a JSON value in UTF-8, bytes."""
    return len(_json(value).encode())


_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _json_object(field: str, value: Mapping[Any, object], depth: int) -> dict[str, Any]:
    return {name(f"{field} key", key): _json_value(f"{field}.{key}", item, depth) for key, item in value.items()}


def _json_value(field: str, value: object, depth: int) -> Any:
    if depth == 0:
        raise InputError(
            field, Words("a deeper value"), f"Nest at most {METADATA_DEPTH} levels.", "is nested too deeply"
        )
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str):
        return text(field, value) if value.strip() else value
    if isinstance(value, Mapping):
        return _json_object(field, value, depth - 1)
    if isinstance(value, (list, tuple)):
        return [_json_value(f"{field}[{index}]", item, depth - 1) for index, item in enumerate(value)]
    raise wrong_type(field, value, "Give JSON values: text, finite numbers, true, false, null.")
