"""Flame graphs of a recall and of a remember: `python -m bench.flames docs/performance`.

Each verb is called over and over, in a process of its own, on a file of made-up memories with vectors that follow from
the text, and py-spy looks at it. No model runs: what is drawn is the engine, without the start of the process.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count, cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import salience
from bench.flamegraph import grown, stacks, svg, under
from bench.made_up import sums, word
from salience.errors import MissingExtraError
from salience.testing.doubles import PlantedEmbedder

RATE: Final = 200
"""Looks a second."""
USERS: Final = 20
QUESTIONS: Final = 50
BATCH: Final = 500
"""Memories stored at a time."""
CALL: Final = "<lambda> (bench/flames.py"
"""What calls a verb, as py-spy names it."""
_VOCABULARY: Final = 20_000
_WEIGHTS: Final = sums(_VOCABULARY, 10)


def texts(seed: int) -> Iterator[str]:
    """Yield texts of 8 to 20 words, drawn as a language draws them; the same ones for the same seed."""
    chance = random.Random(seed)
    while True:
        drawn = chance.choices(range(_VOCABULARY), cum_weights=_WEIGHTS, k=chance.randint(8, 20))
        yield " ".join(map(word, drawn)).capitalize() + "."


def opened(file: Path) -> Any:
    """Return the engine on a file, with vectors that follow from the text."""
    return salience.connect(file, embedder=PlantedEmbedder(dimension=384))


def fill(file: Path, memories: int) -> None:
    """Store made-up memories of some users."""
    source = texts(seed=1)
    with opened(file) as memory:
        for start in range(0, memories, BATCH):
            drafts = [salience.Draft(content=next(source), duplicate=True) for _ in range(min(BATCH, memories - start))]
            memory.remember_many(drafts, user_id=f"user-{start // BATCH % USERS}")


def _recalls(memory: Any) -> Callable[[], object]:
    questions = cycle(islice(texts(seed=2), QUESTIONS))
    return lambda: memory.recall(next(questions), user_id=salience.ANY, min_score=0.0)  # so that there are hits


def _remembers(memory: Any) -> Callable[[], object]:
    source, numbers = texts(seed=3), count()
    return lambda: memory.remember(next(source), user_id=f"user-{next(numbers) % USERS}")


VERBS: Final[Mapping[str, Callable[[Any], Callable[[], object]]]] = {"recall": _recalls, "remember": _remembers}
"""Verb -> from an engine to what calls the verb once."""


def work(verb: str, file: str, seconds: float) -> None:
    """Call a verb over and over, for so long."""
    with opened(Path(file)) as memory:
        call, end = VERBS[verb](memory), time.perf_counter() + seconds
        while time.perf_counter() < end:
            call()


def draw(verb: str, file: Path, seconds: float) -> str:
    """Return the flame graph of a verb.

    Raises:
        MissingExtraError: py-spy is not there.
        subprocess.CalledProcessError: py-spy may not look at other processes here, or the work failed.
    """
    code = f"from bench.flames import work; work({verb!r}, {str(file)!r}, {seconds})"
    raw = file.with_name(f"{verb}.txt")
    spy = (str(_py_spy()), "record", "--function", "--format", "raw", "--rate", str(RATE), "--output", str(raw))
    subprocess.run([*spy, "--", sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return svg(grown(verb, under(stacks(raw.read_text("utf-8")), CALL)))


def _py_spy() -> Path:
    """Return the program that looks at processes; it comes with a wheel, beside Python.

    Raises:
        MissingExtraError: it is not there.
    """
    program = Path(sys.executable).with_name("py-spy")
    if not program.exists():
        raise MissingExtraError("flame graphs", "dev")
    return program


def main() -> None:
    """Draw every verb into a folder."""
    parser = argparse.ArgumentParser(description="Flame graphs of the verbs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each verb")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="salience-flames-") as folder:
        file = Path(folder) / "flames.db"
        fill(file, given.memories)
        for verb in VERBS:
            (given.folder / f"{verb}.svg").write_text(draw(verb, file, given.seconds), "utf-8")


if __name__ == "__main__":
    main()
