"""The command that says what an embedder's cosines mean: calibrate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from salience import compose, settings
from salience.cli.calls import Call, command
from salience.cli.screen import Answer, waiting
from salience.cli.signs import one_line
from salience.cli.surface import app
from salience.evaluate import judged
from salience.evaluate.rates import Errors, errors
from salience.maintain import calibrate as calibrations
from salience.models import calibration
from salience.ports import Calibration

NAMING: Final = "set SALIENCE_CALIBRATIONS to this file"


@dataclass(frozen=True, slots=True)
class Counted:
    """The errors of a threshold on the pairs of one file, and whether it was fitted on them."""

    file: str
    pairs: int
    fitted: bool
    errors: Errors


@command(app, scope=())
def calibrate(
    call: Call,
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="Judged pairs: a table with tabs, JSONL, or SICK.")],
    held_out: Annotated[
        Path | None, typer.Option("--held-out", metavar="FILE", help="Further pairs, only to count the errors on.")
    ] = None,
    embedder: Annotated[
        str | None, typer.Option("--embedder", metavar="NAME", help="Whose cosines. Default: as before the command.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to keep it. Default: SALIENCE_CALIBRATIONS.")
    ] = None,
) -> Answer:
    """Fit what an embedder's cosines mean on judged pairs.

    A pair is two texts and how related people find them: columns (or JSON keys) first, second and relatedness, 0 to 1.
    The result is a line from cosine to relatedness, and the cosine from which two texts count as saying the same. It
    is kept, and used by every later command with that embedder.
    """
    read = {path: judged.read(path) for path in (pairs, held_out) if path is not None}
    with compose.local(":memory:", embedder=embedder or call.options.embedder) as engine, waiting("Embedding"):
        name = engine.services.embedder.name
        cosines = {path: calibrations.cosines(engine.services, held) for path, held in read.items()}
    source = f"{len(read[pairs]):,} judged pairs of {pairs.name}"
    fitted = calibrations.fitted(read[pairs], cosines[pairs], source)
    kept = settings.load().calibrations
    calibration.save(out or kept, name, fitted)
    counted = [
        Counted(str(path), len(held), path == pairs, errors(held, cosines[path], fitted.paraphrase))
        for path, held in read.items()
    ]
    return _answer(name, fitted, counted, out or kept, used=out in (None, kept))


def _answer(embedder: str, fitted: Calibration, counted: list[Counted], file: Path, used: bool) -> Answer:
    record = {
        "embedder": embedder,
        "calibration": fitted,
        "errors": [
            {
                "file": one.file,
                "pairs": one.pairs,
                "fitted": one.fitted,
                "missed": one.errors.missed.as_dict(),
                "mistaken": one.errors.mistaken.as_dict(),
            }
            for one in counted
        ],
        "kept_in": str(file),
    }

    def lines() -> Iterator[str]:
        yield one_line(f"{embedder}, fitted on {fitted.source}")
        for name in ("cosine", "relatedness"):
            yield f"{name:11} " + " ".join(f"{knot:5.3f}" for knot in getattr(fitted, name))
        yield f"Two texts count as saying the same from a cosine of {fitted.paraphrase:.3f} on. Its errors (95 %):"
        for one in counted:
            yield one_line(f"{one.file} ({'fitted on these' if one.fitted else 'held out'})")
            yield f"  paraphrases missed               {one.errors.missed}"
            yield f"  different things taken for one   {one.errors.mistaken}"
        then = "every connect with this embedder reads it there" if used else f"to have it used, {NAMING}"
        yield one_line(f"Kept in {file}; {then}.")

    return Answer(record, lines)
