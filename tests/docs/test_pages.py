"""Every code block of the docs runs: the blocks of a page in order, in an empty folder, with private data and home.

- `python`: all blocks of a page share one namespace; `await` is allowed.
- `sh`: lines for bash, which keeps variables and the folder from block to block. `salience` itself runs in this process
  where a line has nothing for the shell to do; `salience serve` starts a server and goes on; `pip install` and the
  like are not run, but their extras must exist.
- `console`: lines after `$ ` are run; the lines below are the expected output, if there are any. `...` matches
  anything, alone on a line any number of lines. Spaces and tabs are equal. A command may fail if the page shows its
  error. Output is that of a pipe, stdout and stderr together.
- `toml`, `json`, `jsonl`, `yaml`: must parse. Other languages are shown only.
- `title="NAME"` after the language: the block is written to that file, and not run.
- `<!-- not run: REASON -->` on the line before a fence: the block is neither run nor parsed.
- A fence inside an HTML comment runs and is not shown: for files that an example reads.

`http://127.0.0.1:8484` stands for a server on the default store of the page. It runs from the page's `salience serve`
on, or from the first block that names the address. A page that reads `$SALIENCE_API_KEY` and does not set it gets a key
with all rights. The two addresses of `POSTGRES` stand for a database of the test server: with tables, unless the page
runs `db upgrade`.

`python tests/docs/test_pages.py` counts the blocks and lists those that are not run.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from waiting import PATIENCE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ELSEWHERE = ("decisions", "integrations", "reference")
"""Folders of pages without a test here: without commands, with a test of their own, generated."""
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parts[len(ROOT.parts) + 1] not in ELSEWHERE]
SERVER = "http://127.0.0.1:8484"
POSTGRES = {
    "postgresql://agents:secret@localhost/memory": "agents",
    "postgresql://salience_owner:secret@localhost/memory": "salience_owner",
}
"""Address in a page -> role."""
ROLES = """
DO $$ BEGIN CREATE ROLE salience_app NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE salience_operator; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE salience_owner LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE agents LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
GRANT salience_app TO agents;
"""
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*) *(?P<words>.*)$")
REASON = re.compile(r"^\s*<!-- not run: (.+) -->$")
INSTALLS = re.compile(
    r"(python3? -m )?pip3? install|uv (tool install|pip install|add|sync|venv)|uvx|pipx (install|run)|npx"
)
SERVE = re.compile(r"salience( --\w+ \S+)* serve\b(?!.*--help)")
SHELL = set("|&;<>$`*?~(){}[]\\!#")
"""Characters that mean something to the shell outside quotes."""
KEEPS = """set -eu
[ ! -f "$KEPT.vars" ] || . "$KEPT.vars"
trap 'code=$?; { declare -p | grep -vE "^declare -[a-zA-Z]*[rx]"; declare -f; } >"$KEPT.vars"
env -0 >"$KEPT.env"; pwd >"$KEPT.pwd"
exit $code' EXIT
"""
"""The start of each script: what it sets is there in the next one."""


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    title: str
    reason: str
    text: str

    @property
    def kind(self) -> str:
        if self.reason:
            return "not run"
        if self.language in ("python", "sh", "console") and not self.title:
            return "run"
        return "parsed" if self.language in PARSERS or self.title else "shown"


def jsonl(text: str) -> None:
    for line in text.splitlines():
        json.loads(line)


PARSERS: dict[str, Callable[[str], Any]] = {
    "toml": tomllib.loads, "json": json.loads, "jsonl": jsonl, "yaml": lambda text: list(yaml.safe_load_all(text)),
    "python": ast.parse,
}  # fmt: skip


def blocks(text: str) -> list[Block]:
    """Return the code blocks of a page."""
    found, lines, at = [], text.splitlines(), 0
    while at < len(lines):
        opening = FENCE.match(lines[at])
        at += 1
        if not opening:
            continue
        start, end = at, re.compile(rf"^ *{opening['ticks']}`* *$")
        while at < len(lines) and not end.match(lines[at]):
            at += 1
        assert at < len(lines), f"line {start}: the fence does not end"
        body = "\n".join(line.removeprefix(opening["indent"]) for line in lines[start:at]) + "\n"
        title = re.search(r'title="([^"]+)"', opening["words"])
        reason = REASON.match(lines[start - 2]) if start > 1 else None
        language = opening["language"]
        found.append(Block(start, language, title[1] if title else "", reason[1] if reason else "", body))
        at += 1
    return found


def commands(script: str) -> list[str]:
    """Return the commands of a script: its lines, joined where bash needs the next one."""
    found, piece = list[str](), ""
    for line in script.replace("\\\n", " ").splitlines():
        if not piece and (not line.strip() or line.lstrip().startswith("#")):
            continue
        piece += line + "\n"
        checked = subprocess.run(["bash", "-n", "-c", piece], capture_output=True, check=False)
        if checked.returncode == 0 and b"here-document" not in checked.stderr:
            found.append(piece.rstrip("\n"))
            piece = ""
    return [*found, piece] if piece else found


def in_process(line: str) -> list[str] | None:
    """Return the arguments of a plain `salience` command; None if the line needs the shell or a process of its own."""
    bare = re.sub(r"'[^']*'|\"[^\"$`\\!]*\"", "", re.sub(r"(?<=\s)#[^'\"]*$", "", line))
    if not bare.startswith("salience ") or SHELL & set(bare) or re.search(r"\bmcp serve|\bhook\b|\bui\b", bare):
        return None
    try:
        return shlex.split(line, comments=True)[1:]
    except ValueError:
        return None


class FailedError(Exception):
    """A block that does not do what the page says."""


@dataclass
class Page:
    """The state of a page while its blocks run."""

    path: Path
    kept: Path
    postgres: Any = None  # a function to the server
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    addresses: dict[str, str] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)
    server: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.blocks = blocks(self.path.read_text("utf-8"))
        self.runs = "".join(block.text for block in self.blocks if block.kind == "run")
        self.loop = self.stack.enter_context(asyncio.Runner())
        self.stack.callback(self.close)

    def close(self) -> None:
        from salience.client import Client
        from salience.engine import Engine

        for value in list(self.namespace.values()):
            if isinstance(value, Engine | Client):
                value.close()
        self.server.close()

    def run(self) -> None:
        if self.postgres:
            self.make_database()
        for block in self.blocks:
            failure = None
            try:
                self.run_block(block)
            except FailedError as error:
                failure = error
            if failure:
                where = f"{self.path.relative_to(ROOT)}, line {block.line}"
                pytest.fail(f"{where}:\n\n{block.text}\n--- {failure}", pytrace=False)

    def run_block(self, block: Block) -> None:
        if block.kind == "not run":
            return
        if not block.language:
            raise FailedError("the block has no language; use `text` for output")
        if block.language in PARSERS and block.kind == "parsed":
            try:
                PARSERS[block.language](block.text)
            except Exception as error:
                raise FailedError(f"it does not parse as {block.language}: {error}") from None
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(self.live(block.text), "utf-8")
        elif block.language == "python":
            self.run_python(block)
        elif block.language == "sh":
            for command in commands(block.text):
                code, output = self.run_command(command)
                if code:
                    raise FailedError(f"exit code {code} of: {command}\n{output}")
        elif block.language == "console":
            self.run_console(block)

    def run_python(self, block: Block) -> None:
        source = "\n" * block.line + self.live(block.text)
        output = StringIO()
        try:
            with redirect_stdout(output), redirect_stderr(output):
                code = compile(source, str(self.path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if code.co_flags & inspect.CO_COROUTINE:
                    self.loop.run(eval(code, self.namespace))  # noqa: S307 - our own example
                else:
                    exec(code, self.namespace)  # noqa: S102 - our own example
        except BaseException:
            raise FailedError(f"{output.getvalue()}{traceback.format_exc(limit=-3)}") from None

    def run_console(self, block: Block) -> None:
        command, expected = "", list[str]()
        lines = block.text.replace("\\\n", " ").splitlines()
        assert lines[0].startswith("$ "), f"line {block.line}: a console block begins with `$ `"
        for line in [*lines, "$ "]:
            if not line.startswith("$ ") and line != "$":
                expected.append(line)
                continue
            if command:
                code, output = self.run_command(command)
                if code and not re.search(r"^salience: |^Usage: |Error", "\n".join(expected), re.MULTILINE):
                    raise FailedError(f"exit code {code} of: {command}\n{output}")
                if expected and not matches(expected, output):
                    raise FailedError(f"the output of `{command}` is\n{output}")
            command, expected = line[2:], []

    def run_command(self, command: str) -> tuple[int, str]:
        """Return the exit code and the output of a command, with the addresses of the page."""
        if INSTALLS.match(command):
            check_extras(command)
            return 0, ""
        if SERVE.match(command):
            return self.serve(shlex.split(command.rstrip("& "), comments=True)[1:])
        command = self.live(command)
        arguments = in_process(command)
        code, output = self.run_salience(arguments) if arguments else self.run_shell(command)
        for address, live in self.addresses.items():
            output = output.replace(live, address)
        return code, output

    def run_salience(self, arguments: list[str]) -> tuple[int, str]:
        from command_line import invoke

        result = invoke(arguments)
        if result.exception and not isinstance(result.exception, SystemExit):
            return 1, result.output + "".join(traceback.format_exception(result.exception))
        return result.exit_code, result.output

    def run_shell(self, script: str) -> tuple[int, str]:
        env = {**os.environ, "KEPT": str(self.kept), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        try:
            ran = subprocess.run(
                ["bash", "-c", KEEPS + script], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=PATIENCE, text=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise FailedError(
                f"after {PATIENCE:.0f} s this still runs: {script}\n{(error.output or b'').decode()}"
            ) from None
        if ran.returncode == 0:
            items = self.kept.with_suffix(".env").read_text().rstrip("\0").split("\0")
            kept = dict(item.split("=", 1) for item in items)
            os.environ.update({name: kept[name] for name in kept.keys() - {"KEPT", "PATH", "_", "SHLVL", "PWD"}})
            os.chdir(self.kept.with_suffix(".pwd").read_text().rstrip("\n"))
        return ran.returncode, ran.stdout

    def live(self, text: str) -> str:
        """Return text with the addresses of this test; start the server that the text names."""
        if SERVER in text and SERVER not in self.addresses:
            self.serve(["serve"])
        for address, live in self.addresses.items():
            text = text.replace(address, live)
        return text

    def serve(self, arguments: list[str]) -> tuple[int, str]:
        """Start the server of a command line in this process, on another port; it replaces the one before."""
        from salience.server import process
        from salience.server.app import build_app
        from servers import served

        def start(config: process.ServerConfig, ready: object = None) -> None:
            if "SALIENCE_API_KEY" in self.runs and "SALIENCE_API_KEY=" not in self.runs:
                code, output = self.run_salience(["--store", config.settings.url, "keys", "create", "--right", "admin"])
                os.environ["SALIENCE_API_KEY"] = re.search(r"sal_\w+", output)[0] if not code else output
            site = self.server.enter_context(build_app(config))
            self.addresses[SERVER] = self.server.enter_context(served(site.asgi, lifespan="on"))

        self.server.close()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(process, "run", start)
            code, output = self.run_salience([self.live(word) for word in arguments])
        if code:
            raise FailedError(f"the server does not start:\n{output}")
        return code, output

    def make_database(self) -> None:
        import psycopg

        from tests.postgres_server import fresh

        name = self.stack.enter_context(fresh(self.postgres()))
        with psycopg.connect(name, autocommit=True) as superuser:
            superuser.execute(ROLES)
            superuser.execute(f'ALTER DATABASE "{superuser.info.dbname}" OWNER TO salience_owner')
            superuser.execute("CREATE EXTENSION IF NOT EXISTS vector")
            database = superuser.info.dbname
            os.environ |= {
                "PGHOST": superuser.info.host,
                "PGPORT": str(superuser.info.port),
            }  # libpq's: short addresses
        self.addresses |= {address: f"postgresql://{role}:secret@/{database}" for address, role in POSTGRES.items()}
        if "db upgrade" not in self.runs:
            code, output = self.run_salience(["--store", f"postgresql://salience_owner@/{database}", "db", "upgrade"])
            assert not code, output


def matches(expected: list[str], output: str) -> bool:
    """Say whether an output is as a page shows it."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r".*".join(map(re.escape, " ".join(line.split()).split("..."))) + r"\n"
    plain = "".join(" ".join(line.split()) + "\n" for line in output.splitlines())
    return re.fullmatch(pattern + r"\n*", plain) is not None


def check_extras(command: str) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = {extra.strip() for found in re.findall(r"salience\[([^\]]+)\]", command) for extra in found.split(",")}
    if named - known.keys():
        raise FailedError(f"no extra of the package: {', '.join(sorted(named - known.keys()))}")


def needs(page: Path, *addresses: str) -> bool:
    found = blocks(page.read_text("utf-8"))
    return any(address in block.text for block in found if block.kind == "run" for address in addresses)


def parameters() -> Iterator[Any]:
    for page in PAGES:
        name = str(page.relative_to(ROOT).with_suffix("")).removeprefix("docs/")
        marks = [pytest.mark.slow] if needs(page, SERVER, *POSTGRES) or name in SLOW else []
        yield pytest.param(page, id=name, marks=marks)


SLOW: set[str] = {"tutorials/claude-code"}
"""Pages that take more than two seconds, beside those that need a server or PostgreSQL."""


@pytest.mark.parametrize("page", list(parameters()))
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch, request):
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    before = dict(os.environ)
    postgres = (lambda: request.getfixturevalue("postgres")) if needs(page, *POSTGRES) else None
    run = Page(page, tmp_path / "kept", postgres)
    try:
        with run.stack:
            run.run()
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.mark.parametrize(
    ("expected", "output", "same"),
    [
        (["a  b", "...", "c...e"], "a\tb\n1\n2\nc d e\n", True),
        (["a", "..."], "a\n", True),
        (["a"], "a\nb\n", False),
        (["a", "...", "c"], "a\nb\n", False),
    ],
)
def test_output_is_compared_line_by_line(expected, output, same):
    assert matches(expected, output) is same


def main() -> None:
    found = [(page.relative_to(ROOT), block) for page in PAGES for block in blocks(page.read_text("utf-8"))]
    counts = Counter(block.kind for _, block in found)
    print(", ".join(f"{counts[kind]} {kind}" for kind in ("run", "parsed", "shown", "not run")))  # noqa: T201
    for page, block in found:
        if block.reason:
            print(f"{page}:{block.line}: {block.reason}")  # noqa: T201


if __name__ == "__main__":
    main()
