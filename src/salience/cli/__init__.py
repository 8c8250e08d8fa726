"""The command line: every verb of the API, the profiles, and a demo.

```
surface     the command itself: global options, errors as messages and exit codes
commands    the commands as help lists them, and the module of each
calls       how a command is registered: scope options and --json for each
options     options that several commands share
reading, explaining, writing, history, reflecting, upkeeping, transfers, copying, database, distributing,
repairing, serving, keys, mcp, profiles, calibrating, evals, config, demo
            the commands, each imported when it is called: parse, call, shape
recalls, records, bars, figures, words          records and figures as lines and as tables
screen, signs                                   which form is shown; text of others on a terminal
times       times as people write them, as instants
files       files of any format into a store
```
"""

from __future__ import annotations

import sys
from io import TextIOWrapper

from salience.cli.surface import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line and exit."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a sign that the terminal cannot show ends no command
    app.rich_markup_mode = "rich" if sys.stdout.isatty() else None  # help in boxes for people only
    app(prog_name="salience")
