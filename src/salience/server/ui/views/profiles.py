"""Profiles: the formula of each, and a copy to edit with its effect on a question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from salience.errors import InputError
from salience.rank import profiles
from salience.rank.profile import Profile
from salience.records import Hit, Profiles, checks
from salience.server.gate import read_profile
from salience.server.ui.page import Page, Visit
from salience.verbs import VERBS
from salience.wire import requests

router = APIRouter()
HITS: Final = 10
"""Memories before and after a change."""
SCORE: Final = "score"
"""The stage that computes the scores."""
AROUND: Final = 2
"""Lines shown before and after the line of an error."""
_SYNTAX: Final = re.compile(r"at line (\d+)")
_TABLE: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_FIGURE: Final = re.compile(r"(\s*([\w-]+)\s*=\s*)[-+.\w]+(.*)")
_KEY: Final = re.compile(r"\s*([^=#\s]+)\s*=")


@router.get("/profiles")
def show(page: Visit) -> Response:
    """Return the profiles, or the one that the URL names."""
    _require_read(page)
    found = _known(page)
    if "profile" not in page.query:
        return page.render("views/profiles.html", profiles=[drawn(one, page.profiles) for one in found.values()])
    chosen = found[checks.choice("profile", page.query["profile"], tuple(found))]
    return page.render("views/profile.html", drawing=drawn(chosen, page.profiles), names=tuple(found))


@router.get("/profiles/edit")
def edit(page: Visit) -> Response:
    """Return an edited copy of a profile: whether it is valid, and what it changes in the answer to a question."""
    _require_read(page)
    found = _known(page)
    base = found[checks.choice("profile", page.query.get("profile", page.profile.name), tuple(found))]
    toml, question = _toml(page, base), page.query.get("q", "").strip()
    checked = check(toml)
    values: dict[str, Any] = {"base": base, "names": tuple(found), "toml": toml, "q": question, "HITS": HITS}
    if isinstance(checked, InputError):
        line = line_of(toml, checked)
        values |= {"error": checked, "line": line, "excerpt": excerpt(toml, line), "drawing": None, "moves": None}
        return page.render("views/profile_edit.html", **values)
    moved: list[Move] | None = None
    if question:
        shipped = base.name if base.name in profiles.NAMES else None
        before = page.call("recall", query=question, profile=shipped, limit=min(HITS, base.max_limit), dry_run=True)
        text = requests.ProfileText(toml=toml)
        after = page.call("recall", query=question, profile=text, limit=min(HITS, checked.max_limit), dry_run=True)
        moved = moves(before, after)
    return page.render(
        "views/profile_edit.html", **values, error=None, drawing=drawn(checked, page.profiles), moves=moved
    )


@router.get("/profiles/toml")
def download(page: Visit) -> Response:
    """Return the TOML of a profile, or of its edited copy, as a file."""
    _require_read(page)
    found = _known(page)
    base = found[checks.choice("profile", page.query.get("profile", page.profile.name), tuple(found))]
    name = re.sub(r"[^\w-]", "_", base.name, flags=re.ASCII)
    disposition = f'attachment; filename="{name}.toml"'
    return Response(_toml(page, base), media_type="application/toml", headers={"Content-Disposition": disposition})


def _require_read(page: Page) -> None:
    """As the API does for its list of profiles."""
    page.site.gate.require_right(page.grant, VERBS["recall"])


def _known(page: Page) -> dict[str, Profile]:
    """Return the shipped profiles and that of the server, by name; that of the server first."""
    own = page.profile
    return {own.name: own} | {name: own if name == own.name else profiles.load(name) for name in profiles.NAMES}


def _toml(page: Page, base: Profile) -> str:
    """Return the text in the URL, with the line ends of a form made plain; else that of the profile."""
    return page.query.get("toml", base.toml or "").replace("\r\n", "\n")


def check(toml: str) -> Profile | InputError:
    """Return the profile in a text, or the error, as the API would raise it."""
    try:
        return read_profile(requests.parse(requests.ProfileText, {"toml": toml}))
    except InputError as error:
        return error


def line_of(toml: str, error: InputError) -> int | None:
    """Return the line of an error, from 1: that of a syntax error, of the key, or of the table that lacks the key."""
    if match := _SYNTAX.search(str(error)):
        return int(match[1])
    path = error.field.rpartition(": ")[2]
    table, best, length = "", None, 0
    for number, line in enumerate(toml.splitlines(), start=1):
        found = ""
        if match := _TABLE.match(line):
            table = found = match[1].replace('"', "")
        elif match := _KEY.match(line):
            key = match[1].strip("\"'")
            found = f"{table}.{key}" if table else key
        if found and (path == found or path.startswith(f"{found}.")) and len(found) > length:
            best, length = number, len(found)
    return best


def excerpt(toml: str, line: int | None) -> list[tuple[int, str]]:
    """Return the lines around a line, with their numbers."""
    if line is None:
        return []
    numbered = list(enumerate(toml.splitlines(), start=1))
    return numbered[max(line - 1 - AROUND, 0) : line + AROUND]


def with_figures(toml: str, figures: Mapping[str, float]) -> str:
    """Return a profile's TOML with other figures, such as `min_score` or `signal.speaker.weight`; comments are kept."""
    lines = toml.split("\n")
    for name, value in figures.items():
        table, _, key = name.rpartition(".")
        lines = _with_figure(lines, table, key, value)
    return "\n".join(lines)


def _with_figure(lines: list[str], table: str, key: str, value: float) -> list[str]:
    current, head = "", None if table else 0
    for number, line in enumerate(lines):
        if match := _TABLE.match(line):
            current = match[1].replace('"', "")
            head = number + 1 if current == table else head
        elif current == table and (match := _FIGURE.match(line)) and match[2] == key:
            return [*lines[:number], f"{match[1]}{value:g}{match[3]}", *lines[number + 1 :]]
    if head is None:
        return [*lines, "", f"[{table}]", f"{key} = {value:g}"]
    return [*lines[:head], f"{key} = {value:g}", *lines[head:]]


@dataclass(frozen=True, slots=True)
class Move:
    """A memory in the answer before or after a change: its hit and its rank in each, None where it is not."""

    before: Hit | None
    after: Hit | None
    rank_before: int | None
    rank_after: int | None

    @property
    def hit(self) -> Hit:
        """The hit after the change; before it if there is none after."""
        found = self.after or self.before
        if found is None:
            raise ValueError("a move without a hit")
        return found

    @property
    def text(self) -> str:
        """The change of the rank in words."""
        if self.rank_before is None:
            return "new"
        if self.rank_after is None:
            return "gone"
        change = self.rank_before - self.rank_after
        return "same" if not change else f"{'up' if change > 0 else 'down'} {abs(change)}"


def moves(before: Sequence[Hit], after: Sequence[Hit]) -> list[Move]:
    """Return the memories of the answer after a change, best first, then those that are in it no more."""
    old = {hit.memory.id: (rank, hit) for rank, hit in enumerate(before, start=1)}
    new = {hit.memory.id: (rank, hit) for rank, hit in enumerate(after, start=1)}
    found = []
    for id_ in [*new, *(id_ for id_ in old if id_ not in new)]:
        rank_before, hit_before = old.get(id_, (None, None))
        rank_after, hit_after = new.get(id_, (None, None))
        found.append(Move(hit_before, hit_after, rank_before, rank_after))
    return found


@dataclass(frozen=True, slots=True)
class Part:
    """A signal or a stage of a profile, for display.

    Attributes:
        label, name: of the signal in `score_detail`, and of its formula; both are the name of a stage.
        meaning: the first paragraph of its documentation.
        parameters: (name, value) as text.
        weight: of a signal.
        share: of a summed signal in the sum of the weights.
        range: of the values of a signal.
        scores: whether the stage computes the scores.
    """

    label: str
    name: str
    meaning: str
    parameters: tuple[tuple[str, str], ...]
    weight: float = 1.0
    share: float = 0.0
    range: str = ""
    scores: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """A profile for display: summed signals, factors, stages in order, weights per intent, and figures."""

    profile: Profile
    sums: tuple[Part, ...]
    factors: tuple[Part, ...]
    stages: tuple[Part, ...]
    intents: tuple[tuple[str, str, tuple[tuple[str, float, float], ...]], ...]
    figures: tuple[tuple[str, str], ...]

    @property
    def weights(self) -> list[tuple[str, float]]:
        """The summed signals with their weights."""
        return [(part.label, part.weight) for part in self.sums]

    @property
    def formula(self) -> str:
        """The formula in one line: `score = (0.3 similarity + 0.6 lexical) x weight`."""
        total = " + ".join(f"{part.weight:g} {part.label}" for part in self.sums)
        factors = [part.label if part.weight == 1 else f"{part.label}^{part.weight:g}" for part in self.factors]
        return " x ".join([*([f"({total})" if factors else total] if total else []), *factors])


def drawn(profile: Profile, known: Profiles) -> Drawing:
    """Return a profile for display; every text comes from the profile and from the known signals and stages."""
    signals, steps = {one.name: one for one in known.signals}, {one.name: one for one in known.stages}
    whole = sum(term.weight for term in profile.terms if term.combine == "sum") or 1.0
    parts = {"sum": list[Part](), "product": list[Part]()}
    for term in profile.terms:
        signal = signals[term.signal]
        meaning, parameters = signal.meaning, _parameters(term.parameters)
        share = term.weight / whole if term.combine == "sum" else 0.0
        values = f"{signal.low:g} to {signal.high:g}"
        parts[term.combine].append(
            Part(term.label, term.signal, meaning, parameters, weight=term.weight, share=share, range=values)
        )
    stages = [
        Part(name, name, steps[name].meaning, _parameters(profile.stage_parameters.get(name, {})),
             scores=name == SCORE)
        for name in profile.stages
    ]  # fmt: skip
    usual = profile.weights("")
    intents = [
        (name, ", ".join(rule.words), tuple((label, usual[label], weight) for label, weight in rule.weights.items()))
        for name, rule in profile.intents.items()
    ]
    return Drawing(
        profile, tuple(parts["sum"]), tuple(parts["product"]), tuple(stages), tuple(intents), _figures(profile)
    )


def _parameters(given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, _value(value)) for name, value in given.items())


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value(one)}" for name, one in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _figures(profile: Profile) -> tuple[tuple[str, str], ...]:
    """Return the other settings of a profile as (label, text)."""
    sure = "not judged"
    if profile.confidence is not None:
        model = profile.confidence
        sure = f"a probability; answers from {model.confident_from:g}, may answer from {model.possible_from:g}"
    elif profile.weak_below is not None:
        sure = f"does not answer below a score of {profile.weak_below:g}"
    ranked = "every visible memory"
    if profile.candidates is not None:
        ranked = f"the {profile.candidates[0]} x limit nearest, at least {profile.candidates[1]}"
    writes = profile.on_recall
    changed = [f"times recalled + {writes.access_count}"] if writes.access_count else []
    changed += [f"importance + {writes.importance:g}"] if writes.importance else []
    changed += ["last recalled"] if writes.accessed_at else []
    changed += ["primed in its session"] if writes.activate else []
    conflict = profile.contradiction_above
    return (
        ("Hits", f"{profile.limit}, at most {profile.max_limit:,}"),
        ("Least score", "none" if profile.min_score is None else f"{profile.min_score:g}"),
        ("Ranks", ranked),
        ("Similarity", "raw cosine" if profile.threshold_scale == "raw" else "calibrated relatedness"),
        ("How sure is a hit", sure),
        ("A recall changes", ", ".join(changed) or "nothing"),
        ("Reports conflicts", "no" if conflict is None else f"from a similarity of {conflict:g}"),
        ("Graph recall", f"weight {profile.graph_weight:g}, up to {profile.max_hops} hops"),
    )
