"""The command: `python -m bench.fuzz_server`. It ends with 1 where anything is wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from bench.fuzz_server.fuzzing import Found, fuzz
from bench.served import empty_store, running
from salience import compose
from salience.server import auth as access

EMBEDDER: Final = "static"
"""Costs next to nothing."""


def main(
    store: Annotated[str, typer.Option(help="Of the server: sqlite or postgres.")] = "sqlite",
    cases: Annotated[int, typer.Option(min=1, help="Made up for each operation.")] = 100,
    chains: Annotated[int, typer.Option(min=1, help="Made up along the links.")] = 100,
    seed: Annotated[int, typer.Option(help="What chance starts from.")] = 1,
    locked: Annotated[bool, typer.Option(help="Whether the server asks for a key.")] = True,
) -> None:
    """Try every operation of a server with all checks of Schemathesis."""
    logging.disable(logging.WARNING)  # what it finds out about the document in passing
    with _served(store, locked) as (url, token):
        found = fuzz(url, token, cases=cases, chains=chains, seed=seed)
    _tell(store, found)
    if found.failures or max(found.statuses) >= 500:
        raise typer.Exit(1)


@contextmanager
def _served(store: str, locked: bool) -> Iterator[tuple[str, str | None]]:
    """Yield the URL of a server on an empty store, and a key that may do everything there."""
    with TemporaryDirectory() as folder, empty_store(store, Path(folder)) as target:
        token = _key(target) if locked else None
        with running(target, Path(folder) / "log", embedder=EMBEDDER, workers=1) as served:
            yield served.url, token


def _key(target: str) -> str:
    token, key = access.create_key("default", ("admin",), {}, None, None, datetime.now(UTC))
    with closing(compose.keyring(target)) as keyring:
        keyring.add(key)
    return token


def _tell(store: str, found: Found) -> None:
    phases = ", ".join(f"{name} {count:,}" for name, count in found.cases.items())
    typer.echo(f"{store}: {found.cases.total():,} requests ({phases}), {found.checks.total():,} checks")
    typer.echo(f"  answers: {', '.join(f'{status}: {count:,}' for status, count in sorted(found.statuses.items()))}")
    typer.echo(f"  links: {len(found.links)} of {found.linked} followed, {found.links.total():,} times")
    for reason, count in found.excused.most_common():
        typer.echo(f"  let pass {count:,} times: {reason}")
    for failure in dict.fromkeys(found.failures):
        typer.echo(f"\n{failure}")
    typer.echo(f"  failures: {len(found.failures)}")


if __name__ == "__main__":
    typer.run(main)
