"""Short words for values: ages, scopes, parts of a score, times by step."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from salience import keywords
from salience.cli.signs import one_line
from salience.records import Hit, OutOfScope, Part, Recall, Scope, ScoreDetail
from salience.records.ids import short_id

ELSEWHERE: Final = "Memories of a project, user or agent are seen with --project, --user and --agent ('*' for any)."
"""Said where nothing is there to show, since the usual reason is a scope that was not named."""
NEAREST: Final = "With --min-score 0, what comes nearest is shown, whether it fits or not."
"""Said where a recall is empty, since its profile may have held everything to be too far off."""
_STEPS: Final = ((60.0, 1.0, "s"), (3600.0, 60.0, "m"), (86400.0, 3600.0, "h"), (8_640_000.0, 86400.0, "d"))
_MONTH: Final = 30.44 * 86400.0


def age(since: datetime, now: datetime) -> str:
    """Return the time from `since` to `now` in one unit: 40s, 5m, 3h, 99d, 7mo, 4y."""
    seconds = max((now - since).total_seconds(), 0.0)
    for below, unit, name in _STEPS:
        if seconds < below:
            return f"{int(seconds / unit)}{name}"
    months = int(seconds / _MONTH)
    return f"{months}mo" if months < 24 else f"{int(seconds / (365.25 * 86400.0))}y"


def scope(home: Scope) -> str:
    """Return the coordinates that are set, without the default environment: `user:alice project:parcel`."""
    return " ".join(keywords.short(home)) or "-"


def elsewhere(places: Sequence[OutOfScope]) -> list[str]:
    """Return where there are memories that a call did not ask for, a line each, with the options that ask for them."""

    def option(name: str, value: str) -> str:
        return f"--{name.removesuffix('_id')} {shlex.quote(value)}"

    return [one_line(place.told(option)) for place in places]


def part(of: Part) -> str:
    """Return a part of a score: `similarity=0.457` where it is added, `weight=x0.800` where it multiplies."""
    return f"{of.signal}={'x' if of.combine == 'product' else ''}{of.contribution:.3f}"


def asides(hit: Hit) -> list[str]:
    """Return what else is to be said of a hit: where activation came from, what it absorbed, the reranker's number."""
    said = ["weak"] if hit.weak else []
    if hit.via is not None:
        said.append(f"via {short_id(hit.via.id)} ({hit.via.link})")
    if hit.absorbed:
        said.append(f"absorbed {', '.join(map(short_id, hit.absorbed))}")
    if hit.rerank is not None:
        said.append(f"rerank {hit.rerank:.3f}")
    return said


def how(found: Recall) -> list[str]:
    """Return how an answer came about: profile, intent, exactness and milliseconds by step."""
    intent = found.intent
    return [
        f"profile {found.profile}",
        f"intent {intent.name}" + (f" ({', '.join(intent.words)})" if intent.words else ""),
        "exact" if found.exact else "not exact",
        *([f"reranked by {found.reranker}"] if found.reranker else []),
        *([f"degraded: no {', '.join(found.degraded)}"] if found.degraded else []),
        timings(found.timings),
    ]


UNSURE: Final = "No memory clearly answers this; the closest are:"


def timings(laps: Mapping[str, float]) -> str:
    """Return milliseconds: the sum, then each step."""
    return f"{sum(laps.values()):.1f} ms ({', '.join(f'{step} {lap:.1f}' for step, lap in laps.items())})"


def taken_apart(rank: int, hit: Hit) -> list[str]:
    """Return the score of a hit as lines: its rank and id, then the arithmetic."""
    return [f"{rank}  {hit.memory.short_id}  score {hit.score:.6f}", *arithmetic(hit.score_detail)]


def arithmetic(detail: ScoreDetail) -> list[str]:
    """Return a score as lines: raw value, weight and contribution of each signal, and the sum of it all."""
    width = max((len(item.signal) for item in detail.parts), default=6)
    lines = [f"   {'signal':{width}}  {'raw':>9}  {'weight':>7}  contribution"] if detail.parts else []
    lines += [
        f"   {item.signal:{width}}  {item.raw:9.6f}  {item.weight:7.3f}  {_sign(item)}{item.contribution:.6f}"
        for item in detail.parts
    ]
    return [*lines, f"   {recomputed(detail)} = {detail.recompute():.6f}"]


def _sign(item: Part) -> str:
    return "+ " if item.combine == "sum" else "x "


def recomputed(detail: ScoreDetail) -> str:
    """Return the arithmetic of a score: `(0.456602 + 0.500000) x 0.800000`, or the parent's score times its hops."""
    via = detail.via
    if via is not None:
        return f"{via.score:.6f} x {via.factor:g}^{via.hops} (from {short_id(via.id)})"
    parts = detail.parts
    added = " + ".join(f"{item.contribution:.6f}" for item in parts if item.combine == "sum")
    factors = [f"{item.contribution:.6f}" for item in parts if item.combine == "product"]
    if added and factors:
        added = f"({added})"
    return " x ".join([*([added] if added else []), *factors]) or "1"
