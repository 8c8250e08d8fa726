"""Receipts, memories, pages, counts: their forms for a terminal and for a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from salience.cli import words
from salience.cli.recalls import LONGEST
from salience.cli.screen import Answer
from salience.cli.signs import one_line, visible
from salience.records import Memory, Page, Receipt, SessionReport, Stats
from salience.text import counted
from salience.wire.responses import to_json

_COUNTS: Final = ("by_kind", "by_tier", "by_project", "by_user", "by_agent")
_NAMELESS: Final = "(none)"


def receipt(made: Receipt) -> Answer:
    """Return what a write did: status and id, then the contradictions as the warning tells them."""

    def lines() -> Iterator[str]:
        yield f"{made.status}\t{made.memory.id}"
        yield from (visible(line) for line in (made.warning or "").splitlines())
        yield from _labels(made)

    return Answer(made, lines, lambda _: Group(*_receipt(made)))


def _receipt(made: Receipt) -> Iterator[RenderableType]:
    memory = made.memory
    line = Text.assemble((made.status, "bold green"), "  ", memory.id, ("  ", ""), (_about(memory), "dim"))
    yield line
    if made.warning:
        yield Text("\n" + visible(made.warning), style="yellow")
        yield Text("\n".join(("Labels:", *_labels(made))) if made.contradictions else "", style="dim")


def _labels(made: Receipt) -> Iterator[str]:
    """Yield, for each conflict that has a label, the memory, the label, and what gave it away."""
    for found in made.contradictions:
        if found.label is not None:
            yield visible(f"{found.memory.short_id}\t{found.label}\t{'; '.join(found.because)}")


def _about(memory: Memory) -> str:
    said = [memory.kind, f"importance {memory.importance:g}", memory.tier, words.scope(memory.scope)]
    return visible(" · ".join(said + ([", ".join(memory.entities)] if memory.entities else [])))


def memory(found: Memory) -> Answer:
    """Return one memory, whole."""
    rows = {name: _shown(value) for name, value in to_json(found).items() if value not in (None, [], {})}
    return Answer(found, lambda: _aligned(rows, one_line), lambda _: _pairs(rows))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _aligned(rows: Mapping[str, str], clean: Any) -> Iterator[str]:
    return (f"{name}\t{clean(value)}" for name, value in rows.items())


def _pairs(rows: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(visible(value)))
    return table


def page(found: Page, now: datetime) -> Answer:
    """Return one page of a listing, and how to go on."""

    def lines() -> Iterator[str]:
        yield "# id\tage\tkind\timportance\ttier\tscope\tcontent"
        for item in found.memories:
            yield "\t".join(map(one_line, (item.id, *_columns(item, now), item.content)))
        yield from (f"# {line}" for line in _onward(found))

    return Answer(found, lines, lambda _: _listing(found, now))


def _columns(item: Memory, now: datetime) -> tuple[str, ...]:
    created = words.age(item.created_at, now)
    return created, item.kind, f"{item.importance:g}", item.tier, words.scope(item.scope)


def _onward(found: Page) -> list[str]:
    passed = [f"passed over, since it cannot be read (run salience doctor): {one}" for one in found.damaged]
    more = [f"more: repeat with --cursor {found.cursor}"] if found.cursor else []
    return [*passed, *more, *words.elsewhere(found.out_of_scope)]


def _listing(found: Page, now: datetime) -> RenderableType:
    if not found.memories:
        return Text("\n".join(["No memories here.", *(words.elsewhere(found.out_of_scope) or [words.ELSEWHERE])]))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, expand=True)
    for name in ("id", "age", "kind", "imp.", "tier"):
        table.add_column(name, no_wrap=True, style="dim" if name == "id" else "")
    table.add_column("scope", ratio=1, overflow="fold", style="dim")
    table.add_column("memory", ratio=4, overflow="fold")
    for item in found.memories:
        content = visible(item.content)
        short = content if len(content) <= LONGEST else content[: LONGEST - 1] + "…"
        table.add_row(item.short_id, *(Text(visible(cell)) for cell in _columns(item, now)), Text(short))
    return Group(table, *(Text(line, style="dim") for line in _onward(found)))


def stats(found: Stats) -> Answer:
    """Return counts."""

    def lines() -> Iterator[str]:
        for name in ("memories", "pending", "sessions", "embedder", "dimension"):
            yield f"{name}\t{one_line(str(getattr(found, name)))}"
        for name in _COUNTS:
            for key, count in getattr(found, name).items():
                yield f"{name}\t{one_line(key or _NAMELESS)}\t{count}"
        yield from (f"# {line}" for line in words.elsewhere(found.out_of_scope))

    return Answer(found, lines, lambda _: _counts(found))


def _counts(found: Stats) -> RenderableType:
    head = " · ".join(
        (
            counted(found.memories, "memory", "memories"),
            *([f"{found.pending:,} pending"] if found.pending else []),
            counted(found.sessions, "session"),
            f"{visible(found.embedder)}, {found.dimension} dimensions",
        )
    )
    rows = {
        name.removeprefix("by_"): "   ".join(
            f"{key or _NAMELESS} {count:,}" for key, count in getattr(found, name).items()
        )
        for name in _COUNTS
    }
    hint = [] if found.memories else map(Text, words.elsewhere(found.out_of_scope) or [words.ELSEWHERE])
    return Group(Text(head, style="bold"), *hint, _pairs({name: row for name, row in rows.items() if row}))


def session(report: SessionReport) -> Answer:
    """Return which memories the end of a session promoted."""
    head = f"session {one_line(report.session_id)}: {len(report.promoted)} moved to the next tier"
    return Answer(report, lambda: (head, *report.promoted))
