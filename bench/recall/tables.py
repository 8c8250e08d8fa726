"""What was found out about one size, as tables of text: for a terminal, for a pipe and for the page alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.recall.contender import MODES, OURS
from bench.recall.corpus import VIEWS
from bench.recall.writing import FSYNC

QUANTILES: Final = ("p50", "p95", "p99")
STEPS: Final = ("need", "embed", "gather", "rank", "fetch", "touch")
SEEN: Final = {"all": "all", "user": "one user, 5 %", "tag": "one tag, 0.1 %"}
"""Views in words."""
Found = Mapping[str, Any]
"""A row, as JSON has it."""


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, what the columns are, and the cells; the first `names` columns are names, the others numbers."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 1


def tables(kept: Mapping[str, Any]) -> list[Table]:
    """Return the tables of a size, without those of parts that were not measured."""
    made = (table for make in MAKERS for table in make(kept))
    return [table for table in made if table.rows]


def rows_of(kept: Mapping[str, Any], part: str, verb: str | None = None) -> list[Found]:
    """Return the rows of a part, or those of a verb in it."""
    rows: list[Found] = kept["parts"].get(part, {}).get("rows", [])
    return [row for row in rows if verb in (None, row["verb"])]


def ratio(row: Found, rows: Sequence[Found], key: str = "p50", name: str = OURS) -> float | None:
    """Return how many times as long a row took as another contender's in the same view; None where there is none."""
    other = next((one for one in rows if one["name"] == name and one["view"] == row["view"]), None)
    if other is None:
        return None
    own, its = row["values"][key], other["values"][key]
    return float(its / own if key == "a second" else own / its)


def number(value: float | None, digits: int = 2) -> str:
    """Return a number with that many digits after the point, fewer where it is large; nothing for None."""
    if value is None:
        return ""
    return f"{value:,.{0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else digits}f}"


def times(value: float | None) -> str:
    """Return a ratio."""
    return "" if value is None else f"{number(value)} x"


def _recalls(kept: Mapping[str, Any]) -> Iterator[Table]:
    for part, beside in (("recall", "the floor"), ("peers", "other stores")):
        for mode in MODES:
            rows = rows_of(kept, part, f"recall {mode}")
            cells = [_recalled(row, rows) for view in VIEWS for row in rows if row["view"] == view]
            head = ("in view", "store", "times", *QUANTILES, "recall@10", "found", "hits", "beside ours")
            yield Table(f"Recall, {mode}, beside {beside}: milliseconds", head, tuple(cells), names=2)


def _recalled(row: Found, rows: Sequence[Found]) -> tuple[str, ...]:
    values = row["values"]
    return (
        SEEN[row["view"]],
        row["name"],
        f"{values['n']:,.0f}",
        *_quantiles(values),
        number(values.get("recall"), 3),
        number(values["found"], 3),
        number(values["hits"], 1),
        times(ratio(row, rows)),
    )


def _steps(kept: Mapping[str, Any]) -> Iterator[Table]:
    cells = [
        (
            row["verb"].removeprefix("recall "),
            SEEN[row["view"]],
            *(number(row["values"].get(f"ms {step}"), 3) for step in STEPS),
            number(row["values"]["exact"], 3),
        )
        for row in rows_of(kept, "recall")
        if "exact" in row["values"]
    ]
    head = ("searched", "in view", *STEPS, "exact")
    yield Table("Recall, ours by step: milliseconds, medians", head, tuple(cells), names=2)


def _loads(kept: Mapping[str, Any]) -> Iterator[Table]:
    rows = rows_of(kept, "load")
    cells = [
        (
            row["name"],
            number(row["values"]["seconds"], 1),
            number(row["values"]["a second"], 0),
            number(row["values"]["bytes a row"], 0),
            times(ratio(row, rows, "seconds")),
        )
        for row in rows
    ]
    head = ("store", "seconds", "memories a second", "bytes a memory on the disk", "beside ours")
    yield Table("Bulk load, vectors given", head, tuple(cells))


def _writes(kept: Mapping[str, Any]) -> Iterator[Table]:
    rows = rows_of(kept, "write")
    single = [row for row in rows if "p50" in row["values"]]
    disk = next((row["values"]["p50"] for row in single if row["name"] == FSYNC), None)
    cells = [
        (
            row["name"],
            row["view"],
            f"{row['values']['n']:,.0f}",
            *_quantiles(row["values"]),
            times(row["values"]["p50"] / disk if disk else None),
        )
        for row in single
    ]
    head = ("store", "how", "times", *QUANTILES, "beside one fsync")
    yield Table("One memory: milliseconds", head, tuple(cells), names=2)
    many = [(row["name"], row["view"], number(row["values"]["a second"], 0)) for row in rows if row not in single]
    yield Table("Many in a call", ("store", "how", "memories a second"), tuple(many), names=2)


def _crowds(kept: Mapping[str, Any]) -> Iterator[Table]:
    rows = rows_of(kept, "crowd")
    cells = []
    for row in rows:
        if row["view"] == "1 threads":
            eight = next(one for one in rows if one["view"] != row["view"] and _same(one, row))
            rates = [one["values"]["a second"] for one in (row, eight)]
            gain = times(rates[1] / rates[0])
            told = [number(rate, 0) for rate in rates]
            verb = row["verb"].removeprefix("crowd ")
            cells.append((verb, row["name"], *told, gain, *_quantiles(eight["values"])))
    head = ("verb", "store", "1 thread, a second", "8 threads", "beside one", *(f"{name} of 8" for name in QUANTILES))
    yield Table("Threads at the same time", head, tuple(cells), names=2)


def _same(one: Found, other: Found) -> bool:
    return bool(one["verb"] == other["verb"] and one["name"] == other["name"])


def _mixed(kept: Mapping[str, Any]) -> Iterator[Table]:
    cells = [
        (
            row["name"],
            row["view"],
            *_quantiles(row["values"]),
            *(number(row["values"][f"write {name}"]) for name in QUANTILES),
            number(row["values"]["a second"], 0),
        )
        for row in rows_of(kept, "mixed")
    ]
    head = ("store", "searched", *(f"recall {name}" for name in QUANTILES), *(f"write {name}" for name in QUANTILES))
    yield Table("Nine recalls, then a write: milliseconds", (*head, "a second"), tuple(cells), names=2)


def _fresh(kept: Mapping[str, Any]) -> Iterator[Table]:
    rows = rows_of(kept, "fresh")
    cells = [
        (
            row["name"],
            *(number(1e3 * row["values"][key], 0) for key in ("import", "open", "first")),
            number(row["values"]["bytes a row"], 0),
            times(ratio(row, rows, "first")),
        )
        for row in rows
    ]
    head = ("store", "import, ms", "open, ms", "to the first answer, ms", "bytes a memory", "beside ours")
    yield Table("A fresh process", head, tuple(cells))


def _quantiles(values: Mapping[str, float]) -> list[str]:
    return [number(values[name]) for name in QUANTILES]


MAKERS: Final[tuple[Callable[[Mapping[str, Any]], Iterator[Table]], ...]] = (
    _recalls,
    _steps,
    _crowds,
    _writes,
    _mixed,
    _loads,
    _fresh,
)
