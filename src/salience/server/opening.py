"""The store and the keys of a server, and whether it may be reached by others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final

from salience import compose
from salience.engine import Engine
from salience.errors import InputError, shown
from salience.models.registry import embedder as chosen
from salience.ports import Embedder, Keyring
from salience.server.listening import is_loopback
from salience.server.plan import Plan
from salience.settings import Settings

MAKE_A_KEY: Final = "salience keys create --right read --right write"
"""The command that makes a first key, after the options of the store."""


@contextmanager
def opened(
    plan: Plan, around: Callable[[Embedder], Embedder] = lambda embedder: embedder
) -> Iterator[tuple[Engine, Keyring]]:
    """Yield the engine and the keys of a plan, and close both.

    Args:
        plan: what is to be served.
        around: returns what is to stand before the embedder, below the memory of query vectors.

    Raises:
        InputError: others could reach a server for which no key was made; or as `salience.connect` does.
        StoreError: the store cannot be opened; see its subclasses.
    """
    settings = plan.settings
    bare = chosen(plan.embedder, settings.model_copy(update={"embedder_cache": 0}))
    ready = compose.engine(settings, settings.url, embedder=around(bare), profile=plan.profile, wrap=around)
    with closing(ready) as engine, closing(compose.keyring(settings.url)) as keyring:
        refuse_strangers(plan, keyring)
        yield engine, keyring


def refuse_strangers(plan: Plan, keyring: Keyring) -> None:
    """Return if only this machine reaches the server, or callers have to show something.

    Raises:
        InputError: neither is so.
    """
    field = reached_through(plan.settings)
    if field is not None and plan.settings.oauth_issuer is None and keyring.is_empty():
        raise InputError(
            field,
            getattr(plan.settings, field),
            f"No key was made yet, so that whoever reaches it could read and write. Make one: {MAKE_A_KEY}; "
            "or serve 127.0.0.1 alone.",
            f"{shown(getattr(plan.settings, field))} would let others reach the server",
        )


def reached_through(settings: Settings) -> str | None:
    """Return the setting by which others than this machine reach the server; None where none does.

    One that goes by further names is taken to stand behind a proxy, which would let others in.

    Raises:
        InputError: the host is none.
    """
    if not is_loopback(settings.server_host):
        return "server_host"
    return "server_hosts" if settings.server_hosts else None
