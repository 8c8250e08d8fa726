"""The verbs that a writer mixes. Each says what it is going to write before it is run.

A writer changes its own memories alone, so that it knows what each change makes; what many change at once is the board.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from bench.torture.journal import Mark, key_of
from salience.access_log import flush_all
from salience.engine import Engine
from salience.errors import LeaseError
from salience.records import Draft, Memory, Recall

WORDS: Final = (
    "anchor bridge candle desert ember forest garden harbour island jungle kettle ladder meadow needle orchard "
    "pepper quarry river saddle temple umbrella valley window yellow zephyr"
).split()
LONGEST: Final = 1500
"""Words of a long text: several pages of the file."""
BATCH: Final = 20
"""Most drafts of one batch, and most turns of one conversation."""
BOARD: Final = "the board of all writers"
"""First text of the memory that every writer of a file updates; it belongs to no user."""
OLD: Final = " of old"
"""What the name of a user ends with whose memories are of long ago."""
THINKING: Final = " thinking"
"""What the name of a user ends with whose memories are summed up."""
REFLECTION: Final = "reflection"
"""The kind of what sums others up."""
LONG: Final = timedelta(hours=12)
"""Time without access after which a working memory has earned the next tier."""
SHARED: Final = 200
"""How many keys the writers of one file share: each is a race for who stores it."""


@dataclass(slots=True)
class Hand:
    """What a writer knows and has.

    Attributes:
        name: of the writer; every text of its begins with it.
        user: whose memories it writes.
        engine: on the file.
        choose: makes every choice.
        count: of the texts made so far; no two are equal.
        own: its live memories that none but it changes.
        gone: its forgotten memories.
        made: ids of what it was told it stored since it began; no verb that was cut off had a part in those.
        aged: its working memories of long ago, which belong to a user of their own and are never recalled.
        seen: ids of its live memories that reflections may sum up, which belong to a third user.
        board: id of the memory that all writers update; None where there is none.
    """

    name: str
    user: str
    engine: Engine
    choose: Random
    count: int = 0
    own: dict[str, Memory] = field(default_factory=dict)
    gone: dict[str, Memory] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    aged: dict[str, Memory] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    board: str | None = None

    def text(self) -> str:
        """Return a text that was never there: the writer's name, a number, and words."""
        self.count += 1
        length = LONGEST if self.choose.random() < 0.03 else self.choose.randint(2, 12)
        return " ".join((self.name, str(self.count), *self.choose.choices(WORDS, k=length)))

    def texts(self) -> list[str]:
        """Return several such texts."""
        return [self.text() for _ in range(self.choose.randint(2, BATCH))]

    def one(self) -> Memory | None:
        """Return one of its own memories; None where it has none."""
        return self.choose.choice(list(self.own.values())) if self.own else None

    @property
    def elder(self) -> str:
        """The user whose memories are its aged ones."""
        return f"{self.name}{OLD}"

    @property
    def thinker(self) -> str:
        """The user whose memories are summed up."""
        return f"{self.name}{THINKING}"

    def session(self) -> str:
        """Return the name of one of its sessions."""
        return f"{self.name} {self.choose.randint(1, 3)}"


PATIENCE: Final = 60
"""How often the writing of what a recall has touched is tried, each time as long as a touch waits."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a verb answered.

    Attributes:
        written: the memories of its receipts, as they now stand.
        touched: ids of the memories on which its recall was counted.
    """

    written: tuple[Memory, ...] = ()
    touched: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A verb that is ready to run.

    Attributes:
        run: does it.
        foreseen: what it is going to write, all or none.
        keyed: whether each draft has the key of its content.
        leaves: ids of memories that the writer is not to change any more.
        erased: ids of the memories that it is going to erase, all or none.
        and_more: whether it may write more than is foreseen, in other transactions.
    """

    run: Callable[[], Done]
    foreseen: tuple[Mark, ...] = ()
    keyed: bool = False
    leaves: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()
    and_more: bool = False

    @property
    def writes(self) -> bool:
        """Whether it is to change memories, and not their counters alone."""
        return bool(self.foreseen or self.erased)


def next_version(memory: Memory, change: str, content: str | None = None) -> Mark:
    """Return the mark of the version that a change makes of a memory."""
    return Mark(change, memory.content if content is None else content, memory.id, memory.version + 1)


def _remembering(hand: Hand, drafts: Sequence[Draft], *others: Mark, keyed: bool = False) -> Step:
    """Return the step that stores drafts in one transaction, with the changes of other memories that come with them."""

    def run() -> Done:
        receipts = hand.engine.remember_many(drafts, user_id=hand.user)
        return Done(tuple(receipt.memory for receipt in receipts))

    made = tuple(Mark("create", draft.content) for draft in drafts)
    leaves = tuple(mark.id for mark in others if mark.id is not None)
    return Step(run, (*made, *others), keyed, leaves)


def remember(hand: Hand) -> Step:
    """Store one memory; a retry finds it by its key."""
    content = hand.text()
    tier = hand.choose.choice(("working", "episodic"))
    session = hand.session() if tier == "working" else None

    def run() -> Done:
        receipt = hand.engine.remember(
            content, tier=tier, key=key_of(content), tags=["t"], user_id=hand.user, session_id=session
        )
        return Done((receipt.memory,))

    return Step(run, (Mark("create", content),), keyed=True)


def remember_many(hand: Hand) -> Step:
    """Store several memories, all or none."""
    return _remembering(hand, [Draft(content=text, key=key_of(text)) for text in hand.texts()], keyed=True)


def supersede(hand: Hand) -> Step | None:
    """Store a memory in the place of another one, whose weight falls in the same transaction."""
    old = hand.one()
    if old is None or old.tier == "working":  # those the end of a session moves, superseded or not
        return None
    return _remembering(hand, [Draft(content=hand.text(), supersedes=old.id)], next_version(old, "supersede"))


def ingest(hand: Hand) -> Step:
    """Store a conversation, all of it or nothing."""
    texts, session = hand.texts(), hand.session()
    messages = [{"role": "user" if place % 2 else "assistant", "content": text} for place, text in enumerate(texts)]

    def run() -> Done:
        receipts = hand.engine.ingest(messages, user_id=hand.user, session_id=session)
        return Done(tuple(receipt.memory for receipt in receipts))

    return Step(run, tuple(Mark("create", text) for text in texts))


def update(hand: Hand) -> Step | None:
    """Give a memory another text."""
    old = hand.one()
    if old is None:
        return None
    content = hand.text()

    def run() -> Done:
        return Done((hand.engine.update(old.id, content=content, user_id=hand.user).memory,))

    return Step(run, (next_version(old, "update", content),))


def forget(hand: Hand) -> Step | None:
    """Take a memory out of every recall."""
    old = hand.one()
    if old is None:
        return None
    return Step(lambda: Done((hand.engine.forget(old.id, user_id=hand.user).memory,)), (next_version(old, "forget"),))


def restore(hand: Hand) -> Step | None:
    """Put a forgotten memory in its place again."""
    if not hand.gone:
        return None
    old = hand.choose.choice(list(hand.gone.values()))
    return Step(lambda: Done((hand.engine.restore(old.id, user_id=hand.user).memory,)), (next_version(old, "restore"),))


def erase(hand: Hand) -> Step | None:
    """Delete memories, live and forgotten ones, for good."""
    known = [held for held in (*hand.own, *hand.gone) if held in hand.made]
    ids = hand.choose.sample(known, min(len(known), hand.choose.randint(1, 3)))
    if not ids:
        return None

    def run() -> Done:
        count = hand.engine.erase(ids, user_id=hand.user)
        if count != len(ids):
            raise AssertionError(f"erase: {count} of {len(ids)} memories")
        return Done()

    return Step(run, leaves=tuple(ids), erased=tuple(ids))


def age(hand: Hand) -> Step:
    """Store working memories of long ago."""
    long_ago = datetime.now(UTC) - LONG
    drafts = [Draft(content=text, tier="working", created_at=long_ago) for text in hand.texts()]

    def run() -> Done:
        return Done(tuple(receipt.memory for receipt in hand.engine.remember_many(drafts, user_id=hand.elder)))

    return Step(run, tuple(Mark("create", draft.content) for draft in drafts))


def consolidate(hand: Hand) -> Step | None:
    """Move what is of long ago to the next tier, all of it together."""
    if not hand.aged:
        return None

    def run() -> Done:
        moved = hand.engine.consolidate(user_id=hand.elder).promoted
        return Done(tuple(hand.engine.get(one, user_id=hand.elder) for ids in moved.values() for one in ids))

    return Step(run, tuple(next_version(memory, "promote") for memory in hand.aged.values()))


def upkeep(hand: Hand) -> Step | None:
    """Do all that is due, in several transactions; only where no other writer's foresight is upset by it."""
    if hand.board is not None:
        return None

    def run() -> Done:
        with suppress(LeaseError):  # of an upkeep that was cut off, whose lease has not run out yet
            hand.engine.upkeep()
        return Done(tuple(hand.engine.get(one, user_id=hand.elder) for one in hand.aged))

    return Step(run, and_more=True)


def end_session(hand: Hand) -> Step:
    """End a session, all of whose working memories move on together."""
    session = hand.session()
    moving = [item for item in hand.own.values() if item.tier == "working" and item.scope.session_id == session]

    def run() -> Done:
        promoted = hand.engine.end_session(session, user_id=hand.user).promoted
        return Done(tuple(hand.engine.get(moved, user_id=hand.user) for moved in promoted))

    return Step(run, tuple(next_version(memory, "promote") for memory in moving))


def post(hand: Hand) -> Step | None:
    """Update the board, which other writers update at the same time."""
    board = hand.board
    if board is None:
        return None
    content = hand.text()
    return Step(lambda: Done((hand.engine.update(board, content=content).memory,)), (Mark("update", content, board),))


def race(hand: Hand) -> Step | None:
    """Store a text under a key that other writers store the same text under."""
    if hand.board is None:
        return None
    content = f"race {hand.choose.randrange(SHARED)} is won by one"
    return Step(
        lambda: Done((hand.engine.remember(content, key=key_of(content)).memory,)), (Mark("create", content),), True
    )


def touched(answer: Recall) -> tuple[str, ...]:
    """Return the ids on which a recall is counted for good: a kill takes with it what is not yet written."""
    is_written = any(flush_all() for _ in range(PATIENCE))  # others that write may hold it up, and a full disk prevent
    return tuple(hit.memory.id for hit in answer) if is_written else ()


def recall(hand: Hand) -> Step:
    """Ask, which is counted on the memories that are returned."""
    asked: dict[str, Any] = {"user_id": hand.user, "session_id": hand.choose.choice((None, hand.session()))}
    query = " ".join(hand.choose.choices(WORDS, k=2))

    def run() -> Done:
        answer = hand.engine.recall(query, limit=5, min_score=0, **asked)
        return Done(touched=touched(answer))

    return Step(run)
