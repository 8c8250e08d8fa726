"""The command line in this process. It is built once, which takes as long as most commands do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from typer.main import get_command
from typer.testing import CliRunner, Result

from salience.cli import app

COMMAND = get_command(app)


def invoke(arguments: Sequence[object], **options: Any) -> Result:
    """Run a command, with the options of `CliRunner.invoke`."""
    with patch("typer.testing._get_command", return_value=COMMAND):
        return CliRunner().invoke(app, [*map(str, arguments)], **options)
