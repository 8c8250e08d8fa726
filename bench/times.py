"""R-precision of questions that are only a time, over conversations with dates: `python -m bench.times PATH...`.

Each day of a session gives questions such as "What happened on 8 May 2023?", "What did we talk about last week?" and
"What was our third session about?", each asked at an instant that fits it. The right answer is every turn of that
window. R-precision is the share of right turns among the first R hits, with R their number.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from salience import settings
from salience.evaluate.datasets import Conversation, conversations
from salience.evaluate.run import contender
from salience.evaluate.stores import cache_folder, opened
from salience.models import registry
from salience.recall import recall
from salience.records import Query, Scope

DAY = timedelta(days=1)
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a time alone.

    Attributes:
        kind: of the question, for the report.
        text: the question.
        now: instant at which it is asked.
        start, end: the window that it means, `start <= created_at < end`.
    """

    kind: str
    text: str
    now: datetime
    start: datetime
    end: datetime


def questions(conversation: Conversation) -> Iterator[Question]:
    """Yield the questions about each day of a conversation, and about each session."""
    spans = [(times[0], times[-1] + timedelta(seconds=1)) for times in _times(conversation)]
    for place, (start, _) in enumerate(spans):
        yield from _of_day(start, place)
    yield from _of_sessions(sorted(spans))


def _times(conversation: Conversation) -> Iterator[list[datetime]]:
    for session in conversation.sessions:
        times = sorted(message.timestamp for message in session.messages if message.timestamp is not None)
        if times:
            yield times


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _asking(place: int) -> str:
    """Return the start of a question; the wordings take turns."""
    wordings = ("What happened", "What did we talk about", "what did we discuss", "What was going on", "Tell me about")
    return wordings[place % len(wordings)]


def _of_day(moment: datetime, place: int) -> Iterator[Question]:
    day, ask = _midnight(moment), _asking(place)
    noon, later = day + DAY / 2, day + 90 * DAY + DAY / 2
    month = day.replace(day=1)
    following = (month + 31 * DAY).replace(day=1)
    monday = day - day.weekday() * DAY
    end = day + DAY

    yield Question("date", f"{ask} on {day:%-d %B %Y}?", later, day, end)
    yield Question("date", f"{ask} on {day:%B %-d}?", later, day, end)
    yield Question("date", f"{ask} on the {_nth(day.day)} of {day:%B}?", later, day, end)
    yield Question("weekday", f"{ask} last {day:%A}?", noon + (1 + place % 6) * DAY, day, end)
    yield Question("weekday", f"what did we do on {day:%A}?", noon + (1 + place % 6) * DAY, day, end)
    if day.day < 25:
        yield Question("day of the month", f"What did we do on the {_nth(day.day)}?", noon + 3 * DAY, day, end)
    yield Question("span", f"{ask} between {day:%-d %B} and {day + 9 * DAY:%-d %B %Y}?", later, day, day + 10 * DAY)
    last = (month + 70 * DAY).replace(day=1)
    last = (last + 31 * DAY).replace(day=1)
    yield Question("span", f"{ask} between {day:%B} and {last - DAY:%B}?", last + 20 * DAY, month, last)
    yield Question("month", f"{ask} in {day:%B %Y}?", later, month, following)
    yield Question("month", f"{ask} in {day:%B}?", later, month, following)
    yield Question("month", f"{ask} last month?", following + 10 * DAY, month, following)
    half = day.day < 16
    start, until = (month, month + 15 * DAY) if half else (month + 15 * DAY, following)
    if following - month == 30 * DAY:
        yield Question("half", f"{ask} in the {'first' if half else 'second'} half of {day:%B}?", later, start, until)
    yield Question("yesterday", "what did we do yesterday?", noon + DAY, day, end)
    yield Question("yesterday", f"{ask} yesterday?", noon + DAY, day, end)
    yield Question("today", f"{ask} today?", end - DAY / 48, day, end)
    yield Question("today", f"{ask} earlier today?", end - DAY / 48, day, end)
    yield Question("week", f"{ask} last week?", monday + 9 * DAY, monday, monday + 7 * DAY)
    yield Question("week", f"{ask} two weeks ago?", monday + 16 * DAY, monday, monday + 7 * DAY)
    yield Question("days ago", f"{ask} 3 days ago?", noon + 3 * DAY, day, end)
    if day.weekday() > 4:
        saturday = monday + 5 * DAY
        yield Question("weekend", f"{ask} over the weekend?", monday + 8 * DAY, saturday, saturday + 2 * DAY)
    for part, first, past in (("morning", 5, 12), ("afternoon", 12, 18), ("evening", 17, 24)):
        if first <= moment.hour < past:
            since, until = day + first * DAY / 24, day + past * DAY / 24
            yield Question("part of a day", f"{ask} {day:%A} {part}?", noon + (1 + place % 6) * DAY, since, until)
    yield Question("open", f"{ask} before {day:%-d %B %Y}?", later, datetime.min.replace(tzinfo=UTC), day)
    yield Question("open", f"{ask} after {day:%-d %B %Y}?", later, end, later)
    yield Question("lately", "What's been going on lately?", noon + DAY, _midnight(noon + DAY) - 30 * DAY, noon + DAY)
    yield Question("lately", f"{ask} recently?", noon + DAY, _midnight(noon + DAY) - 30 * DAY, noon + DAY)


def _of_sessions(spans: Sequence[tuple[datetime, datetime]]) -> Iterator[Question]:
    ending = spans[-1][1] + DAY
    for place, (start, end) in enumerate(spans):
        if place < len(ORDINALS):
            word = ("session", "chat", "conversation")[place % 3]
            text = (f"What did we talk about in the {ORDINALS[place]} {word}?", f"our {ORDINALS[place]} {word}")
            yield from (Question("n-th session", one, ending, start, end) for one in text)
        yield Question("n-th session", "What did we discuss in our last session?", end + DAY, start, end)
        if place:
            before = spans[place - 1]
            yield Question("sessions ago", "What happened two sessions ago?", end + DAY, *before)
            yield Question("sessions ago", "What was the session before last about?", end + DAY, *before)


def _nth(number: int) -> str:
    ending = "th" if 10 < number < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def measure(path: Path, profile: str, misses: bool = False) -> dict[str, list[float]]:
    """Return kind -> the R-precision of each of its questions, over the conversations of a file."""
    found: dict[str, list[float]] = defaultdict(list)
    ranking, embedder = contender(profile), registry.embedder("minilm", settings.load())
    for conversation in conversations(path):
        times = {message.ref: message.timestamp for message in conversation.messages}
        with opened(conversation, embedder, cache_folder()) as store:
            for question in questions(conversation):
                right = {
                    ref
                    for ref, time in times.items()
                    if time is not None and question.start <= time < question.end and time <= question.now
                }
                if not right:
                    continue
                limit = min(len(right), 1000)
                query = Query(text=question.text, scope=Scope(), limit=limit, now=question.now, dry_run=True)
                hits = recall(store.services, ranking, query).hits
                found[question.kind].append(sum(store.refs[hit.memory.id] in right for hit in hits) / limit)
                if misses and found[question.kind][-1] < 0.8:
                    print(f"{found[question.kind][-1]:.2f} {limit:4} {question.text}  ({question.now:%a %Y-%m-%d})")
    return found


def main() -> None:
    """Print the mean R-precision of each kind, by profile."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("paths", nargs="+", type=Path, help="files of conversations with dates")
    parser.add_argument("--profiles", default="salience,bm25", help="names or paths, separated by commas")
    parser.add_argument("--misses", action="store_true", help="print questions below 0.8")
    options = parser.parse_args()
    columns = {}
    for profile in options.profiles.split(","):
        columns[profile] = merged = defaultdict[str, list[float]](list)
        for path in options.paths:
            for kind, values in measure(path, profile, options.misses).items():
                merged[kind] += values
    print(f"R-precision, {', '.join(path.stem for path in options.paths)}\n")
    print("| questions | n |", " | ".join(columns), "|\n|---|---:|" + "---:|" * len(columns))
    first = next(iter(columns.values()))
    for kind in first:
        means = [f"{sum(values[kind]) / len(values[kind]):.2f}" for values in columns.values()]
        print(f"| {kind} | {len(first[kind])} |", " | ".join(means), "|")
    count = sum(map(len, first.values()))
    totals = [f"{sum(map(sum, values.values())) / count:.2f}" for values in columns.values()]
    print(f"| all | {count} |", " | ".join(totals), "|")


if __name__ == "__main__":
    main()
