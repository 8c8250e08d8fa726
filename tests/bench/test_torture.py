"""The torture programs run end to end at a small size, and find a fault that is planted."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from bench import torture, torture_server

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("app", "arguments"),
    [
        (torture.app, "crash --runs 9"),
        (torture.app, "crash --runs 1 --plant"),
        (torture.app, "crowd --processes 3 --seconds 4"),
        (torture.app, "crowd --processes 2 --seconds 1 --plant"),
        (torture.app, "reembed --memories 100 --kills 0 --plant"),
        (torture_server.app, "leaks --seconds 4 --threads 3"),
        (torture_server.app, "leaks --seconds 3 --threads 3 --plant"),
    ],
)
def test_torture_finds_faults_only_where_they_are_planted(app, arguments):
    done = CliRunner().invoke(app, arguments.split())
    assert "faults" in done.output, done.output
    assert done.exit_code == ("--plant" in arguments), done.output
