"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import salience
from salience.cli import app
from salience.rank import profiles

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_python_example_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    [example] = blocks("python")
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 - our own example
    printed = capsys.readouterr().out
    assert "Alice prefers Python for backend work" in printed
    assert "Hi, I'm back from Lisbon" in printed
    assert (tmp_path / "agent.db").exists()


def test_the_demo_begins_as_it_is_printed_here():
    [shown] = blocks("text")
    assert CliRunner().invoke(app, ["demo"]).stdout.startswith(shown.rstrip())


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = README.with_name("Makefile").read_text("utf-8")
    for target in re.findall(r"^make (\w+)", TEXT, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


ENDS = {"mcp install": ["--dry-run"], "serve": ["--help"]}
"""Commands that would ask, or go on -> what ends them."""


def test_the_shell_examples_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat.json").write_text('[{"role": "user", "content": "hello"}]')
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("salience")]
    assert len(lines) == 6
    monkeypatch.setenv("SALIENCE_URL", str(tmp_path / "agent.db"))
    for line in lines:
        for command in line.split("&&"):
            words = shlex.split(command, comments=True)[1:]
            result = CliRunner().invoke(app, [*words, *ENDS.get(" ".join(words[:2]), ())])
            assert result.exit_code == 0, result.output


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([^)#]+)\)", TEXT))))
def test_links_lead_somewhere(path):
    assert (README.parent / path).exists()


def test_the_profile_table_lists_what_ships():
    assert re.findall(r"^\| \[`(\w+)`\]", TEXT, re.MULTILINE) == list(profiles.NAMES)


def test_how_to_install_comes_before_the_first_example():
    assert TEXT.index("## Install") < TEXT.index("```python")
    version = re.escape(salience.__version__)
    assert re.search(rf"salience-{version}-py3-none-any\.whl", TEXT)
    [install, *_] = [block for block in blocks("sh") if "pip install" in block]
    assert not re.search(r'pip install "?salience[\["]', install)  # which the index does not have
