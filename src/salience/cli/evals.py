"""Commands that measure ranking on questions with known answers: eval, tune."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

import typer

from salience.cli import figures
from salience.cli.calls import Call, command
from salience.cli.screen import Answer, progress
from salience.cli.surface import app
from salience.errors import InputError, Words
from salience.evaluate import baselines, evaluation, report, summary, trials, writing
from salience.evaluate.asking import Terms
from salience.evaluate.evaluation import Plan, Source
from salience.evaluate.metrics import Metric
from salience.evaluate.summary import Wanted
from salience.evaluate.tune import Tuned, fits
from salience.evaluate.tune import tune as tuned_by
from salience.evaluate.vectors import cache_folder
from salience.loading import require
from salience.rank import profiles
from salience.records import checks

RANKINGS: Final = ",".join((*profiles.NAMES, *baselines.BASELINES))
Parsed = TypeVar("Parsed")

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...", help="LoCoMo, REALTALK, LongMemEval, BEAM or precisionMemBench: files, or folders."
    ),
]
Categories = Annotated[
    str | None,
    typer.Option("--categories", metavar="A,B", help="Categories to measure. Default: all that can be answered."),
]
Granularity = Annotated[
    Literal["turn", "session"],
    typer.Option("--granularity", help="What evidence is: memories, or the sessions they belong to."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of everything that is drawn.")]
Rankings = Annotated[
    str,
    typer.Option("--profiles", metavar="A,B", help="Profiles, paths of TOML files, and the baselines bm25, cosine."),
]
Embedders = Annotated[
    str | None,
    typer.Option("--embedders", metavar="A,B", help="Who makes vectors. Default: --embedder before the command."),
]
Depths = Annotated[str, typer.Option("--k", metavar="N,N", help="Depths of recall, all and hit.")]
Compared = Annotated[str, typer.Option("--metric", metavar="NAME@K", help="Whose differences to tell.")]
Compare = Annotated[
    list[str] | None,
    typer.Option("--compare", metavar="A:B", help="A pair to compare; may be repeated. Default: first with others."),
]
Resample = Annotated[Literal["questions", "conversations"], typer.Option("--resample", help="What the intervals draw.")]
LeastScore = Annotated[
    float | None, typer.Option("--min-score", metavar="NUMBER", help="Least score. Default: each profile's own.")
]
Foreign = Annotated[
    int, typer.Option("--foreign", metavar="N", help="Questions to ask in the store of another conversation.")
]
Naming = Annotated[
    Literal["strip", "swap", "keep"],
    typer.Option("--foreign-names", help="What becomes of speakers' names in them: out, the others' instead, kept."),
]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a report with plots; needs salience[eval].")
]
Cache = Annotated[
    bool, typer.Option("--cache/--no-cache", help="Keep vectors in the platform's cache directory for the next time.")
]


@command(app, "eval", scope=())
def evaluate(
    call: Call,
    paths: Paths,
    rankings: Rankings = RANKINGS,
    embedders: Embedders = None,
    depths: Depths = "1,5,10,20",
    metric: Compared = "recall@10",
    categories: Categories = None,
    granularity: Granularity = "turn",
    compare: Compare = None,
    resample: Resample = "questions",
    min_score: LeastScore = None,
    foreign: Foreign = 0,
    naming: Naming = "strip",
    html: Html = None,
    force: Force = False,
    seed: Seed = 0,
    cache: Cache = True,
) -> Answer:
    """Measure rankings on questions with known answers.

    Each conversation goes into a store of its own, one memory a turn. A question is read from it once and ranked under
    every profile. The figures are means over the questions that the data set names evidence for, with 95 % bootstrap
    intervals.
    """
    writable(html, force)
    ks = listed("k", depths, lambda written: checks.whole("k", int(written), 1, 200))
    chosen = Metric.named(metric)
    wanted = Wanted(tuple(ks), chosen, tuple(map(summary.comparison, compare or ())), resample)
    terms = Terms(
        baselines.contenders(listed("profiles", rankings, str)),
        evaluation.limit_for(wanted.deepest, granularity),
        None if min_score is None else checks.number("min_score", min_score, 0.0, 100.0),
    )
    read = evaluation.sources(paths)
    plan = Plan(
        terms,
        granularity,
        named(categories, read),
        checks.whole("foreign", foreign, 0, 1_000_000),
        naming,
        checks.whole("seed", seed, 0, 2**32 - 1),
        cache_folder() if cache else None,
    )
    if html is not None:
        require("matplotlib", "the HTML report", "eval")
    names = listed("embedders", embedders or call.options.embedder, str)
    with progress("asking", evaluation.count(read, plan) * len(names), unit="questions") as advance:
        outcomes = [evaluation.evaluate(read, plan, name, advance) for name in names]
    measured = summary.summed(read, plan, wanted, outcomes)
    if html is not None:
        html.write_text(report.page(measured, datetime.now(UTC).date()), "utf-8")
    return Answer(summary.as_record(measured), lambda: figures.lines(measured), lambda _: figures.view(measured))


@command(app, scope=())
def tune(
    call: Call,
    paths: Paths,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="What to start from: a name or a TOML file.")
    ] = None,
    count: Annotated[int, typer.Option("--trials", metavar="N", help="Settings to try in each fit.")] = 100,
    metric: Annotated[str, typer.Option("--metric", metavar="NAME@K", help="What to make large.")] = "recall@10",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the profile here. Default: standard output.")
    ] = None,
    force: Force = False,
    embedder: Annotated[
        str | None,
        typer.Option("--embedder", metavar="NAME", help="Who makes vectors. Default: --embedder before the command."),
    ] = None,
    categories: Categories = None,
    parameters: Annotated[
        bool, typer.Option("--parameters", help="Turn the signals' parameters as well as their weights.")
    ] = False,
    seed: Seed = 0,
    cache: Cache = True,
) -> Answer:
    """Fit a profile's weights to questions with known answers.

    Each conversation is held out once while weights are fitted on the others, and the figure on it is what to expect;
    that on the data which was fitted is too good to be true. The profile that is written is fitted on all of them.
    Needs salience[eval].
    """
    writable(out, force)
    for module in ("optuna", "tomlkit"):
        require(module, "salience tune", "eval")
    chosen, name = Metric.named(metric), embedder or call.options.embedder
    start = profile or call.options.profile or "salience"
    contender, tries = baselines.contender(start), checks.whole("trials", count, 1, 100_000)
    read = evaluation.sources(paths)
    distinct(read)
    wanted = named(categories, read)
    held = evaluation.conversations(read)
    total = sum(1 for conversation in held for _ in trials.wanted(conversation, wanted))
    with progress("asking", total, unit="questions") as advance:
        ready = evaluation.made(name)
        cases = trials.cases(held, contender, chosen.k, ready, wanted, cache_folder() if cache else None, advance)
    with progress("fitting", fits(cases) * tries, unit="trials") as advance:
        found = tuned_by(contender, cases, chosen, tries, checks.whole("seed", seed, 0, 2**32 - 1), parameters, advance)
    files = [source.path.name for source in read]
    written = writing.toml(found, writing.source(start), files, name, datetime.now(UTC).date())
    if out is not None:
        out.write_text(written, "utf-8")
    return tuning(found, files, name, written, out)


def tuning(found: Tuned, files: list[str], embedder: str, written: str, out: Path | None) -> Answer:
    """Return what tuning came to; the lines hold the profile itself where no file does."""
    record = {
        "files": files,
        "embedder": embedder,
        "out": out and str(out),
        **figures.tuned_record(found),
        "toml": written,
    }
    last = written.splitlines() if out is None else [f"# written to {out}"]
    return Answer(
        record,
        lambda: [*figures.tuned_lines(found), *last],
        lambda _: figures.tuned_view(found, None if out else written),
    )


def named(categories: str | None, read: Sequence[Source]) -> frozenset[str] | None:
    """Return the categories that were named; None for none.

    Raises:
        InputError: one that no question has.
    """
    if categories is None:
        return None
    known = summary.known_categories(read)
    return frozenset(checks.choice("categories", name, known) for name in listed("categories", categories, str))


def writable(path: Path | None, force: bool) -> None:
    """Refuse a file that cannot be made, before anything is measured.

    Raises:
        InputError: it is there and may not be replaced, or its folder is not there.
    """
    if path is not None and not path.parent.is_dir():
        raise InputError(
            f"file {path}",
            Words("a file in a folder that is not there"),
            "Make the folder, or name another.",
            "is in a folder that does not exist",
        )
    if path is not None and path.exists() and not force:
        raise InputError(
            f"file {path}", Words("a file that is there already"), "Name a new one, or give --force.", "exists"
        )


def distinct(read: Sequence[evaluation.Source]) -> None:
    """Refuse a file that is named twice, since what is held out would then be among what is fitted.

    Raises:
        InputError: it is.
    """
    seen: set[Path] = set()
    for source in read:
        if source.path.resolve() in seen:
            raise InputError(
                f"file {source.path}", Words("a file that was named before"), "Name each file once.", "is named twice"
            )
        seen.add(source.path.resolve())


def listed(option: str, written: str, read: Callable[[str], Parsed]) -> list[Parsed]:
    """Return the values that stand between commas, each once.

    Raises:
        InputError: none at all, or one that cannot be read.
    """
    try:
        found = list(dict.fromkeys(read(part.strip()) for part in written.split(",") if part.strip()))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(option, written, "Give whole numbers with commas between them.") from None
    if not found:
        raise InputError(option, written, "Give at least one; several with commas between them.")
    return found
