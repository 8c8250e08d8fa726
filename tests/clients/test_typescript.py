"""The TypeScript client: its types are those of the server's document, and it works against `salience serve`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import node_packages
import salience
import servers
from command_line import invoke
from mcp_servers import COMMAND
from node_packages import call, program
from salience.wire.errors import PROBLEMS
from tools import typescript

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients/typescript"
MANIFEST = json.loads((CLIENT / "package.json").read_text("utf-8"))
LOCK = json.loads((CLIENT / "package-lock.json").read_text("utf-8"))
PAGES = {"readme": CLIENT / "README.md", "page": ROOT / "docs/how-to/typescript.md"}
PERMISSIVE = {"MIT", "ISC", "Apache-2.0", "Python-2.0", "(MIT OR CC0-1.0)"}
KEYS = {
    "SALIENCE_API_KEY": ("--right", "admin"),
    "ALICE_KEY": ("--right", "read", "--right", "write", "--user", "alice"),
    "BOB_KEY": ("--right", "read", "--right", "write", "--user", "bob"),
    "READ_KEY": ("--right", "read"),
}
FIRST_LINES = """
import { Salience } from "salience-client";
const memory = new Salience(process.env.SALIENCE_URL, { apiKey: process.env.SALIENCE_API_KEY });
await memory.remember("Carol prefers tea in the morning", { user_id: "carol" });
const { hits } = await memory.recall("What does Carol drink?", { user_id: "carol" });
console.log(hits[0].memory.content);
await memory.erase({ user_id: "carol" });
"""
LIST_ERRORS = """
import * as all from "salience-client";
const errors = Object.entries(all).filter(([, kind]) => kind.prototype instanceof Error);
console.log(JSON.stringify(Object.fromEntries(errors.map(([name, kind]) => [name, Object.getPrototypeOf(kind).name]))));
"""


def test_its_version_and_licence_are_those_of_the_python_package():
    assert MANIFEST["version"] == LOCK["version"] == salience.__version__
    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_it_depends_on_nothing_and_is_built_by_permissive_packages():
    assert "dependencies" not in MANIFEST
    assert {one["license"] for one in LOCK["packages"].values()} <= PERMISSIVE
    assert "resolved" not in json.dumps(LOCK)  # the registry is the user's


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, built."""
    made = tmp_path_factory.mktemp("client") / "typescript"
    shutil.copytree(CLIENT, made, ignore=shutil.ignore_patterns("node_modules", "dist", "build"))
    (made / "node_modules").symlink_to(node_packages.modules(CLIENT))
    call(program("npm"), "run", "prepare", cwd=made)  # what `npm install` in a checkout runs
    return made


@pytest.fixture(scope="module")
def tarball(project: Path) -> Path:
    (packed,) = json.loads(call(program("npm"), "pack", "--json", "--ignore-scripts", cwd=project).stdout)
    modules = [
        f"dist/{name}.{ending}"
        for name in ("client", "errors", "index", "schema", "verbs")
        for ending in ("d.ts", "js")
    ]
    assert [one["path"] for one in packed["files"]] == sorted(["LICENSE", "README.md", "package.json", *modules])
    return project / packed["filename"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The URL and the keys of `salience serve`, as environment variables."""
    folder = tmp_path_factory.mktemp("store")
    store, log = str(folder / "agent.db"), folder / "log"
    keys = {}
    for name, options in KEYS.items():
        keys[name] = invoke(["--store", store, "keys", "create", *options]).stdout.strip()
    command = [COMMAND, "--store", store, "--embedder", "static", "serve", "--port", "0"]
    surroundings = {**os.environ, "SALIENCE_RECALL_LOG": "30d"}
    with log.open("w") as file, subprocess.Popen(command, env=surroundings, stderr=file) as server:
        try:
            while not (found := re.search(r'"url": ?"(http:[^"]+)"', log.read_text())):
                assert server.poll() is None, log.read_text()
                time.sleep(0.1)
            yield {**os.environ, **keys, "SALIENCE_URL": found[1]}
        finally:
            server.terminate()


@pytest.mark.slow
def test_its_types_are_those_of_the_document_of_the_server(project):
    document = json.dumps(servers.document())
    made = call(program("npm"), "run", "--silent", "generate", input=document, cwd=project).stdout
    assert made == (CLIENT / "src/schema.ts").read_text("utf-8"), "run `make client`"


def test_its_verbs_are_those_of_the_code():
    assert typescript.module() == (CLIENT / "src/verbs.ts").read_text("utf-8"), "run `make client`"


@pytest.mark.slow
def test_its_own_tests_pass_on_this_node_and_on_that_of_the_system(project, environment):
    """They include the code of the pages, and lines that must not compile."""
    for name, page in PAGES.items():
        blocks = re.findall(r"^```ts\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        code = "\n".join(blocks).replace('"https://memory.example.org"', "process.env.SALIENCE_URL!")
        (project / f"test/{name}.test.ts").write_text(code.replace('"sal_..."', "process.env.SALIENCE_API_KEY!"))
    call(program("npm"), "test", cwd=project, env=environment)
    other = shutil.which("node")
    if other is not None and not Path(other).samefile(program("node")):
        files = sorted(str(file.relative_to(project)) for file in (project / "build").glob("*.test.js"))
        call(other, "--test", *files, cwd=project, env=environment)


@pytest.mark.slow
def test_the_packed_client_works_in_an_empty_project(tarball, environment, tmp_path):
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}')
    call(program("npm"), "install", "--offline", "--no-audit", "--no-fund", str(tarball), cwd=tmp_path)
    (tmp_path / "first.js").write_text(FIRST_LINES)
    printed = call(program("node"), "first.js", cwd=tmp_path, env=environment).stdout
    assert printed == "Carol prefers tea in the morning\n"
    (tmp_path / "errors.js").write_text(LIST_ERRORS)
    found = json.loads(call(program("node"), "errors.js", cwd=tmp_path).stdout)
    bases = {kind: [base for base in kind.__mro__[1:] if base in PROBLEMS] for kind in PROBLEMS}
    assert found == {kind.__name__: base[0].__name__ if base else "Error" for kind, base in bases.items()}
