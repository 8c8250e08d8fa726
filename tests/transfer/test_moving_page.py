"""docs/how-to/moving.md lists every source, and its commands run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from conversations_and_notes import SAMPLES as CONVERSATIONS_AND_NOTES
from other_systems import SAMPLES, WordEmbedder
from typer.testing import CliRunner

from salience.cli import app
from salience.models import registry
from salience.transfer.importers import SOURCES

PAGE = (Path(__file__).parents[2] / "docs/how-to/moving.md").read_text("utf-8")


def test_every_source_is_in_the_table():
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == SOURCES.keys()


def test_the_commands_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry.EMBEDDERS, "words", lambda _: WordEmbedder())
    (tmp_path / "notes").mkdir()
    SAMPLES["mem0"](tmp_path, 5)
    mem0 = tmp_path / "mem0.json"
    mem0.write_text(mem0.read_text().partition(',\n  {\n   "id": "broken"')[0] + "]}")
    CONVERSATIONS_AND_NOTES["chatgpt"](tmp_path, 5).path.replace(tmp_path / "conversations.json")
    (tmp_path / "notes" / "a.md").write_text("Water the garden on Mondays.")
    commands = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    assert len(commands) == 7
    for line in commands:
        words = shlex.split(line, comments=True)
        assert words[0] == "salience"
        result = CliRunner().invoke(app, ["--store", "agent.db", "--embedder", "words", *words[1:]])
        assert result.exit_code == 0, (line, result.output)
        assert re.match(r"(.*\n)*(would have imported|imported|exported) [1-9]", result.stdout), (line, result.stdout)
    assert (tmp_path / "for-mem0.json").exists()
