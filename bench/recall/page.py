"""The page: all sizes as Markdown, with what was measured where, and what the words mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bench.made_up import DIMENSION
from bench.recall.corpus import PROJECTS, SESSION, USERS
from bench.recall.tables import Table, tables

HEAD: Final = f"""# What a recall and a write cost

Made by `make bench`, which runs `salience bench` in an environment of its own; do not edit it by hand. A plain install
does the same without the other stores: `salience bench --sizes 10000 --peers none`.

**What is stored.** Memories that are made up from a seed: vectors of {DIMENSION} numbers in clusters, texts of 12 to 27
words by the law of Zipf, {USERS} users, {PROJECTS} projects. Half of them are turns of sessions of {SESSION}, the
others single facts. A question has words of a memory and a vector near its own, so that there is a right answer. All
vectors are given, so **no figure has an embedding in it**.

**How it is measured.** All stores hold the same data in the same process, and are asked the same question one after the
other before any is asked the next, so that what disturbs the machine disturbs all of them. The engine is asked turn
about with bare scans, and again with the other stores, which leave the processor's caches to nobody. One that is slow
is asked fewer times; *times* says how many. Take the figures as ratios: *beside ours* is how many times as long as
Salience it took (p50 to p50), *beside one fsync* how many times as long as appending 4,096 bytes and waiting for the
disk.

- *hybrid*: by vectors and words, the ten best whatever they score. *dense*: by vectors alone. *cut off*: hybrid as
  `recall` does it by default, which returns only what fits the query.
- *recall@10*, dense: the share of the ten memories of largest cosine, by all cosines, as far as it is above 0. For our
  hybrid, the share of what the engine ranks first when it scores every memory: up to 10,000 memories in its executable
  specification, with more of them in the same store kept from leaving any out, for a few questions.
- *found*: how often the memory that the question was made from is in the answer. *exact*: how often the engine says
  that no memory it left out can be better.
- *floor*: a bare scan of the same vectors without filters, ids, texts or durability.
- A recall of ours is noted on what it returned, unless the profile is *dense*: that is a write, and part of the figure.
- *bytes a memory* in a fresh process: how much its resident memory grew from before the store was opened until ten
  questions were answered in each way, by the number of memories.
"""


def page(known: Sequence[Mapping[str, Any]], drawing: str | None) -> str:
    """Return the page.

    Args:
        known: what is known of each size.
        drawing: path of the drawing, from where the page is; None for none.
    """
    parts = [HEAD.rstrip()]
    if drawing:
        parts.append(f"![Median milliseconds of a recall by the number of memories, for each store]({drawing})")
    for kept in sorted(known, key=lambda one: one["size"]):
        parts += _size(kept)
    return "\n\n".join(parts) + "\n"


def markdown(table: Table) -> str:
    """Return a table as Markdown."""
    lines = ["---"] * table.names + ["---:"] * (len(table.head) - table.names)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (table.head, lines, *table.rows))


def _size(kept: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {kept['size']:,} memories"
    yield surroundings(kept)
    for table in tables(kept):
        yield f"### {table.title}"
        yield markdown(table)
    told = [f"- **{name}** {kept['versions'][name]}: {words}" for name, words in kept["told"].items()]
    yield "\n".join([*told, *(f"- **{name}**: not measured: {why}" for name, why in kept["skipped"].items())])


def surroundings(kept: Mapping[str, Any]) -> str:
    """Return where and when a size was measured, in words."""
    machine, parts = kept["machine"], kept["parts"]
    loads = [load for part in parts.values() for load in part["loads"]]
    settings = "".join(f", {name}={value}" for name, value in machine["settings"].items())
    when = sorted(part["at"] for part in parts.values())
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory'] / 2**30:.0f} GiB, {machine['system']}; "
        f"Python {machine['python']}, NumPy {machine['numpy']}, kernels: {machine['kernels']}{settings}. "
        f"Seed {kept['seed']}; {when[0]} to {when[-1]}; load average {min(loads):.1f} to {max(loads):.1f}."
    )
