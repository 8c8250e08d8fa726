"""The engine: one line per public verb over the stories. It holds the ports, the profile and nothing else."""

from __future__ import annotations

from typing import Self

from salience.engine.keeping import Keeping
from salience.engine.reading import Reading
from salience.engine.writing import Writing


class Engine(Writing, Reading, Keeping):
    """Memory for agents, embedded in this process. Made by `salience.connect`; safe to share between threads.

    Every verb takes the scope keywords `environment`, `project`, `user_id`, `agent_id` and `session_id`, and raises
    the errors of `salience.errors`: InputError for a value that cannot be accepted, NotFoundError for an id that is
    not visible, EmbedderError and StoreError where the services fails.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
