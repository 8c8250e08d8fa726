"""Commands that measure and fit on your own data: eval and tune."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import typer

from salience.cli.options import EMBEDDERS, PROFILES, Call, Force, command
from salience.cli.output import Answer, excerpt, progress, table, tsv
from salience.errors import InputError, Words
from salience.records import checks
from salience.records.answers import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from salience.evaluate.compare import Comparison
    from salience.evaluate.everyday import Figures, Row
    from salience.evaluate.metrics import Estimate
    from salience.evaluate.run import Source
    from salience.evaluate.tune import Tuned

Parsed = TypeVar("Parsed")
app = typer.Typer()
EVERYDAY: Final = "everyday"
"""Path that stands for the everyday worlds of the package."""
DEPTHS: Final = "1,5,10,20"
METRIC: Final = "recall@10"
"""Defaults of --k and --metric."""
GRANULARITY: Final = {"turn": "turn (a memory each)", "session": "session (memories of one session count as one)"}

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...", help="LoCoMo, REALTALK, LongMemEval, BEAM, precisionMemBench or everyday: files, or folders."
    ),
]
Categories = Annotated[
    str | None,
    typer.Option("--categories", metavar="A,B", help="Question categories. Default: all that can be answered."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")]
Cache = Annotated[
    bool, typer.Option("--cache/--no-cache", help="Cache vectors in the platform's cache directory for the next run.")
]
Embedder = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="NAME",
        help="Embedding model. Default: SALIENCE_EMBEDDER, else minilm.",
        autocompletion=EMBEDDERS,
    ),
]
Naming = Annotated[
    Literal["strip", "swap", "keep"],
    typer.Option("--foreign-names", help="Speakers' names in foreign questions: removed, replaced or kept."),
]


@command(app, "eval")
def evaluate(
    call: Call,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="LoCoMo, REALTALK, LongMemEval, BEAM, precisionMemBench or everyday: files, or folders. The word "
            "everyday alone: the worlds of the package.",
        ),
    ],
    rankings: Annotated[
        str | None,
        typer.Option(
            "--profiles",
            metavar="A,B",
            help="Profiles, paths of TOML files, and the baselines bm25 and cosine. Default: all; for everyday, "
            "that of --profile.",
        ),
    ] = None,
    embedders: Annotated[
        str | None,
        typer.Option("--embedders", metavar="A,B", help="Embedding models. Default: that of --embedder."),
    ] = None,
    depths: Annotated[
        str, typer.Option("--k", metavar="N,N", help="Cut-offs of the metrics recall, all and hit.")
    ] = DEPTHS,
    metric: Annotated[str, typer.Option("--metric", metavar="NAME@K", help="Metric to compare by.")] = METRIC,
    categories: Categories = None,
    granularity: Annotated[
        Literal["turn", "session"], typer.Option("--granularity", help="Unit of evidence: memories, or whole sessions.")
    ] = "turn",
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare", metavar="A:B", help="A pair to compare; may be repeated. Default: first with others."
        ),
    ] = None,
    resample: Annotated[
        Literal["questions", "conversations"], typer.Option("--resample", help="Unit of the bootstrap.")
    ] = "questions",
    min_score: Annotated[
        float | None, typer.Option("--min-score", metavar="NUMBER", help="Minimum score. Default: the profile's own.")
    ] = None,
    foreign: Annotated[
        int, typer.Option("--foreign", metavar="N", help="Questions to ask in the store of another conversation.")
    ] = 0,
    naming: Naming = "strip",
    seed: Seed = 0,
    cache: Cache = True,
    half: Annotated[
        Literal["fit", "report"] | None, typer.Option("--half", help="Half of the everyday worlds. Default: both.")
    ] = None,
    misses: Annotated[
        bool, typer.Option("--misses", help="List the everyday questions whose first hit is not an answer.")
    ] = False,
) -> Answer:
    """Measure rankings on questions with known answers.

    Each conversation is stored in a store of its own, one memory per turn, and each question is ranked under every
    profile. The figures are means over the questions whose evidence the data set names, with 95 % bootstrap intervals.

    `everyday` as the path measures ten made-up worlds and 720 pairs of memories of the package through recall itself:
    how often an answer comes first, and how often an outdated memory does, or a wrong one that is not weak. It takes
    --half, --profiles, --embedders, --misses and --no-cache.
    """
    if paths == [Path(EVERYDAY)] and not paths[0].exists():
        for_files = {
            "k": depths != DEPTHS,
            "metric": metric != METRIC,
            "categories": categories,
            "granularity": granularity != "turn",
            "compare": compare,
            "resample": resample != "questions",
            "min_score": min_score is not None,
            "foreign": foreign,
        }
        _check_unused(for_files, "For everyday, give --half, --profiles, --embedders, --misses or --no-cache.")
        return _everyday(call, rankings, embedders, half, misses, cache)
    _check_unused({"half": half, "misses": misses}, f"Give {EVERYDAY} as the only path, or leave it out.")
    from salience import settings
    from salience.evaluate import compare as comparing
    from salience.evaluate import run, stores
    from salience.evaluate.metrics import Metric

    ks = tuple(_listed("k", depths, lambda written: checks.whole("k", int(written), 1, 200)))
    pairs = tuple(map(comparing.pair, compare or ()))
    wanted = comparing.Wanted(ks, Metric.named(metric), pairs, resample)
    names = run.RANKINGS if rankings is None else _listed("profiles", rankings, str)
    terms = run.Terms(
        run.contenders(names),
        run.limit_for(wanted.deepest, granularity),
        None if min_score is None else checks.number("min_score", min_score, 0.0, 100.0),
    )
    read = run.sources(paths)
    plan = run.Plan(
        terms,
        granularity,
        _chosen(categories, read),
        checks.whole("foreign", foreign, 0, 1_000_000),
        naming,
        checks.whole("seed", seed, 0, 2**32 - 1),
        stores.cache_folder() if cache else None,
    )
    embedding = _listed("embedders", embedders or call.options.embedder or settings.load().embedder, str)
    with progress("asking", run.count(read, plan) * len(embedding), unit="questions") as advance:
        outcomes = [run.evaluate(read, plan, name, advance) for name in embedding]
    found = comparing.compare(read, plan, wanted, outcomes)
    return Answer(comparing.as_record(found), _eval_lines(found), _eval_view(found))


@command(app)
def tune(
    call: Call,
    paths: Paths,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", metavar="NAME", help="Profile to start from: a name or a TOML file.", autocompletion=PROFILES
        ),
    ] = None,
    trials: Annotated[int, typer.Option("--trials", metavar="N", help="Trials per fit.")] = 100,
    metric: Annotated[str, typer.Option("--metric", metavar="NAME@K", help="Metric to maximise.")] = METRIC,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File of the new profile. Default: standard output.")
    ] = None,
    force: Force = False,
    embedder: Embedder = None,
    categories: Categories = None,
    parameters: Annotated[
        bool, typer.Option("--parameters", help="Fit the signals' parameters too, not only their weights.")
    ] = False,
    seed: Seed = 0,
    cache: Cache = True,
) -> Answer:
    """Fit a profile's weights to questions with known answers.

    Each conversation is held out once while weights are fitted on the others. Expect the held-out figure on new data;
    the fitted figure is too optimistic. The profile that is written is fitted on all conversations. Needs
    salience[eval].
    """
    from salience import settings
    from salience.evaluate import run, stores
    from salience.evaluate import tune as tuning
    from salience.evaluate.metrics import Metric
    from salience.loading import require
    from salience.models import registry

    _check_new(out, force)
    for module in ("optuna", "tomlkit"):
        require(module, "salience tune", "eval")
    chosen, name = Metric.named(metric), embedder or call.options.embedder or settings.load().embedder
    start = profile or call.options.profile or "salience"
    contender, count = run.contender(start), checks.whole("trials", trials, 1, 100_000)
    read = run.sources(paths)
    _check_distinct(read)
    wanted = _chosen(categories, read)
    conversations = run.conversations(read)
    total = sum(1 for conversation in conversations for _ in tuning.questions(conversation, wanted))
    with progress("asking", total, unit="questions") as advance:
        model, folder = registry.embedder(name, settings.load()), stores.cache_folder() if cache else None
        cases = tuning.cases(conversations, contender, chosen.k, model, wanted, folder, advance)
    with progress("fitting", tuning.fits(cases) * count, unit="trials") as advance:
        seed = checks.whole("seed", seed, 0, 2**32 - 1)
        found = tuning.tune(contender, cases, chosen, count, seed, parameters, advance)
    files = [source.path.name for source in read]
    toml = tuning.toml(found, tuning.source(start), files, name, datetime.now(UTC).date())
    if out is not None:
        out.write_text(toml, "utf-8")
    own = {item.name: getattr(found, item.name) for item in fields(found) if item.name != "profile"}
    record = {"files": files, "embedder": name, "out": out and str(out), **own, "toml": toml}
    last = toml.splitlines() if out is None else [f"# written to {out}"]
    return Answer(record, [*_tuned_lines(found), *last], _tuned_view(found, None if out else toml))


def _everyday(
    call: Call,
    rankings: str | None,
    embedders: str | None,
    half: Literal["fit", "report"] | None,
    misses: bool,
    cache: bool,
) -> Answer:
    """Measure the everyday worlds of the package."""
    from salience import settings
    from salience.evaluate import everyday, run, stores
    from salience.evaluate.datasets.everyday import HALVES, pair_worlds, worlds

    profiles = run.contenders(_listed("profiles", rankings or call.options.profile or "salience", str))
    names = _listed("embedders", embedders or call.options.embedder or settings.load().embedder, str)
    halves = [half] if half else HALVES
    held, paired = ([world for one in halves for world in read(one)] for read in (worlds, pair_worlds))
    stored = [*held, *paired]
    folder = stores.cache_folder() if cache else None
    total = sum(len(world.questions) for world in stored) * len(names)
    with progress("asking", total, unit="questions") as advance:
        asked = [one for name in names for one in everyday.ask(stored, profiles, name, folder, advance)]
    rows = everyday.rows(asked)
    missed = []
    if misses:
        texts = {world.name: {item.ref: item.draft.content for item in world.beliefs} for world in stored}
        missed = [
            {
                "embedder": one.embedder,
                "profile": one.profile,
                "world": one.world,
                "kind": one.question.category,
                "question": one.question.question,
                "first": texts[one.world][one.refs[0]] if one.refs else None,
                "right": [texts[one.world][ref] for ref in one.question.evidence],
            }
            for one in asked
            if everyday.is_miss(one)
        ]
    record: dict[str, object] = {"half": half or "both", "worlds": [world.name for world in held]}
    record |= {"limit": everyday.LIMIT, "rows": rows} | ({"misses": missed} if misses else {})
    memories, questions = (sum(len(getattr(world, name)) for world in held) for name in ("beliefs", "questions"))
    counts = [counted(len(held), "world"), counted(memories, "memory", "memories"), counted(questions, "question")]
    counts.append(counted(sum(len(world.questions) for world in paired), "pair"))
    head = f"everyday, {half or 'both halves'}: {', '.join(counts)}"
    return Answer(record, _everyday_lines(head, rows, missed), _everyday_view(head, rows, missed))


# --- Arguments --------------------------------------------------------------------------------------------------------


def _listed(option: str, written: str, parse: Callable[[str], Parsed]) -> list[Parsed]:
    """Parse comma-separated values, at least one, without duplicates."""
    try:
        found = list(dict.fromkeys(parse(part.strip()) for part in written.split(",") if part.strip()))
    except InputError:
        raise
    except ValueError:
        raise InputError(option, written, "Give whole numbers with commas between them.") from None
    if not found:
        raise InputError(option, written, "Give at least one; several with commas between them.")
    return found


def _check_unused(options: Mapping[str, object], remedy: str) -> None:
    """Reject the first of `options` that was given; value is falsy if not."""
    for name, value in options.items():
        if value:
            raise InputError(name, None, remedy, "does not apply here")


def _chosen(categories: str | None, read: Sequence[Source]) -> frozenset[str] | None:
    """Return the categories that were given, each of which has questions; None for none."""
    if categories is None:
        return None
    known = {question.category for source in read for held in source.conversations for question in held.questions}
    return frozenset(
        checks.choice("categories", name, sorted(known)) for name in _listed("categories", categories, str)
    )


def _check_new(path: Path | None, force: bool) -> None:
    """Reject a file that cannot be created, before the work starts."""
    if path is not None and not path.parent.is_dir():
        value, problem = Words("a file in a missing folder"), "is in a folder that does not exist"
        raise InputError(f"file {path}", value, "Make the folder, or name another.", problem)
    if path is not None and path.exists() and not force:
        remedy = "Name a new one, or give --force."
        raise InputError(f"file {path}", Words("an existing file"), remedy, "exists")


def _check_distinct(read: Sequence[Source]) -> None:
    """Reject a file given twice: its conversations would be both held out and fitted."""
    seen: set[Path] = set()
    for source in read:
        if source.path.resolve() in seen:
            value = Words("a file that was named before")
            raise InputError(f"file {source.path}", value, "Name each file once.", "is named twice")
        seen.add(source.path.resolve())


# --- Figures ----------------------------------------------------------------------------------------------------------


def bounds(estimate: Estimate | None, sign: bool = False) -> str:
    """Return a mean with its interval: `0.639 [0.604, 0.672]`."""
    if estimate is None:
        return "-"
    form = "+.3f" if sign else ".3f"
    return f"{estimate.mean:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"


def _table(title: str, heads: Sequence[str], rows: Iterable[Iterable[str | Text]]) -> Table:
    """Return a table whose first column is to the left, the others to the right."""
    from rich.table import Column
    from rich.text import Text

    first, *others = heads
    made = table(
        Column(first, no_wrap=True), *(Column(one, justify="right", no_wrap=True) for one in others), title=title
    )
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return made


def _head(found: Comparison) -> list[str]:
    """Return lines on the data, the metric and the intervals."""
    from salience.evaluate.metrics import ROUNDS

    categories = ", ".join(f"{key} {meaning}".strip() for key, meaning in found.categories.items())
    left_out = f"; {found.without_evidence} left out, without evidence that is stored"
    minimum = "each profile's own min_score" if found.min_score is None else f"min_score {found.min_score:g}"
    naming = f"; names in foreign questions: {found.naming}" if found.naming else ""
    return [
        f"{', '.join(found.formats)}: {', '.join(found.files)}; {counted(found.conversations, 'store')}, "
        f"{counted(found.memories, 'memory', 'memories')}",
        f"granularity: {GRANULARITY[found.granularity]}; n = {counted(found.n, 'question')} of the categories "
        f"{categories}{left_out if found.without_evidence else ''}",
        f"metric of differences: {found.metric}; limit {found.limit}; {minimum}{naming}",
        f"intervals: 95 %, {ROUNDS:,} samples of {found.resample}, seed {found.seed}",
    ]


def _sections(found: Comparison) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield title, heads and rows of the paired differences, the empty answers, and the times."""
    heads = ["difference", "embedder", "metric", "n", "mean"]
    yield (
        "paired differences; they differ if the interval excludes 0",
        heads,
        [
            [
                f"{one.first} - {one.second}",
                one.embedder,
                one.metric,
                str(one.estimate.n),
                bounds(one.estimate, sign=True),
            ]
            for one in found.differences
        ],
    )
    yield (
        "questions without an answer",
        ["no answer", "embedder", "kind", "n", "empty", "hits"],
        [
            [one.ranking, one.embedder, one.kind, str(one.empty.n), bounds(one.empty), f"{one.hits:.2f}"]
            for one in found.silences
        ],
    )
    title = "median ms; all rankings that embed the same text share embed and gather"
    rows = [
        [one.ranking, one.embedder, *(f"{step} {lap:.2f}" for step, lap in one.steps.items())] for one in found.times
    ]
    yield title, ["time", "embedder", "median ms", *[""] * (max(map(len, rows)) - 3)], rows


def _eval_lines(found: Comparison) -> Iterator[str]:
    from salience.evaluate.compare import ALL

    yield from (f"# {line}" for line in _head(found))
    yield "# ranking\tembedder\tcategory\tn\t" + "\t".join(found.metrics)
    for embedder in found.embedders:
        for ranking in found.rankings:
            for category in (ALL, *found.categories):
                scores = [found.score(ranking, embedder, name, category) for name in found.metrics]
                n = next((one.n for one in scores if one), 0)
                yield "\t".join([ranking, embedder, category, str(n), *map(bounds, scores)])
    for _, heads, rows in _sections(found):
        yield "# " + "\t".join(heads).rstrip()
        yield from map("\t".join, rows)


def _eval_view(found: Comparison) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text("\n".join(_head(found)), style="dim")]
    shown = [name for name in found.metrics if name.startswith(("recall", "mrr", "ndcg"))]
    for embedder in found.embedders:
        rows: dict[str, list[str | Text]] = {ranking: [ranking] for ranking in found.rankings}
        for name in (*shown, "precision", "hits"):
            means = {ranking: one.mean for ranking in rows if (one := found.score(ranking, embedder, name))}
            for ranking, mean in means.items():
                best = name in shown and mean == max(means.values())
                rows[ranking].append(Text(f"{mean:.{3 if name in shown else 2}f}", style="bold green" if best else ""))
        for ranking, row in rows.items():
            row.append(Text(bounds(found.score(ranking, embedder, found.metric)).partition(" ")[2], style="dim"))
        heads = ("ranking", *shown, "precision", "hits", f"{found.metric}, 95 %")
        parts.append(_table(f"{embedder}: all {found.n} questions", heads, rows.values()))
        scores = [[found.score(one, embedder, found.metric, key) for key in found.categories] for one in rows]
        counts = [one.n if one else 0 for one in scores[0]]
        titles = [f"{key} {text}".strip() for key, text in found.categories.items()]
        heads = ("ranking", *(f"{title} ({n})" for title, n in zip(titles, counts, strict=True)))
        cells = ([ranking, *map(bounds, row)] for ranking, row in zip(rows, scores, strict=True))
        parts.append(_table(f"{embedder}: {found.metric} by category", heads, cells))
    parts += [_table(title, heads, rows) for title, heads, rows in _sections(found) if rows]
    return Group(*parts)


_EVERYDAY_HEADS: Final = {
    "n": "n",
    "first": "first",
    "wrong_and_sure": "wrong,\nsure",
    "any_of_five": "any\nof 5",
    "all_of_five": "all\nof 5",
    "empty": "empty",
    "doubted": "doubted",
    "changed": "changed",
    "outdated_first": "outdated\nfirst",
    "unanswerable": "no\nanswer",
    "trusted": "trusted",
    "unanswerable_empty": "empty",
    "calibration_error": "calibr.\nerror",
}
"""Figure -> its column in a table."""
_PAIR_HEADS: Final = {
    "n": "n",
    "first": "right\nfirst",
    "wrong_and_sure": "wrong\nand sure",
    "doubted": "right,\nbut doubted",
    "all_of_five": "share of right\nin first five",
}
"""The same of pairs."""


def _everyday_cells(figures: Figures, heads: Iterable[str] = _EVERYDAY_HEADS) -> list[str]:
    found = [getattr(figures, name) for name in heads]
    return ["-" if one is None else f"{one:.3f}" if isinstance(one, float) else str(one) for one in found]


def _everyday_lines(head: str, rows: Sequence[Row], missed: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield f"# {head}"
    yield tsv("# profile", "embedder", "worlds", "by", "name", *_EVERYDAY_HEADS)
    for row in rows:
        worlds = ("polyglot" if row.polyglot else "english") + (" pairs" if row.pairs else "")
        yield tsv(row.profile, row.embedder, worlds, row.by, row.name or "-", *_everyday_cells(row.figures))
    if missed:
        yield tsv("# miss", "embedder", "world", "kind", "question", "first hit", "right")
    for one in missed:
        right = " | ".join(one["right"]) or "no answer"
        yield tsv(
            one["profile"], one["embedder"], one["world"], one["kind"], one["question"], one["first"] or "-", right
        )


def _everyday_view(head: str, rows: Sequence[Row], missed: Sequence[dict[str, Any]]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(head, style="dim")]
    tables: dict[str, list[Row]] = {}
    for row in rows:
        asked = "pairs" if row.pairs else "worlds"
        asked = f"{asked} in several languages" if row.polyglot else f"English {asked}"
        tables.setdefault(f"{row.profile}, {row.embedder}: {asked}", []).append(row)
    for title, group in tables.items():
        heads = _PAIR_HEADS if group[0].pairs else _EVERYDAY_HEADS
        cells = ([row.name or "total", *_everyday_cells(row.figures, heads)] for row in group)
        made = _table(title, ("", *heads.values()), cells)
        made.collapse_padding = True  # many columns
        parts.append(made)
    for one in missed:
        parts.append(Text(f"\n{one['world']}, {one['kind']}, {one['profile']}, {one['embedder']}: {one['question']}"))
        parts.append(Text(f"  first  {excerpt(one['first'] or '-')}", style="dim"))
        parts += [Text(f"  right  {excerpt(text)}", style="dim") for text in one["right"] or ["no answer"]]
    return Group(*parts)


def _tuned(found: Tuned) -> tuple[str, dict[str, str], list[list[str]], list[list[str]]]:
    """Return title, figures, folds and changed numbers."""
    title = f"{found.metric}, n = {counted(found.n, 'question')}, {counted(found.trials, 'trial')} a fit"
    names = ("before", "held_out", "gain", "fitted")
    figures = {name.replace("_", " "): bounds(getattr(found, name), sign=name == "gain") for name in names}
    folds = [
        [", ".join(one.conversations), str(one.n), f"{one.before:.3f}", f"{one.held_out:.3f}", f"{one.fitted:.3f}"]
        for one in found.folds
    ]
    return title, figures, folds, [[one.path, f"{one.before:g}", f"{one.after:g}"] for one in found.changes]


def _tuned_lines(found: Tuned) -> Iterator[str]:
    """Yield the figures as comments, so that the TOML may follow."""
    title, figures, folds, changes = _tuned(found)
    yield f"# {title}, 95 % intervals"
    yield from (f"# {name}\t{figure}" for name, figure in figures.items())
    yield "# held out\tn\tbefore\theld out\tfitted on the others"
    yield from ("# " + "\t".join(row) for row in folds)
    yield "# number\tbefore\tafter"
    yield from ("# " + "\t".join(row) for row in changes)
    if found.unfitted:
        yield f"# not fitted, since the data does not vary in it: {', '.join(found.unfitted)}"


def _tuned_view(found: Tuned, toml: str | None) -> RenderableType:
    from rich.console import Group

    title, figures, folds, changes = _tuned(found)
    heads = ("conversation", "n", "before", "held out", "fitted on the others")
    rest = [f"Not fitted, since the data does not vary in it: {', '.join(found.unfitted)}."] if found.unfitted else []
    return Group(
        _table(title, ("", "mean and 95 % interval"), figures.items()),
        _table("held out, one after the other", heads, folds),
        _table("numbers", ("", "before", "after"), changes),
        *rest,
        *([f"\n{toml}"] if toml else []),
    )
