"""The command line: every verb of the API, the profiles, and a demo.

```
surface     the command itself: global options, errors as messages and exit codes
calls       how a command is registered: scope options and --json for each
options     options that several commands share
reading, explaining, writing, history, reflecting, upkeeping, transfers, copying, database, distributing,
serving, keys, mcp, profiles, calibrating, evals, config, demo                  the commands: parse, call, shape
recalls, records, bars, figures, words          records and figures as lines and as tables
screen, shapes                                  which form is shown; JSON
files       files of any format into a store
```
"""

from __future__ import annotations

import sys
from io import TextIOWrapper

from salience.cli import (
    calibrating,
    config,
    copying,
    database,
    demo,
    distributing,
    evals,
    explaining,
    history,
    keys,
    mcp,
    profiles,
    reading,
    reflecting,
    repairing,
    serving,
    transfers,
    upkeeping,
    writing,
)
from salience.cli.surface import app

__all__ = ["app", "main"]

COMMANDS = (
    writing, history, reading, explaining, reflecting, upkeeping, transfers, repairing, copying, database, distributing,
    serving, keys, mcp, profiles, calibrating, evals, config, demo,
)  # fmt: skip
"""The modules whose import registers commands."""


def main() -> None:
    """Run the command line and exit."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a sign that the terminal cannot show ends no command
    app.rich_markup_mode = "rich" if sys.stdout.isatty() else None  # help in boxes for people only
    app(prog_name="salience")
