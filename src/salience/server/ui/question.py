"""A question in the URL: the arguments of a recall, for the playground and the views that follow from it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from salience.errors import InputError, Words
from salience.rank import profiles
from salience.rank.profile import Profile
from salience.records import ANY, KINDS, TIERS, Wildcard, checks
from salience.records import where as conditions
from salience.server.ui.page import Page

MOST: Final = 50
"""Maximum number of hits on a page."""
DEFAULT: Final = "salience"
"""The profile of calls that name none."""
WEIGHT: Final = "w_"
"""Prefix of the parameters with the weights of signals."""
SLIDERS: Final = "sliders"
"""Parameter with the profile whose weights a form sends: those of another profile do not count."""
OPTIONS: Final = (
    "limit", "min_score", "now", "as_of", "since", "until", "kinds", "tiers", "tags", "sessions", "where",
    "deadline_ms",
)  # fmt: skip
NAMES: Final = ("q", "profile", *OPTIONS)
"""The parameters of a question but the weights."""
_FLAGS: Final = {
    "environment": "--environment", "project": "--project", "user_id": "--user", "agent_id": "--agent",
    "session_id": "--session", "kinds": "--kind", "tiers": "--tier", "tags": "--tag", "sessions": "--from-session",
}  # fmt: skip
"""Argument -> its option, where the names differ."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and how to answer it.

    Attributes:
        text: the question; empty if none is asked yet.
        profile: the profile, with its own weights.
        weights: label of a signal -> another weight.
        options: other arguments of `recall` that the URL names.
        named: arguments that name the profile: empty for the default one.
        where: the scope.
    """

    text: str
    profile: Profile
    weights: Mapping[str, float]
    options: Mapping[str, Any]
    named: Mapping[str, str]
    where: Mapping[str, Any]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `recall` but the scope and `dry_run`."""
        weights = {"weights": dict(self.weights)} if self.weights else {}
        return {"query": self.text, **self.named, **self.options, **weights}

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of a URL that ask this question."""
        weights = {WEIGHT + label: f"{weight:g}" for label, weight in self.weights.items()}
        options = {name: _written(value) for name, value in self.options.items()}
        return {"q": self.text, **self.named, **options, **weights}

    @property
    def limit(self) -> int:
        """Maximum number of hits."""
        return int(self.options.get("limit", self.profile.limit))


def profile_names(page: Page) -> tuple[str, ...]:
    """Return the names of the profiles that a page offers: the built-in ones and the default one."""
    return tuple(dict.fromkeys((page.profile.name, *profiles.NAMES)))


def profile_named(page: Page, name: str) -> tuple[Profile, dict[str, str]]:
    """Return a profile by its name, and the arguments of a call that name it; raises `InputError` if unknown."""
    if name == page.profile.name:  # named all the same if code elsewhere would take another default
        is_built_in = name in profiles.NAMES and page.profile == profiles.load(name)
        return page.profile, {"profile": name} if is_built_in and name != DEFAULT else {}
    return profiles.load(checks.choice("profile", name, profile_names(page))), {"profile": name}


def read(page: Page, most: int = MOST) -> Question:
    """Return the question of the URL, which may want at most `most` hits.

    Raises:
        InputError: an invalid value.
    """
    profile, named = profile_named(page, page.query.get("profile") or page.profile.name)
    return Question(
        page.query.get("q", "").strip(), profile, _weights(page, profile), _options(page, most), named, page.scope
    )


def _weights(page: Page, profile: Profile) -> dict[str, float]:
    """Return the weights of the URL that differ from the profile's."""
    if page.query.get(SLIDERS, profile.name) != profile.name:
        return {}
    found = {}
    for term in profile.terms:
        if text := page.query.get(WEIGHT + term.label):
            weight = checks.number(f"weights.{term.label}", _number(text), 0.0, 100.0)
            if weight != term.weight:
                found[term.label] = weight
    return found


def _options(page: Page, most: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in OPTIONS:
        text = page.query.get(name, "").strip()
        if not text:
            continue
        match name:
            case "limit":
                found[name] = checks.whole(name, int(text) if text.isdecimal() else text, 1, most)
            case "min_score":
                found[name] = checks.number(name, _number(text), 0.0, 100.0)
            case "deadline_ms":
                found[name] = checks.number(name, _number(text), 0.0, 3_600_000.0)
            case "where":
                found[name] = {**conditions.checked(_object(text))}
            case "kinds" | "tiers" | "tags" | "sessions":
                found[name] = [one.strip() for one in text.split(",") if one.strip()]
            case _:
                found[name] = checks.instant(name, text)
    return found


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        value, remedy = Words("text that is not JSON"), 'Write an object such as {"plan": "pro"}.'
        raise InputError("where", value, remedy, "is not JSON") from None


def _written(value: Any) -> str:
    """Return an option as the text of a URL."""
    match value:
        case datetime():
            return value.isoformat(timespec="minutes").removesuffix("+00:00")
        case list():
            return ",".join(value)
        case dict():
            return json.dumps(value, ensure_ascii=False)
    return f"{value:g}"


def values(page: Page, question: Question, most: int = MOST) -> dict[str, Any]:
    """Return the values that the form of a question needs in a template."""
    return {
        "question": question, "PROFILES": profile_names(page), "MOST": most, "KINDS": KINDS, "TIERS": TIERS,
        "options": {name: _written(question.options[name]) if name in question.options else "" for name in OPTIONS},
        "sliders": sliders(question),
        "RESET": {name: None for name in page.query if name.startswith(WEIGHT) or name == SLIDERS},
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slider:
    """The slider of a signal's weight; `high` is its right end, and `own` the profile's weight."""

    label: str
    combine: str
    weight: float
    own: float
    high: float


def sliders(question: Question) -> list[Slider]:
    """Return a slider for each signal of the profile."""
    found = []
    for term in question.profile.terms:
        weight = question.weights.get(term.label, term.weight)
        high = next(one for one in (1.0, 2.0, 5.0, 10.0, 100.0) if one >= max(weight, term.weight))
        found.append(Slider(term.label, term.combine, weight, term.weight, high))
    return found


def snippets(page: Page, question: Question, base: str) -> dict[str, str]:
    """Return the recall as code: a language -> a program, a command of curl, and a command of the CLI.

    `base` is the URL of the server, without a slash at the end.
    """
    where = {name: value for name, value in question.where.items() if value is not None}
    arguments = {**where, **question.arguments}
    del arguments["query"]
    command = page.command(_command(question.text, arguments))
    return {
        "Python": _python(page.store, question.text, arguments),
        "curl": _curl(question.text, arguments, base),
        "CLI": command,
    }


def _python(store: str | None, text: str, arguments: Mapping[str, Any]) -> str:
    lines = [f"    {text!r},", *(f"    {name}={_literal(value)}," for name, value in arguments.items())]
    return "\n".join(
        [
            "import salience",
            "",
            "memory = salience.connect()  # or a file, or the URL of a server with api_key=..."
            if store is None
            else f"memory = salience.connect({store!r})",
            "recall = memory.recall(",
            *lines,
            ")",
            "for hit in recall:",
            "    print(hit.score, hit.memory.content)",
        ]
    )


def _literal(value: Any) -> str:
    return repr(value.isoformat() if isinstance(value, datetime) else value)


def _plain(value: Any) -> Any:
    """Return a value as JSON."""
    match value:
        case datetime():
            return value.isoformat()
        case Wildcard():
            return ANY.value
    return value


def _curl(text: str, arguments: Mapping[str, Any], base: str) -> str:
    body = json.dumps(
        {"query": text, **{name: _plain(value) for name, value in arguments.items()}}, ensure_ascii=False, indent=2
    )
    return "\n".join(
        [
            f"curl {shlex.quote(f'{base}/v1/recall')} \\",
            '  -H "Authorization: Bearer $SALIENCE_API_KEY" \\',
            "  -H 'Content-Type: application/json' \\",
            f"  -d {shlex.quote(body)}",
        ]
    )


def _command(text: str, arguments: Mapping[str, Any]) -> str:
    words: list[list[str]] = []
    for name, value in arguments.items():
        flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
        match value:
            case dict() if name == "where":
                words.append([flag, json.dumps(value, ensure_ascii=False)])
            case dict():
                words += [[flag, f"{label}={weight:g}"] for label, weight in value.items()]
            case list():
                words += [[flag, one] for one in value]
            case _:
                words.append([flag, str(_plain(value))])
    options = " ".join(shlex.join(pair) for pair in words)
    return (
        f"salience recall {f'{options} ' if options else ''}{'-- ' if text.startswith('-') else ''}{shlex.quote(text)}"
    )
