"""The Dockerfile: what it copies is there and let in, it runs as a user, and its health check tells sick from well."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from salience.cli import app
from waiting import PATIENCE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def steps(deploy):
    """Return the instructions of the Dockerfile as (word, rest), each on one line."""
    text = "\n".join(line for line in (deploy / "Dockerfile").read_text().splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", text)
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def of(steps, word):
    return [rest for name, rest in steps if name == word]


def test_what_is_copied_is_there_and_nothing_else_is_let_in(steps, root):
    copied = {name for rest in of(steps, "COPY") if not rest.startswith("--from") for name in rest.split()[:-1]}
    assert copied
    assert all((root / name).exists() for name in copied)
    lines = [line for line in (root / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == copied


def test_the_extras_are_those_of_the_package(steps, root):
    (extras,) = (rest.removeprefix("EXTRAS=").split(",") for rest in of(steps, "ARG"))
    assert set(extras) <= set(tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def test_python_is_one_that_the_package_names(steps, root):
    images = {rest.split()[0] for rest in of(steps, "FROM")}
    (version,) = {re.fullmatch(r"python:(\d\.\d+)(-slim)?@sha256:[0-9a-f]{64}", image)[1] for image in images}
    classifiers = tomllib.loads((root / "pyproject.toml").read_text())["project"]["classifiers"]
    assert f"Programming Language :: Python :: {version}" in classifiers


def test_the_lock_has_a_hash_of_every_package_that_the_image_and_its_build_need(steps, root):
    project = tomllib.loads((root / "pyproject.toml").read_text())
    (extras,) = (rest.removeprefix("EXTRAS=").split(",") for rest in of(steps, "ARG"))
    optional = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *(one for extra in extras for one in optional[extra])]
    for file, requirements in (("", wanted), ("-build", project["build-system"]["requires"])):
        lines = (root / "deploy" / f"requirements{file}.txt").read_text().replace("\\\n", "").splitlines()
        assert all(re.search(r"==\S+ .*--hash=sha256:[0-9a-f]{64}", line) for line in lines)
        locked = {canonicalize_name(name): version for name, version in (
            re.match(r"([^=]+)==(\S+)", line).groups() for line in lines
        )}  # fmt: skip
        for requirement in map(Requirement, requirements):
            assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)], prereleases=True)
    installs = [rest for rest in of(steps, "RUN") if "--requirement" in rest]
    assert [rest.count("--require-hashes") == rest.count("--requirement ") for rest in installs] == [True]


def test_it_runs_as_a_user_by_number_and_starts_the_command_itself(steps):
    assert of(steps, "USER") == ["10001:10001"]
    assert json.loads(of(steps, "ENTRYPOINT")[0]) == ["salience"]
    assert json.loads(of(steps, "CMD")[0]) == ["serve", "--host", "0.0.0.0"]  # noqa: S104


def test_the_command_that_it_starts_is_there(steps):
    name = json.loads(of(steps, "CMD")[0])[0]
    command = typer.main.get_command(app).commands[name]
    assert "--host" in [option for parameter in command.params for option in parameter.opts]


def test_what_it_writes_goes_to_the_volume(steps):
    given = dict(pair.split("=", 1) for pair in of(steps, "ENV")[0].split())
    assert json.loads(of(steps, "VOLUME")[0]) == ["/data"] == [given["TMPDIR"]]
    assert given["SALIENCE_URL"].startswith("/data/")


class Health(BaseHTTPRequestHandler):
    """Answers /healthz with the status that its server has."""

    def do_GET(self):
        self.send_response(self.server.status if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


def checked(steps, port):
    """Return the exit code of the health check, asked of a port."""
    python, flag, code = json.loads(of(steps, "HEALTHCHECK")[0].partition("CMD ")[2])
    assert (python, flag) == ("python", "-c")
    assert code.count("8484") == of(steps, "EXPOSE").count("8484") == 1
    command = [sys.executable, flag, code.replace("8484", str(port))]
    return subprocess.run(
        command, capture_output=True, timeout=PATIENCE, env={"http_proxy": "http://127.0.0.1:9"}
    ).returncode


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (404, 1)])
def test_the_health_check_tells_a_server_that_is_well_from_others(steps, status, code):
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        server.status = status
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        assert checked(steps, server.server_port) == code
        answering.join()


def test_the_health_check_fails_where_nobody_listens(steps):
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        port = server.server_port
    assert checked(steps, port) == 1
