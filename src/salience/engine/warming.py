"""What a first recall would wait for, loaded ahead of it: the model, and what the store keeps at hand."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

from salience.engine import Engine
from salience.ports import FINGERPRINTED
from salience.records import ANY

NAME: Final = "salience-warm"
"""Of the thread."""


def begin(engine: Engine) -> threading.Thread:
    """Warm an engine in a thread of its own, and return that.

    What fails there fails again at the first recall, which tells of it. A process that ends waits for the thread: the
    runtime of a model does not bear to be left while it loads.
    """

    def work() -> None:
        with suppress(Exception):
            warm(engine)

    thread = threading.Thread(target=work, name=NAME)
    thread.start()
    return thread


def warm(engine: Engine) -> None:
    """Ask an engine once, for what it knows of no question in particular; nothing is counted.

    A remote embedder is not asked. Of the sentence, the store wants the vector anyway: it tells models apart by it.

    Raises:
        SalienceError: as `Engine.recall`.
    """
    engine.recall(
        FINGERPRINTED,
        limit=1,
        dry_run=True,
        deadline_ms=0.0 if getattr(engine.services.embedder, "remote", False) else None,
        environment=ANY,
        project=ANY,
        user_id=ANY,
        agent_id=ANY,
    )
