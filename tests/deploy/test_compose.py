"""The containers on one machine: the file keeps the specification, and the database that it makes is one to work on."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
import yaml
from compose_spec import PyOptions

from command_line import invoke
from salience.settings import Settings
from tests.postgres_server import FOLDERS, WHEEL, server
from waiting import PATIENCE

VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
PASSWORDS = {"OWNER_PASSWORD": "own'er", "APPLICATION_PASSWORD": "app"}


@pytest.fixture(scope="module")
def written(deploy):
    """Return the compose file as it stands."""
    return (deploy / "compose.yaml").read_text()


@pytest.fixture(scope="module")
def example(deploy):
    """Return the variables of .env.example."""
    lines = (deploy / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.fixture(scope="module")
def compose(written, example):
    """Return the file with the variables filled in, secrets by `x`, and its anchors followed."""
    filled = VARIABLE.sub(lambda found: example[found[1]] or "x", written)
    made = PyOptions(apply_merge=True).from_yaml(filled)
    made.validate()
    return made.to_dict()


def test_the_example_names_each_variable_and_no_other(written, example):
    assert {found[1] for found in VARIABLE.finditer(written)} == set(example)


def test_what_has_no_value_in_the_example_has_to_be_given(written, example):
    assert {found[1] for found in VARIABLE.finditer(written) if found[2] == "?"} == {
        name for name, value in example.items() if not value
    }
    assert {found[1]: found[3] for found in VARIABLE.finditer(written) if found[2] == "-"} == {
        name: value for name, value in example.items() if value
    }


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("service_healthy", "service_well", "service_well"),
        ("5s", "5 min", " min"),
        ("read_only", "readonly", "readonly"),
    ],
)
def test_the_specification_refuses_what_is_wrong(written, right, wrong, said):
    filled = VARIABLE.sub("127.0.0.1:1", written)
    PyOptions(apply_merge=True).from_yaml(filled)
    with pytest.raises(ValueError, match=said):
        PyOptions(apply_merge=True).from_yaml(filled.replace(right, wrong))


def test_the_server_waits_for_the_tables_and_these_for_the_database(compose):
    services = compose["services"]
    assert services["salience"]["depends_on"] == {"upgrade": {"condition": "service_completed_successfully"}}
    assert services["upgrade"]["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert services["db"]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", ["salience", "upgrade"])
def test_a_container_of_ours_may_do_little(compose, name):
    service = compose["services"][name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["tmpfs"] == ["/tmp"]  # noqa: S108


def test_the_files_of_imports_are_on_disk(compose):
    assert compose["services"]["salience"]["volumes"] == ["data:/data"]


def test_the_server_is_reached_from_this_machine_alone_and_the_database_from_nowhere(compose, example):
    assert example["LISTEN"].startswith("127.0.0.1:")
    assert "ports" not in compose["services"]["db"]
    assert compose["services"]["db"]["networks"] == ["inside"]
    assert compose["networks"]["inside"]["internal"]


def test_the_server_has_time_to_end_what_it_does(written):
    service = yaml.safe_load(written)["services"]["salience"]
    grace = int(service["stop_grace_period"].removesuffix("s"))
    assert grace > service["environment"]["SALIENCE_SERVER_SHUTDOWN"] == Settings().server_shutdown


def test_only_the_upgrade_works_as_the_owner(compose):
    urls = {name: of["environment"]["SALIENCE_URL"] for name, of in compose["services"].items() if name != "db"}
    assert urls == {
        "upgrade": "postgresql://salience_owner:x@db/memory",
        "salience": "postgresql://agents:x@db/memory",
    }


@pytest.fixture(scope="module")
def made(deploy):
    """Return a server on which init.sql was run by psql, as the image of PostgreSQL runs it."""
    home = next(iter(find_spec(WHEEL).submodule_search_locations))
    psql = Path(home) / FOLDERS[18] / "bin" / "psql"
    with server(settings={"fsync": False}) as running:
        command = [psql, "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--file", deploy / "postgres" / "init.sql"]
        given = {**os.environ, **PASSWORDS}
        subprocess.run([*command, running.dsn()], check=True, capture_output=True, timeout=PATIENCE, env=given)
        yield running


def run(dsn, *arguments, code=0):
    result = invoke(["--store", dsn, "--embedder", "static", *arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.slow
def test_the_database_is_made_upgraded_by_its_owner_and_worked_on_by_the_application(made, compose):
    owner, agents = made.dsn("memory", "salience_owner"), made.dsn("memory", "agents")
    assert "has no tables yet" in run(agents, "db", "status", code=1)
    run(agents, "db", "upgrade", code=1)
    run(owner, *compose["services"]["upgrade"]["command"])
    assert "works as agents" in run(agents, "db", "status")
    run(agents, "stats")
    assert run(agents, "keys", "create", "--right", "read").startswith("sal_")


def test_each_user_has_the_password_that_the_environment_gave(made):
    with psycopg.connect(made.dsn()) as connection:
        stored = dict(connection.execute("SELECT rolname, rolpassword FROM pg_authid WHERE rolcanlogin").fetchall())
    assert stored["salience_owner"].startswith("SCRAM-SHA-256$")
    assert stored["agents"].startswith("SCRAM-SHA-256$")
    assert stored["agents"] != stored["salience_owner"]
