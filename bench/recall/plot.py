"""Median times of a recall by the number of memories, as a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.recall.contender import KINDS
from bench.recall.tables import SEEN, rows_of
from salience.evaluate.report import COLOURS, MARKS

PANELS: Final = (
    ("dense", "all"),
    ("dense", "user"),
    ("dense", "tag"),
    ("hybrid", "all"),
    ("hybrid", "user"),
    ("hybrid", "tag"),
)
STYLE: Final[Any] = {"svg.fonttype": "none", "svg.hashsalt": "salience", "font.size": 9, "axes.titlesize": 10}
Line = tuple[list[int], list[float]]


def lines(known: Sequence[Mapping[str, Any]], mode: str, view: str) -> dict[str, Line]:
    """Return, for each store, sizes and median milliseconds, in the order of the choices.

    Those of the engine were measured beside the other stores, if there are any.
    """
    found: dict[str, Line] = {name: ([], []) for name in KINDS}
    for kept in sorted(known, key=lambda one: one["size"]):
        rows = [row for part in ("recall", "peers") for row in rows_of(kept, part, f"recall {mode}")]
        for name, median in {row["name"]: row["values"]["p50"] for row in rows if row["view"] == view}.items():
            sizes, medians = found[name]
            sizes.append(kept["size"])
            medians.append(median)
    return {name: line for name, line in found.items() if line[0]}


def draw(known: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the drawing, on white, so that it can be read on any page."""
    import matplotlib as mpl  # the extra `eval`; who draws nothing needs none of it
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 6.2), layout="constrained", facecolor="white")
        panels = figure.subplots(2, 3, sharex=True, sharey=True).flat
        for panel, (mode, view) in zip(panels, PANELS, strict=True):
            _panel(panel, lines(known, mode, view))
            panel.set_title(f"{mode}, {SEEN[view]}", loc="left")
        handles = {
            label: line for panel in figure.axes for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False)
        figure.supxlabel("memories")
        figure.supylabel("milliseconds, median")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})


def _panel(panel: Any, found: Mapping[str, Line]) -> None:
    for name, (sizes, medians) in found.items():
        place = list(KINDS).index(name)
        floor = name.startswith("floor")
        panel.plot(
            sizes,
            medians,
            label=name,
            color=COLOURS[place % len(COLOURS)],
            marker=MARKS[place % len(MARKS)],
            linestyle=":" if floor else "-",
            linewidth=2.4 if not place else 1.2,
        )
    panel.set(xscale="log", yscale="log")
    panel.grid(axis="y", linewidth=0.4)
