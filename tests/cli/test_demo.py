"""The demo with the real model: what it claims can be seen, and it is the same every day."""

from __future__ import annotations

import shlex

import pytest
from rich.console import Console

from command_line import invoke
from salience.cli.demo import LEGEND, NEXT, _lines, _view
from salience.evaluate import sample

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return sample.demo(tmp_path_factory.mktemp("demo") / "demo.db", every=True)


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    return sample.demo(tmp_path_factory.mktemp("screen") / "demo.db")


def test_the_default_asks_few_questions_and_cuts_no_memory(screen):
    assert [one.asked for one in screen.rounds] == list(sample.questions()[: sample.first_screen()])
    assert not any(line.endswith("…") for line in _lines(screen, NEXT))
    assert all(len(answer) <= sample.LIMIT - 1 for one in screen.rounds for answer in one.answers)


def test_every_query_runs_under_every_profile(played):
    assert [one.asked for one in played.rounds] == list(sample.questions())
    for one in played.rounds:
        assert [answer.profile for answer in one.answers] == list(sample.PROFILES)
        assert all(len(answer) <= sample.LIMIT for answer in one.answers)


def test_the_clock_is_at_the_sample_s_instant(played):
    assert played.now == sample.now()
    drafts = [memory.draft for memory in sample.memories()]
    assert played.stats.memories == sum(one.ttl is None or one.created_at + one.ttl > sample.now() for one in drafts)


def test_the_profiles_part_on_every_question(played):
    for one in played.rounds:
        firsts = {answer[0].memory.id for answer in one.answers if answer.hits}
        orders = {tuple(hit.memory.id for hit in answer) for answer in one.answers}
        assert len(firsts) > 1 or len(orders) > 2


def test_plain_lines_fit_and_tell_why(played):
    printed = list(_lines(played, NEXT))
    assert max(map(len, printed)) <= 100
    text = " ".join(" ".join(printed).split())
    for one in played.rounds:
        assert one.asked.question in text
        assert " ".join(one.asked.shows.split()) in text
    assert printed[-1].startswith("  salience recall")


def test_memories_are_shown_whole(played):
    printed = " ".join(" ".join(_lines(played, NEXT)).split())
    for word in ("Gruvbox", "headaches."):
        assert word in printed
    assert "…" not in printed


@pytest.mark.parametrize("width", [100, 120])
def test_on_a_terminal_no_cell_is_cut(played, width):
    console = Console(width=width, force_terminal=True, color_system=None, record=True)
    with console.capture() as captured:
        console.print(_view(played, NEXT))
    printed = captured.get()
    assert max(len(line.rstrip()) for line in printed.splitlines()) <= width
    for one in played.rounds:
        for answer in one.answers:
            for rank, hit in enumerate(answer, 1):
                assert f"{rank} {hit.score:.2f}" in printed
    assert LEGEND.format(limit=played.limit).split(".")[0] in printed


def test_the_command_leaves_no_store_behind(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert invoke(["demo"]).exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_confidence_is_beside_each_question(screen):
    printed = [line for line in _lines(screen, NEXT) if "confidence 0." in line]
    assert len(printed) == len(screen.rounds)
    for line, one in zip(printed, screen.rounds, strict=True):
        best = one.answers[0]
        assert f"confidence {best[0].confidence:.2f}" in line
        assert line.endswith(f": {best[0].verdict}")


def test_a_kept_sample_can_be_asked_and_is_not_written_over(tmp_path):
    file = str(tmp_path / "my demo.db")
    last = invoke(["demo", "--keep", file]).stdout.splitlines()[-2:]
    assert shlex.split(last[0]) == ["salience", "ui", file]
    asked = invoke(shlex.split(last[1])[1:])
    assert "swimming" in asked.stdout
    again = invoke(["demo", "--keep", file])
    assert (again.exit_code, "Name a new file" in again.stderr) == (2, True)
