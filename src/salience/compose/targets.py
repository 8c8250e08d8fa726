"""What a target names: a file, a database, this process, or a server of Salience."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from salience import settings as configuration
from salience.errors import InputError, Words

MEMORY: Final = ":memory:"
"""The target that keeps memories in this process only."""
SQLITE: Final = "sqlite:///"
URLS: Final = ("https", "http")
"""Schemes of a server of Salience."""
SERVERS: Final = ("postgresql", "postgres")
"""Schemes of a PostgreSQL database."""


def is_url(target: object) -> bool:
    """Return whether a target is a server of Salience, by its URL."""
    scheme, separator, _ = str(target).partition("://")
    return bool(separator) and scheme.lower() in URLS


def on_server(target: str | Path) -> bool:
    """Return whether a target names a PostgreSQL database."""
    scheme, separator, _ = str(target).partition("://")
    return bool(separator) and scheme in SERVERS


def named(target: str | Path | None) -> str:
    """Return a target as text; without one, that of the settings."""
    return str(target if target is not None else configuration.load().url)


def path_of(target: str) -> Path:
    """Return the file that `target` names.

    Raises:
        InputError: it names none.
    """
    scheme, separator, _ = target.partition("://")
    path = target.removeprefix(SQLITE)
    if is_url(target):
        remedy = "Do this where the server's store is: name its file, or its database."
        raise InputError("target", f"{scheme}://...", remedy, "is a server")
    if on_server(target):
        raise InputError(
            "target",
            f"{scheme}://...",
            "Name a file. A database is put back by the tools of its server: pg_restore --clean --dbname=DSN FILE",
            "is a database",
        )
    if "dbname=" in target and not Path(path).exists():
        raise InputError("target", Words("a list of keywords"), f"Give {SERVERS[0]}://USER@HOST/DATABASE, or a file.")
    if (separator and not target.startswith(SQLITE)) or not path or "\0" in path or path == MEMORY:
        shown = f"{scheme}://..." if separator else target  # what follows may hold a password
        raise InputError("target", shown, f"Give a file, {SQLITE}PATH, {SERVERS[0]}://HOST/DATABASE or {MEMORY}.")
    return Path(path).expanduser()
