"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import salience
from command_line import invoke
from tests.contract.doubles import PlantedEmbedder

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
    assert (tmp_path / "agent.db").exists()


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = README.with_name("Makefile").read_text("utf-8")
    for target in re.findall(r"(?:^|`)make ([\w-]+)", TEXT, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_every_figure_before_the_comparison_names_the_command_that_makes_it():
    shown = TEXT.partition("## Beside others")[0]
    claims = [
        part for part in re.split(r"\n(?=\n|- )", shown) if re.search(r"\d %|\d ms|minute|second|half the time", part)
    ]
    assert len(claims) == 2
    for claim in claims:
        assert re.search(r"`(?:make|salience eval) [^`]+`", claim), claim


def test_every_call_inside_a_sentence_runs():
    calls = [code for code in re.findall(r"`(memory\.[^`]+)`", TEXT) if code.endswith(")")]
    assert calls
    with salience.connect(":memory:", embedder=PlantedEmbedder({})) as memory:
        for call in calls:
            eval(call, {"memory": memory, "question": "Where does Alice live?"})  # noqa: S307 - our own README


def test_no_page_installs_from_an_index_that_has_no_release():
    root = README.parent
    pages = [*root.glob("docs/**/*.md"), *root.glob("examples/*"), *root.glob("clients/typescript/*.md")]
    pages = [page for page in pages if page.is_file() and page.name != "releasing.md" and "decisions" not in page.parts]
    assert len(pages) > 50
    for page in pages:
        assert not re.search(r'pip install "?salience|npm install salience', page.read_text("utf-8")), page


ENDS = {"mcp install": ["--dry-run"]}
"""Command that asks -> the option that ends it."""


def test_the_shell_examples_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("salience")]
    assert lines
    monkeypatch.setenv("SALIENCE_URL", str(tmp_path / "agent.db"))
    for line in lines:
        for command in line.split("&&"):
            words = shlex.split(command, comments=True)[1:]
            result = invoke([*words, *ENDS.get(" ".join(words[:2]), ())])
            assert result.exit_code == 0, result.output


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([^)#]+)\)", TEXT))))
def test_links_lead_somewhere(path):
    assert (README.parent / path).exists()


def test_it_does_not_send_newcomers_to_an_index_that_has_no_release():
    [install, *_] = [block for block in blocks("sh") if "pip install" in block]
    assert install.splitlines()[-1] == "pip install ."


def test_it_fits_on_a_few_screens():
    assert len(TEXT.split()) < 900
