"""What recall and the other reading commands show."""

from __future__ import annotations

import re
import time

import pytest
import typer

from salience.cli import app

BAR = re.compile(r"[█░]+")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def hits(result):
    """Return the tab-separated values of each line that is no comment."""
    return [line.split("\t") for line in result.stdout.splitlines() if not line.startswith("#")]


def plain(result):
    return ANSI.sub("", result.stdout)


def test_a_piped_hit_is_rank_score_age_id_scope_parts_and_the_whole_text(run, stored):
    first, second = hits(run("recall", "query", "--user", "alice", "--profile", "zeromemory"))
    assert first[0] == "1"
    assert float(first[1]) == pytest.approx(0.5 * 0.9 + 0.3 * 0.75 + 0.2, abs=1e-3)
    assert re.fullmatch("[0-9]+[smh]", first[2])
    assert first[3:5] == [stored.alice, "user:alice"]
    assert first[5] == "similarity=0.450 importance=0.225 recency=0.200"
    assert first[6] == stored.text
    assert second[6] == stored.other


def test_factors_are_reported_from_summands(run, stored):
    line = hits(run("recall", "query", "--user", "alice", "--profile", "mememory"))[0]
    assert line[5].startswith("similarity=x0.900 scope_weight=x0.800 weight=x1.000 temporal_decay=x1.0")


def test_the_head_shows_profile_intent_exactness_and_milliseconds(run, stored):
    head = run("recall", "query of the latest", "--profile", "memorysync", "--explain").stdout.splitlines()[0]
    assert re.match(r"# \d memor(y|ies); profile memorysync; intent time \(latest\); exact; ", head)
    for step in ("need", "embed", "gather", "rank", "fetch", "touch"):
        assert re.search(rf"{step} \d+\.\d", head)


def test_the_head_of_a_plain_recall_counts_the_memories_and_leaves_out_how_they_were_found(run, stored):
    head = run("recall", "query", "--user", "alice").stdout.splitlines()[0]
    assert re.fullmatch(r"# \d memories; profile salience; \d+\.\d ms with loading the model", head)


def test_the_time_that_a_query_names_is_reported_below_the_head(run, run_json, stored):
    arguments = ["recall", "query: who was it before the move to \u202eOslo?", "--user", "alice", "--min-score", "0"]
    printed = run(*arguments).stdout
    line = 'time "before the move to \\u202eOslo": before "the move to \\u202eOslo" was mentioned'
    assert printed.splitlines()[1] == f"# {line}"
    assert line in [shown.rstrip() for shown in plain(run(*arguments, terminal=True)).splitlines()]
    assert run_json(*arguments)["intent"]["time"]["relation"] == "before"
    arguments[1] = "query: who was it yesterday?"
    now = ["--now", "2026-05-01T12:00:00Z"]
    assert run(*arguments, *now).stdout.splitlines()[1] == '# time "yesterday": from 2026-04-30 until 2026-05-01 UTC'
    assert run_json(*arguments, *now)["intent"]["time"]["start"] == "2026-04-30T00:00:00+00:00"
    assert not any(line.startswith("# time") for line in run("recall", "query", "--user", "alice").stdout.splitlines())


def test_the_head_shows_the_words_that_were_corrected(run, run_json, stored):
    run("remember", "The garden needs water", "--user", "alice")
    arguments = ["recall", "query: gardem", "--user", "alice"]
    assert "; searched for 'garden' instead of 'gardem'; " in run(*arguments).stdout.splitlines()[0]
    assert run_json(*arguments)["corrected"] == {"gardem": "garden"}


def test_json_has_the_names_of_the_api(run_json, stored):
    found = run_json("recall", "query", "--user", "alice")
    assert found.keys() == {
        "hits", "profile", "intent", "exact", "degraded", "timings", "reranker", "confident", "out_of_scope",
        "corrected", "emptied_by", "verdict",
    }  # fmt: skip
    hit = found["hits"][0]
    assert hit.keys() == {
        "memory", "score", "score_detail", "via", "absorbed", "rerank", "weak", "confidence", "verdict",
    }  # fmt: skip
    assert hit["memory"]["id"] == stored.alice
    assert hit["memory"]["created_at"].endswith("+00:00")
    assert hit["memory"]["scope"] == {"environment": "default", "user_id": "alice"}
    assert hit["score_detail"]["parts"]["similarity"].keys() == {"raw", "weight", "contribution", "combine"}


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("words", [["recall", "query"], ["list"], ["stats"]])
def test_memories_of_another_scope_are_shown_with_the_option_that_shows_them(run, stored, words, terminal):
    run("remember", "Deploy on Friday", "--user", "bob b", "--project", "atlas")
    lines = [line.strip().removeprefix("# ") for line in run(*words, terminal=terminal).stdout.splitlines()]
    assert "2 memories of user 'alice' are not in view; add --user alice" in lines
    text = "1 memory of project 'atlas' and user 'bob b' is not in view; add --project atlas --user 'bob b'"
    assert text in " ".join(lines)
    assert "alice" not in run(*words, "--user", "bob b", terminal=terminal).output


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("words", [["recall", "query"], ["list"]])
def test_the_options_that_leave_out_every_memory_are_named(run, stored, words, terminal):
    given = (*words, "--user", "alice", "--tag", "none", "--kind", "none")
    lines = [line.strip().removeprefix("# ") for line in run(*given, terminal=terminal).stdout.splitlines()]
    assert "--tag and --kind leave out every memory in view" in lines


def test_an_empty_context_tells_of_other_scopes_on_standard_error(run, stored):
    result = run("context", "query")
    assert result.stdout == ""
    assert result.stderr == "2 memories of user 'alice' are not in view; add --user alice\n"


def test_explain_shows_arithmetic_that_gives_the_score(run, stored):
    printed = run("recall", "query", "--user", "alice", "--profile", "memorysync", "--explain").stdout
    expression, result = re.search(r"#    (\([\d. +]+\) x [\d.]+) = ([\d.]+)", printed).groups()
    summed, factor = expression.split(" x ")
    assert sum(map(float, summed.strip("()").split(" + "))) * float(factor) == pytest.approx(float(result), abs=5e-6)
    assert re.search(r"similarity +0\.900000 +0\.700 +\+ 0\.630000", printed)


def test_memories_are_listed_by_their_fact(run, run_json, stored):
    run("remember", "Deploy on Friday", "--user", "alice", "--fact-key", "team.deploy_day")
    found = run_json("list", "--user", "alice", "--fact-key", "team.deploy_day")
    assert [memory["content"] for memory in found["memories"]] == ["Deploy on Friday"]


def test_the_filters_of_recall_are_the_api_s(run, run_json, stored):
    run("remember", "Deploy on Friday", "--user", "alice", "--kind", "rule", "--tag", "ops", "--tier", "semantic")
    for option in (["--kind", "rule"], ["--tag", "ops"], ["--tier", "semantic"]):
        found = run_json("recall", "query", "--user", "alice", *option)
        assert [hit["memory"]["content"] for hit in found["hits"]] == ["Deploy on Friday"]
    assert len(run_json("recall", "query", "--user", "alice", "--limit", "1")["hits"]) == 1
    assert run_json("recall", "query", "--user", "alice", "--min-score", "99")["hits"] == []
    assert run_json("recall", "query", "--user", "alice", "--until", "2020-01-01T00:00:00Z")["hits"] == []
    assert len(run_json("recall", "query", "--user", "alice", "--since", "2020-01-01T00:00:00Z")["hits"]) == 3
    assert run_json("recall", "query", "--user", "alice", "--from-session", "monday")["hits"] == []


def test_further_questions_are_answered_beside_each_under_its_own(run, run_json, stored):
    asking = ("recall", "query", "--also", "query\ttoo", "--user", "alice", "--dry-run")
    alone = run_json("recall", "query", "--user", "alice", "--dry-run")
    assert [found["hits"] for found in run_json(*asking)["recalls"]] == [alone["hits"]] * 2
    lines = run(*asking).stdout.splitlines()
    assert [line for line in lines if line.startswith("# question: ")] == [
        "# question: query",
        r"# question: query\ttoo",
    ]
    assert sum(line.startswith("1\t") for line in lines) == 2
    shown = ANSI.sub("", run(*asking, terminal=True).stdout)
    assert shown.index("query\n") < shown.index("made of") < shown.index("too")
    assert shown.count("made of") == 2


def test_a_profile_before_the_command_holds_unless_the_command_names_one(run_json, stored):
    assert run_json("--profile", "cmm", "recall", "query")["profile"] == "cmm"
    assert run_json("--profile", "cmm", "recall", "query", "--profile", "memlayer")["profile"] == "memlayer"
    assert run_json("graph-recall", "query")["profile"] == "zeromemory"
    assert run_json("--profile", "memorysync", "graph-recall", "query")["profile"] == "memorysync"


def test_bars_are_as_long_as_the_scores(run, stored):
    lines = run("recall", "query", "--user", "alice", "--profile", "zeromemory", terminal=True).stdout.splitlines()
    scores = [float(found[1]) for line in lines if (found := re.search(r"^ *\d+ +(\d\.\d{3})", ANSI.sub("", line)))]
    bars = [line.count("█") for line in lines if line.count("█") > 3]
    assert bars[0] == 20
    assert bars[1] == round(20 * scores[1] / scores[0])


def test_losses_of_factors_are_shaded_and_in_the_legend(run, stored):
    printed = plain(run("recall", "query", "--user", "alice", "--profile", "mememory", terminal=True))
    first = BAR.search(printed)[0]
    assert len(first) == 20
    assert first.count("█") == round(20 * 0.9 * 0.8)
    assert "█ score" in printed
    assert "░ similarity takes" in printed
    assert "░ scope_weight takes" in printed


def test_without_colour_segments_are_letters(run, stored):
    result = run("recall", "query", "--user", "alice", "--profile", "mememory", terminal=True, env={"NO_COLOR": "1"})
    assert re.search(r"#{14}s+c+", result.stdout)
    assert "s similarity takes   c scope_weight takes" in plain(result)


def test_empty_results_are_reported(run, empty):
    printed = run("recall", "query", terminal=True).stdout
    assert "Nothing found." in printed
    assert "--min-score 0" in printed
    assert "--user" in printed
    assert "--user" in run("stats", terminal=True).stdout
    assert "No memories here." in run("list", terminal=True).stdout


def test_a_piped_recall_says_that_nothing_was_found(run, empty):
    lines = run("recall", "query").stdout.splitlines()
    assert all(line.startswith("# ") for line in lines)
    assert lines[-2].startswith("# Nothing found. Under a profile with a minimum score or a cut-off, --min-score 0")
    assert lines[-1].startswith("# To see memories of a project, user or agent, pass --project")


def test_a_piped_recall_that_found_nothing_says_where_memories_are(run, empty):
    run("remember", "Alice sings", "--user", "alice")
    lines = run("recall", "query").stdout.splitlines()
    assert lines[-2] == "# Nothing found in this scope."
    assert "--user alice" in lines[-1]


def test_a_profile_shows_its_toml(run, run_json, written):
    own = written(
        "mine.toml",
        'name = "mine"',
        'summary = "s"',
        'combine = "sum"',
        'stages = ["score", "trim"]',
        "[signal.similarity]",
    )
    assert 'name = "mine"' in run("profiles", "show", own).stdout
    assert "# CMM, Scoring Formula" in run("profiles", "show", "cmm").stdout
    checked = run("profiles", "check", own).stdout
    assert checked.startswith(f"{own}: ok. mine = 1 similarity; stages score, trim")
    assert "without the stage 'expired', it returns memories past their ttl" in checked
    assert "without" not in run("profiles", "check", "zeromemory").stdout
    assert run_json("profiles", "list")[0]["name"] == "salience"


HIDDEN = {"\u200b": "\\u200b", "\U000e0041": "\\U000e0041", "\u202e": "\\u202e"}


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("command", [["recall", "query"], ["list"], ["get", "ID"], ["history", "ID"]])
def test_hidden_characters_of_a_memory_are_escaped(run, command, terminal):
    made = run("remember", f"tea{''.join(HIDDEN)}", "--tag", "plain").stdout.split("\t")[1].strip()
    words = [made if word == "ID" else word for word in command]
    words += ["--min-score", "0"] if "recall" in words else []
    printed = run(*words, terminal=terminal, env={"COLUMNS": "240"}).stdout
    assert "tea" + "".join(HIDDEN.values()) in printed
    assert not any(sign in printed for sign in HIDDEN)


COMMANDS = typer.main.get_command(app).commands


@pytest.mark.parametrize("path", [[name] for name in COMMANDS] + [["mcp", "install"], ["keys", "create"]])
def test_help_of_a_command_is_the_command_s_own(run, path):
    printed = run("help", *path).stdout
    assert f"Usage: salience {' '.join(path)} " in printed
    summary = " ".join(COMMANDS[path[0]].help.split("\n\n")[0].split())
    assert summary in " ".join(printed.split()) or len(path) > 1
    assert "--help" in printed


def test_help_of_a_command_that_is_not_there_lists_those_that_are(run):
    assert "graph-recall" in run("help", "recal", code=2).stderr
    assert "install" in run("help", "mcp", "instal", code=2).stderr


@pytest.fixture
def tokyo(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_times_after_an_option_are_local_and_may_be_short(run_json, run, tokyo):
    run("remember", "Deploy on Friday", "--created-at", "2026-05-02T01:30")
    (kept,) = run_json("list")["memories"]
    assert kept["created_at"] == "2026-05-01T16:30:00+00:00"
    for since, count in (("2026-05-02", 1), ("2026-05-02T02:00", 0), ("2026-05", 1), ("2026-06", 0)):
        assert len(run_json("list", "--since", since)["memories"]) == count
    run("remember", "Bob drinks tea in the morning")
    for since in ("2d", "12h", "yesterday", "last week"):
        hits = run_json("recall", "query", "--since", since)["hits"]
        assert [hit["memory"]["content"] for hit in hits] == ["Bob drinks tea in the morning"]
    assert run_json("recall", "query", "--until", "1s", "--now", "2026-05-03", "--as-of", "now")["hits"]


@pytest.mark.parametrize("terminal", [False, True])
def test_an_unsure_answer_says_so_and_marks_its_hits(run, stored, terminal):
    printed = run("recall", "zebra crossing", "--user", "alice", terminal=terminal).stdout
    assert "may answer, confidence 0." in printed
    sure = run("recall", "query", "--user", "alice", terminal=terminal).stdout
    assert "No memory clearly answers this" not in sure


@pytest.mark.parametrize("terminal", [False, True])
def test_a_replaced_memory_is_marked_wherever_it_is_shown(run, run_json, terminal):
    old, new = (run_json("remember", text)["memory"] for text in ("I live in Berlin", "I moved to Lisbon"))
    mark = f"by {new['short_id']}"
    for command in (("list",), ("get", old["id"]), ("recall", "Where do I live?")):
        assert mark in " ".join(run(*command, terminal=terminal).stdout.split()), command
    run("dismiss", new["id"], old["id"])
    assert mark not in run("list", terminal=terminal).stdout
