"""The keys of a server on the command line: made and shown once, listed, taken back."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from salience import compose
from salience.records import Grant
from salience.server import auth as access


@pytest.fixture
def granted(tmp_path):
    """Return a function from a token to what it grants now."""

    def granted(token):
        with closing(compose.keyring(tmp_path / "agent.db")) as keyring:
            return access.verify_key(keyring, token, datetime.now(UTC))

    return granted


def test_a_pipe_gets_the_token_alone_and_a_person_is_reported_to_keep_it(run, granted):
    token = run("keys", "create", "--right", "read").stdout.removesuffix("\n")
    assert granted(token) == Grant(tenant="default", rights=["read"], name=token.split("_")[1])
    shown = run("keys", "create", "--right", "read", terminal=True).stdout
    assert granted(shown.split()[0]) is not None
    assert "shown only once" in shown


def test_every_option_says_what_the_key_grants(run_json, granted):
    options = ["--environment", "e", "--project", "p", "--user", "u", "--agent", "a", "--tenant", "t"]
    made = run_json(
        "keys", "create", "--right", "write", "--right", "read", *options, "--note", "Ann's", "--expires", "90d"
    )
    bound = {"environment": "e", "project": "p", "user_id": "u", "agent_id": "a"}
    assert granted(made["token"]) == Grant(tenant="t", rights=["read", "write"], bound=bound, name=made["prefix"])
    assert (made["note"], made["status"], made["bound"]) == ("Ann's", "live", bound)
    assert datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"]) == timedelta(days=90)


def test_a_list_shows_all_keys_and_no_secret(run, run_json):
    first = run_json("keys", "create", "--right", "read", "--right", "write", "--user", "u", "--note", "a\u202eb")
    second = run_json("keys", "create", "--right", "admin", "--tenant", "t", "--expires", "1h")
    run("keys", "revoke", first["prefix"])
    lines = [line.split("\t") for line in run("keys", "list").stdout.splitlines()]
    created, expires = (second[name][:19] + "+00:00" for name in ("created_at", "expires_at"))
    assert lines[0][:5] == [first["prefix"], "default", "read,write", "user:u", "revoked"]
    assert lines[0][6:] == ["never", "a\\u202eb"]
    assert lines[1] == [second["prefix"], "t", "admin", "-", "live", created, expires, "-"]
    result = run_json("keys", "list")
    assert [key["status"] for key in result] == ["revoked", "live"]
    assert result[1] == {name: value for name, value in second.items() if name != "token"}
    assert [key["prefix"] for key in run_json("keys", "list", "--tenant", "t")] == [second["prefix"]]
    everything = json.dumps(result) + run("keys", "list").stdout + run("keys", "list", terminal=True).stdout
    for token in (first["token"], second["token"]):
        assert token.rpartition("_")[2] not in everything
        assert "digest" not in everything


def test_a_key_is_taken_back_by_its_prefix_or_its_token(run, granted):
    tokens = [run("keys", "create", "--right", "read").stdout.strip() for _ in range(2)]
    assert run("keys", "revoke", tokens[0].split("_")[1]).stdout.startswith(f"revoked {tokens[0].split('_')[1]} of ")
    assert granted(tokens[0]) is None
    assert granted(tokens[1]) is not None
    assert tokens[1] not in run("keys", "revoke", tokens[1]).stdout
    assert granted(tokens[1]) is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["create"], "Give at least one of: read, write, admin."),
        (["create", "--right", "own"], "Choose one of: admin, read, write."),
        (["create", "--right", "read", "--project", "*"], "Leave it out"),
        (["create", "--right", "read", "--expires", "soon"], "such as '24h'"),
        (["revoke", "nobody"], "keys list shows them"),
    ],
)
def test_an_invalid_key_is_reported_with_what_to_do(run, words, told):
    run("keys", "create", "--right", "read")
    assert told in run("keys", *words, code=2).stderr
    assert len(run("keys", "list").stdout.splitlines()) == 1


def test_no_store_is_made_to_look_for_keys(run, tmp_path):
    for words in (["list"], ["revoke", "x"]):
        assert "does not exist. Check the path" in run("keys", *words, code=1).stderr
    assert not (tmp_path / "agent.db").exists()


def test_a_change_accepts_an_idempotency_key_and_a_version(run, run_json, stored):
    first = run_json(
        "update", stored.alice, "--importance", "0.9", "--key", "k", "--if-version", "1", "--user", "alice"
    )
    again = run_json(
        "update", stored.alice, "--importance", "0.9", "--key", "k", "--if-version", "1", "--user", "alice"
    )
    assert again == first
    assert (
        "not at 1; nothing was written"
        in run("forget", stored.alice, "--if-version", "1", "--user", "alice", code=1).stderr
    )
    for _ in range(2):
        assert run_json("forget", stored.alice, "--key", "l", "--user", "alice")["status"] == "forgotten"
    for _ in range(2):
        assert run_json("restore", stored.alice, "--key", "m", "--user", "alice")["memory"]["version"] == 4
