"""Recalls, memories and receipts as plain lines and as terminal views."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from string import ascii_lowercase
from typing import Any, Final

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.table import Column
from rich.text import Text

from salience.cli.output import (
    LONGEST,
    SCOPE_HINT,
    Answer,
    age,
    as_commands,
    entries,
    excerpt,
    grid,
    hints,
    is_narrow,
    one_line,
    sanitize,
    scope_text,
    table,
    truncate,
    tsv,
)
from salience.records import (
    ChangesPage,
    Erased,
    Explanation,
    Hit,
    Memory,
    Page,
    Recall,
    RecallLogPage,
    Receipt,
    ReviewPage,
    ScoreDetail,
    Stats,
    Version,
)
from salience.records.answers import counted, replacement, said
from salience.records.ids import short_id
from salience.wire.responses import to_json

BAR: Final = 20
"""Width of the longest score bar."""
UNSURE: Final = "No memory clearly answers this. Closest:"
NOTHING_FOUND: Final = (
    "Nothing found. Under a profile with a minimum score or a cut-off, --min-score 0 shows the nearest memories."
)
COLOURS: Final = ("cyan", "yellow", "magenta", "green", "blue", "red", "bright_cyan", "bright_yellow")
SCORE: Final = "score"
"""Segment of a product: the score after all factors."""
VIA: Final = "via"
"""Segment of a hit whose score comes from a linked memory."""
_IMPLIED: Final = ("updated_at", "tier_since", "forgotten_at")
"""Fields that change with every change of a kind; the history does not list them."""


# --- Recalls ----------------------------------------------------------------------------------------------------------


def recall(found: Recall, now: datetime, explain: bool, is_local: bool) -> Answer:
    """Return a recall; `explain` adds the arithmetic of each score. If `is_local`, its time includes loading."""
    head = _summary(found, explain, is_local)
    return Answer(found, _recall_lines(found, head, now, explain), _recall_view(found, head, now, explain))


def recalls(queries: Sequence[str], found: Sequence[Recall], now: datetime, explain: bool, is_local: bool) -> Answer:
    """Return several recalls, each under its question."""
    lines: list[str] = []
    views: list[RenderableType] = []
    for query, one in zip(queries, found, strict=True):
        head = _summary(one, explain, is_local)
        lines += [f"# question: {one_line(query)}", *_recall_lines(one, head, now, explain)]
        views += [Text(sanitize(query), style="bold"), _recall_view(one, head, now, explain), ""]
    return Answer({"recalls": found}, lines, Group(*views))


def _recall_lines(found: Recall, head: Sequence[str], now: datetime, explain: bool) -> Iterator[str]:
    yield f"# {'; '.join(head)}"
    yield from (f"# {one_line(line)}" for line in time_cue(found))
    if found.hits and found.verdict == "does not answer":
        yield f"# {UNSURE}"
    yield "# rank\tscore\tage\tid\tscope\tparts\tcontent"
    for rank, hit in enumerate(found, 1):
        memory, parts = hit.memory, hit.score_detail.parts
        written = " ".join(f"{p.signal}={'x' if p.combine == 'product' else ''}{p.contribution:.3f}" for p in parts)
        home, made_of = scope_text(memory.scope), "; ".join([written, *_remarks(hit)])
        yield tsv(rank, f"{hit.score:.4f}", age(memory.created_at, now), memory.id, home, made_of, memory.content)
    yield from (f"# {line}" for line in _hints(found))
    for rank, hit in enumerate(found, 1) if explain else ():
        yield from (f"# {one_line(line)}" for line in _explained(rank, hit))


def _recall_view(found: Recall, summary: Sequence[str], now: datetime, explain: bool) -> RenderableType:
    head = Text(sanitize("\n".join([" · ".join(summary), *time_cue(found)])), style="dim")
    if not found.hits:
        return Group(head, Text("\n".join(_hints(found))))
    marks, segments = _marks(found), [shares(hit.score_detail) for hit in found]
    longest = max(sum(part.length for part in parts) for parts in segments)
    shown = table(
        Column("#", justify="right", no_wrap=True),
        Column("score", justify="right", no_wrap=True),
        Column("made of", no_wrap=True, width=BAR),
        Column("memory", ratio=3, overflow="fold"),
        Column("age", justify="right", no_wrap=True),
        Column("id", no_wrap=True, style="dim"),
        Column("scope", ratio=1, min_width=14, overflow="fold", style="dim"),
        expand=True,
    )
    stacked = []
    for rank, (hit, parts) in enumerate(zip(found, segments, strict=True), 1):
        bar, content = Text(), Text(excerpt(hit.memory.content))
        for part, length in zip(parts, cells(parts, longest, BAR), strict=True):
            mark = marks[part.signal]
            bar.append((mark.kept if part.kept else mark.lost) * length, style=mark.style)
        for remark in _remarks(hit):
            content.append(f"\n{remark}", style="dim italic")
        when, home = age(hit.memory.created_at, now), Text(sanitize(scope_text(hit.memory.scope)), style="dim")
        score, id_ = Text(f"{hit.score:.3f}", style="bold"), Text(hit.memory.short_id, style="dim")
        shown.add_row(str(rank), score, bar, content, when, id_, home)
        bar.pad_right(BAR - len(bar))
        stacked.append(((str(rank), score, bar, id_, when, home), (content,)))
    unsure = [Text(UNSURE, style="yellow")] if found.verdict == "does not answer" else []
    details = ["\n" + sanitize("\n".join(_explained(rank, hit))) for rank, hit in enumerate(found, 1) if explain]
    table_ = entries(stacked) if is_narrow() else shown
    return Group(head, *unsure, table_, _legend(segments, marks), *map(Text, details))


def _hints(found: Recall) -> list[str]:
    """Return where other memories are; for an empty recall without any, what else may find some."""
    lines = hints(found)
    if found.hits:
        return lines
    return ["Nothing found in this scope.", *lines] if lines else [NOTHING_FOUND, SCOPE_HINT]


def _summary(found: Recall, explain: bool, is_local: bool) -> list[str]:
    """Return how many memories were found, by which profile and in what time; `explain` adds how.

    A recall in this process is its first: most of the time loads the model, which a program does once.

    The intent of the question and the exactness of the order are left out if they are as usual.
    """
    intent, laps = found.intent, found.timings
    steps = f" ({', '.join(f'{step} {lap:.1f}' for step, lap in laps.items())})" if explain else ""
    words = f" ({', '.join(intent.words)})" if intent.words else ""
    return [
        counted(len(found), "memory", "memories"),
        f"profile {found.profile}",
        *([f"intent {intent.name}{words}"] if explain or words else []),
        *([] if found.exact and not explain else ["exact" if found.exact else "not exact"]),
        *([f"reranked by {found.reranker}"] if found.reranker else []),
        *(f"searched for {word!r} instead of {query!r}" for query, word in found.corrected.items()),
        *([f"degraded: no {', '.join(found.degraded)}"] if found.degraded else []),
        f"{sum(laps.values()):.1f} ms{' with loading the model' * is_local}{steps}",
    ]


def time_cue(found: Recall) -> list[str]:
    """Return how the query's words about time were understood, as a line; empty if there are none."""
    cue = found.intent.time
    if cue is None:
        return []
    sides = [
        f"{word} {at:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
        for word, at in (("from", cue.start), ("until", cue.end))
        if at is not None
    ]
    meaning = [
        *([" ".join(sides) + " UTC"] if sides else []),
        *([f'{cue.relation} "{cue.anchor}" was mentioned'] if cue.relation else []),
        *([f"{cue.order} first"] if cue.order else []),
    ]
    quoted = ", ".join(f'"{run}"' for run in cue.words)
    return [f"time {quoted}: {', '.join(meaning)}"]


def _remarks(hit: Hit) -> list[str]:
    return [
        *replacement(hit.memory),
        *([", ".join(_judged(hit))] if _judged(hit) else []),
        *([f"via {short_id(hit.via.id)} ({hit.via.link})"] if hit.via is not None else []),
        *([f"collapsed {', '.join(map(short_id, hit.absorbed))} into it"] if hit.absorbed else []),
        *([f"rerank {hit.rerank:.3f}"] if hit.rerank is not None else []),
    ]


def _judged(hit: Hit) -> list[str]:
    confidence = [] if hit.confidence is None else [f"confidence {hit.confidence:.2f}"]
    return [*said(hit), *confidence]


def _explained(rank: int, hit: Hit) -> list[str]:
    return [f"{rank}  {hit.memory.short_id}  score {hit.score:.6f}", *arithmetic(hit.score_detail)]


def arithmetic(detail: ScoreDetail) -> list[str]:
    """Return a score as lines: raw value, weight and contribution of each signal, then the total."""
    width = max((len(part.signal) for part in detail.parts), default=6)
    lines = [f"   {'signal':{width}}  {'raw':>9}  {'weight':>7}  contribution"] if detail.parts else []
    for part in detail.parts:
        sign = "+ " if part.combine == "sum" else "x "
        lines.append(f"   {part.signal:{width}}  {part.raw:9.6f}  {part.weight:7.3f}  {sign}{part.contribution:.6f}")
    return [*lines, f"   {formula(detail)} = {detail.recompute():.6f}"]


def above(found: Explanation) -> list[str]:
    """Return what put the first hit above a memory as lines, a difference per signal; empty for the first hit."""
    if not found.above or found.by is None:
        return []
    width = max(len(part.signal) for part in found.above)
    lines = [f"   {part.signal:{width}}  {part.raw:+9.6f}  {part.contribution:+.6f}" for part in found.above]
    total = sum(part.contribution for part in found.above)
    return ["", f"   {short_id(found.by)} is above it by {total:.6f}, the sum of", *lines]


def confidence(found: Explanation) -> list[str]:
    """Return the confidence of a returned memory as lines: its terms, then the total; empty without a confidence."""
    if found.confidence is None:
        return []
    parts = found.confidence_parts
    width = max(len(part.signal) for part in parts)
    lines = [
        f"   {part.signal:{width}}  {part.raw:9.6f}  {part.weight:7.3f}  + {part.contribution:.6f}" for part in parts
    ]
    total = sum(part.contribution for part in parts)
    return ["", f"   confidence {found.confidence:.6f} = 1 / (1 + exp(-({total:.6f}))), the sum of", *lines]


def formula(detail: ScoreDetail) -> str:
    """Return the arithmetic of a score: `(0.456602 + 0.500000) x 0.800000`, or the linked score times its hops."""
    via = detail.via
    if via is not None:
        return f"{via.score:.6f} x {via.factor:g}^{via.hops} (from {short_id(via.id)})"
    added = [f"{part.contribution:.6f}" for part in detail.parts if part.combine == "sum"]
    factors = [f"{part.contribution:.6f}" for part in detail.parts if part.combine == "product"]
    return product(added, factors) or "1"


def product(added: Sequence[str], factors: Sequence[str]) -> str:
    """Return a sum times factors: `(a + b) x c`."""
    total = " + ".join(added)
    return " x ".join([*([f"({total})" if factors else total] if added else []), *factors])


# --- Score bars -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """A segment of a score bar: `length` in units of the score; `kept` is False for a loss to a factor."""

    signal: str
    length: float
    kept: bool


def shares(detail: ScoreDetail) -> tuple[Share, ...]:
    """Return the segments of a score; the kept ones add up to it.

    A summed signal keeps its contribution times all factors. A product without summed signals starts at 1; a factor
    above 1 raises the start. The loss to the factors below 1 is divided among them by their logarithms; a factor of 0
    takes all.
    """
    if detail.via is not None:
        return (Share(VIA, detail.via.activation, True),)
    added = [part for part in detail.parts if part.combine == "sum"]
    factors = [part for part in detail.parts if part.combine == "product"]
    whole = math.prod(part.contribution for part in factors)
    kept = [Share(part.signal, part.contribution * whole, True) for part in added] or [Share(SCORE, whole, True)]
    base = sum(part.contribution for part in added) if added else 1.0
    lost = max(base * math.prod(max(part.contribution, 1.0) for part in factors) - base * whole, 0.0)
    zeros = [part for part in factors if part.contribution == 0]
    takers = zeros or [part for part in factors if part.contribution < 1]
    sizes = [1.0 if zeros else -math.log(part.contribution) for part in takers]
    losses = (Share(part.signal, lost * size / sum(sizes), False) for part, size in zip(takers, sizes, strict=True))
    return (*kept, *losses)


def cells(parts: Sequence[Share], longest: float, width: int) -> list[int]:
    """Return the width of each segment where `longest` takes `width` cells; each edge is rounded once."""
    ends = accumulate((part.length for part in parts), initial=0.0)
    edges = [round(end / longest * width) if longest > 0 else 0 for end in ends]
    return [right - left for left, right in pairwise(edges)]


@dataclass(frozen=True, slots=True)
class Mark:
    """How the segments of a signal are drawn: a style, and a character each for a kept part and a loss."""

    style: str
    kept: str
    lost: str


def _marks(found: Recall) -> dict[str, Mark]:
    """Return a mark for each signal: a colour, or a letter of its own on a terminal without colours."""
    signals = dict.fromkeys(part.signal for hit in found for part in hit.score_detail.parts)
    console, marks, taken = Console(), dict[str, Mark](), set[str]()
    if not console.no_color and console.color_system:
        colours = {signal: COLOURS[place % len(COLOURS)] for place, signal in enumerate(signals)}
        return {name: Mark(colour, "█", "░") for name, colour in {**colours, SCORE: "green", VIA: "blue"}.items()}
    for signal in signals:
        letters = (letter for letter in (*signal.lower(), *ascii_lowercase) if letter.isalpha())
        letter = next((letter for letter in letters if letter not in taken), "?")
        taken.add(letter)
        marks[signal] = Mark("", letter.upper(), letter)
    return marks | {SCORE: Mark("", "#", ""), VIA: Mark("", "=", "")}


def _legend(segments: Iterable[Sequence[Share]], marks: Mapping[str, Mark]) -> Columns:
    """Return the legend of the bars: kept parts first, then losses."""
    seen = dict.fromkeys((part.signal, part.kept) for parts in segments for part in parts if part.length)
    items = []
    for signal, kept in sorted(seen, key=lambda pair: not pair[1]):
        mark = marks[signal].kept if kept else marks[signal].lost
        name = f" {sanitize(signal)}{'' if kept else ' takes'}"
        items.append(Text.assemble((mark, marks[signal].style), (name, "dim")))
    return Columns(items, padding=(0, 3))


# --- Memories ---------------------------------------------------------------------------------------------------------


def receipt(made: Receipt) -> Answer:
    """Return the result of a write: status, id and contradictions."""
    memory, warning = made.memory, as_commands(made.warning or "")
    labels = [
        sanitize(f"{found.memory.short_id}\t{found.label}\t{'; '.join(found.because)}")
        for found in made.contradictions
        if found.label is not None
    ]
    about = [memory.kind, f"importance {memory.importance:g}", memory.tier, scope_text(memory.scope)]
    about += [", ".join(memory.entities)] if memory.entities else []
    status = "created" if made.status == "superseded" else made.status  # the warning names what it replaces
    head = Text.assemble((status, "bold green"), "  ", memory.id, "  ", (sanitize(" · ".join(about)), "dim"))
    parts: list[RenderableType] = [head]
    if warning:
        parts.append(Text("\n" + sanitize(warning), style="yellow"))
        parts += [Text("\n".join(("Labels:", *labels)), style="dim")] if labels else []
    lines = [f"{made.status}\t{memory.id}", *map(sanitize, warning.splitlines()), *labels]
    return Answer(made, lines, Group(*parts))


def memory(found: Memory) -> Answer:
    """Return one memory with all its fields."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return ", ".join(f"{key}: {item}" for key, item in value.items())
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

    said = [
        f"{one.kind} {short_id(one.id)} ({one.probability:g}, {one.by}: {one.reason})" for one in found.relations or ()
    ]
    shown = to_json(found) | {"relations": said, "replaced_by": found.replaced_by}
    rows = [(name, text(value)) for name, value in shown.items() if value not in (None, [], {})]
    return Answer(found, (tsv(*row) for row in rows), grid(rows))


def page(found: Page, now: datetime) -> Answer:
    """Return a page of a listing, with the option for the next one."""
    where = hints(found)
    notes = [f"skipped, since it cannot be read (run salience doctor): {one}" for one in found.damaged]
    notes += [f"more: repeat with --cursor {found.cursor}"] if found.cursor else []
    columns = [Column("id", no_wrap=True, style="dim")]
    columns += [Column("age", no_wrap=True), Column("kind", max_width=14, overflow="fold")]
    columns += [Column(name, no_wrap=True) for name in ("imp.", "tier")]
    columns += [Column("scope", ratio=1, min_width=14, overflow="fold", style="dim")]
    columns += [Column("memory", ratio=4, overflow="fold")]
    shown, lines = table(*columns, expand=True), ["# id\tage\tkind\timportance\ttier\tscope\treplaced\tcontent"]
    stacked: list[tuple[Sequence[str | Text], Sequence[str | Text]]] = []
    for item in found.memories:
        cells = age(item.created_at, now), item.kind, f"{item.importance:g}", item.tier, scope_text(item.scope)
        replaced = [Text(mark, style="dim italic") for mark in replacement(item)]
        lines.append(tsv(item.id, *cells, *(replacement(item) or ("-",)), item.content))
        content = Text("\n").join([Text(excerpt(item.content)), *replaced])
        shown.add_row(item.short_id, *(Text(sanitize(cell)) for cell in cells), content)
        about = Text(sanitize(" · ".join(cells)), style="dim")
        stacked.append(((item.short_id, about), (excerpt(item.content), *replaced)))
    lines += [f"# {line}" for line in (*notes, *where)]
    if not found.memories:
        return Answer(found, lines, Text("\n".join(["No memories here.", *(where or [SCOPE_HINT])])))
    view = entries(stacked) if is_narrow() else shown
    return Answer(found, lines, Group(view, *(Text(line, style="dim") for line in (*notes, *where))))


def review(found: ReviewPage) -> Answer:
    """Return a page of problems, one per line: kind, score, ids, reasons and contents."""
    lines = ["# kind\tscore\tid\tother\treasons\tcontent\tother content"]
    shown = table(*(Column(name, no_wrap=True) for name in ("problem", "score")),
                  *(Column(name, ratio=1, overflow="fold") for name in ("memory", "older memory", "reasons")),
                  expand=True)  # fmt: skip
    stacked = []
    for item in found.items:
        score, why = "-" if item.score is None else f"{item.score:.2f}", "; ".join(item.reasons) or "-"
        other = ("-", "-") if item.other is None else (item.other.id, item.other.content)
        lines.append(tsv(item.kind, score, item.memory.id, other[0], why, item.memory.content, other[1]))
        both = [f"{short_id(one.id)} {excerpt(one.content)}" if one else "" for one in (item.memory, item.other)]
        shown.add_row(*(Text(sanitize(cell)) for cell in (item.kind, score, *both, why)))
        stacked.append(((Text(item.kind, style="bold"), score, why), [one for one in both if one]))
    notes = [f"skipped, since it cannot be read (run salience doctor): {one}" for one in found.damaged]
    notes += [f"{counted(found.examined, 'memory', 'memories')} examined"]
    notes += [f"more: repeat with --cursor {found.cursor}"] if found.cursor else []
    view = (entries(stacked) if is_narrow() else shown) if found.items else Text("Nothing to look at.")
    lines += [f"# {line}" for line in notes]
    return Answer(found, lines, Group(view, *(Text(line, style="dim") for line in notes)))


def changes(found: ChangesPage) -> Answer:
    """Return a page of changes, one per line."""
    lines, stacked = ["# when\tid\tversion\twho\tchange\twhy\twhat\tcontent"], []
    for version in found.changes:
        memory, what = version.memory, ", ".join(version.changed) or "-"
        who, why = memory.changed_by or "-", memory.reason or "-"
        when = memory.changed_at.isoformat()
        lines.append(tsv(when, memory.id, memory.version, who, memory.change, why, what, memory.content))
        stacked.append((_changed(version, memory.short_id), (truncate(memory.content, LONGEST),)))
    notes = [f"more: repeat with --cursor {found.cursor}"] if found.cursor else []
    view = Group(entries(stacked), *(Text(line, style="dim") for line in notes))
    return Answer(found, [*lines, *(f"# {line}" for line in notes)], view if stacked else None)


def _changed(version: Version, name: str) -> tuple[str | Text, ...]:
    """Return the first line of a version: its name, then when, who, the change, and why."""
    memory = version.memory
    when, change = Text(f"{memory.changed_at:%Y-%m-%d %H:%M:%S}", style="dim"), Text(memory.change, style="bold")
    return (name, when, change, memory.changed_by or "-", *([memory.reason] if memory.reason else []))


def erased(count: Erased) -> str:
    """Return how many memories and entries of the recall log are erased."""
    entries = f" and {counted(count.recalls, 'entry', 'entries')} of the recall log" if count.recalls else ""
    return counted(count, "memory", "memories") + entries


def recall_log(found: RecallLogPage, now: datetime) -> Answer:
    """Return a page of the recall log, with the option for the next one."""
    notes = [f"more: repeat with --cursor {found.cursor}"] if found.cursor else []
    stacked = []
    lines = ["# id\tage\tprofile\thits\tanswers\tms\tscope\tquestion\tmemories"]
    for entry in found.recalls:
        sure, took = "yes" if entry.confident else "no", f"{sum(entry.timings.values()):.1f}"
        cells = age(entry.at, now), entry.profile, str(entry.count), sure, took, scope_text(entry.scope)
        lines.append(tsv(entry.id, *cells, entry.question, " ".join(f"{hit.id}={hit.score:.4f}" for hit in entry.hits)))
        sure = "answers" if entry.confident else "no clear answer"
        about = f"{cells[0]} · {entry.profile} · {counted(entry.count, 'hit')} · {sure}"
        stacked.append(
            ((entry.id, Text(sanitize(f"{about} · {took} ms · {cells[-1]}"), style="dim")), (entry.question,))
        )
    lines += [f"# {line}" for line in notes]
    if not found.recalls:
        return Answer(
            found, lines, Text(f"No recalls here. The log is off unless SALIENCE_RECALL_LOG is set. {SCOPE_HINT}")
        )
    return Answer(found, lines, Group(entries(stacked), *(Text(line, style="dim") for line in notes)))


def stats(found: Stats) -> Answer:
    """Return the counts of a scope."""
    where, names = hints(found), ("kind", "tier", "project", "user", "agent")
    groups = {name: {key or "(none)": count for key, count in getattr(found, f"by_{name}").items()} for name in names}
    lines = [tsv(name, getattr(found, name)) for name in ("memories", "pending", "sessions", "embedder", "dimension")]
    lines += [tsv(f"by_{name}", key, count) for name, counts in groups.items() for key, count in counts.items()]
    lines += [f"# {line}" for line in where]
    head = [
        counted(found.memories, "memory", "memories"),
        *([f"{found.pending:,} pending"] if found.pending else []),
        counted(found.sessions, "session"),
        f"{sanitize(found.embedder)}, {found.dimension} dimensions",
    ]
    rows = [
        (name, "   ".join(f"{key} {n:,}" for key, n in counts.items())) for name, counts in groups.items() if counts
    ]
    shown = [] if found.memories else map(Text, where or [SCOPE_HINT])
    return Answer(found, lines, Group(Text(" · ".join(head), style="bold"), *shown, grid(rows)))


def history(found: Sequence[Version]) -> Answer:
    """Return the versions of a memory, the oldest first."""
    lines = ["# version\twhen\twho\tchange\twhy\twhat\tcontent"]
    shown = table(
        Column("#", justify="right", no_wrap=True),
        Column("when (UTC)", no_wrap=True, style="dim"),
        Column("who", overflow="fold"),
        Column("change", no_wrap=True),
        Column("why", ratio=1, overflow="fold"),
        Column("what", ratio=2, overflow="fold"),
        expand=True,
    )
    stacked = []
    for version in found:
        memory, names = version.memory, [name for name in version.changed if name not in _IMPLIED]
        when, who, why = memory.changed_at, memory.changed_by or "-", memory.reason or "-"
        what = ", ".join(version.changed) or "-"
        lines.append(tsv(memory.version, when.isoformat(), who, memory.change, why, what, memory.content))
        text = Text(", ".join(names))
        if "content" in names or not version.changed:
            text.append(("\n" if names else "") + truncate(memory.content, LONGEST), style="italic")
        row = (str(memory.version), f"{when:%Y-%m-%d %H:%M:%S}", who, memory.change, why)
        shown.add_row(*(Text(sanitize(cell)) for cell in row), text)
        stacked.append((_changed(version, str(memory.version)), (text,)))
    last, view = found[-1].memory, entries(stacked) if is_narrow() else shown
    return Answer(found, lines, Group(Text.assemble((last.status, "bold"), "  ", (last.id, "dim")), view))
