"""The command `copy`: what it tells, and what it says when it cannot go on."""

import json

import pytest

from command_line import invoke
from salience import compose


@pytest.fixture
def copy(stored, tmp_path):
    """Return a function that copies the store of two memories: `copy("other.db", code=0)`."""

    def call(*args, code=0, env=None):
        shown = {"COLUMNS": "160", "FORCE_COLOR": None, "NO_COLOR": None, "TERM": "xterm", **(env or {})}
        result = invoke(["copy", *args], env=shown)
        assert result.exit_code == code, result.output
        return result

    return call


@pytest.fixture
def source(tmp_path):
    return str(tmp_path / "agent.db")


def cut_off(source, target):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compose.copy(source, target, progress=stop)


def test_a_line_for_each_tenant_and_the_sum(copy, source, tmp_path):
    result = copy(source, f"sqlite:///{tmp_path}/b.db")
    tenant, rows, checksum = result.stdout.splitlines()[0].split("\t")
    assert tenant == "default"
    assert rows == "memories=2 versions=0"
    assert len(checksum) == 12
    assert result.stdout.splitlines()[1:] == [f"copied 2 memories of 1 tenant to {tmp_path}/b.db"]
    assert result.stderr == ""


def test_json_has_the_whole_checksum_of_each_table(copy, source, tables):
    found = json.loads(copy(source, tables, "--json").stdout)
    assert list(found["tenants"]["default"]) == ["memories", "versions"]
    assert found["tenants"]["default"]["memories"]["rows"] == 2
    assert len(found["tenants"]["default"]["memories"]["checksum"]) == 64
    assert (found["written"], found["unchanged"]) == (2, 0)


def test_a_copy_that_was_cut_off_continues(copy, source, tmp_path, run):
    target = str(tmp_path / "b.db")
    cut_off(source, target)
    text = copy(source, target).stdout.splitlines()
    assert text[-1] == f"copied 0 memories of 1 tenant to {target}; 2 were there already"
    assert "Python" in run("--store", target, "list", "--user", "alice").stdout


def test_an_impossible_copy_is_refused(copy, source, tmp_path):
    assert copy(source, source, code=2).stderr.startswith("salience: target ")
    assert "--tenant" in copy(source, str(tmp_path / "c.db"), "--tenant", "nobody", code=2).stderr
    assert "does not exist" in copy(str(tmp_path / "none.db"), str(tmp_path / "c.db"), code=1).stderr


def test_a_password_is_never_shown(copy, source):
    refused = copy(source, "postgresql://me:secret@127.0.0.1:1/none", code=1, env={"SALIENCE_BUSY_TIMEOUT": "0.1"})
    assert "postgresql://127.0.0.1:1/none" in refused.stderr
    assert "secret" not in refused.output
