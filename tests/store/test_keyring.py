"""Every keyring passes the contract, in memory, in a file and on a server; handles see each other's changes."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import psycopg
import pytest

import salience
from salience import compose
from salience.errors import NotAStoreError, StoreError
from salience.server import auth as access
from salience.store.keyring import MemoryKeyring
from tests.contract.doubles import PlantedEmbedder
from tests.contract.keyring_contract import HOUR, KeyringContract, key
from tests.contract.memories import NOW

ELSEWHERE = """
import sys
from salience import compose
from salience.server import auth as access
from tests.contract.memories import NOW
keyring = compose.keyring(sys.argv[1])
token = sys.stdin.readline().strip()
while token:
    print(access.verify_key(keyring, token, NOW), flush=True)
    token = sys.stdin.readline().strip()
made, key = access.create_key("theirs", ["write"], {}, None, None, NOW)
keyring.add(key)
print(made, flush=True)
keyring.close()
"""


class TestMemoryKeyring(KeyringContract):
    @pytest.fixture
    def keyring(self):
        with closing(MemoryKeyring()) as keyring:
            yield keyring


class TestSQLiteKeyring(KeyringContract):
    @pytest.fixture
    def keyring(self, tmp_path):
        with closing(compose.keyring(tmp_path / "memory.db")) as keyring:
            yield keyring


class TestPostgresKeyring(KeyringContract):
    @pytest.fixture
    def keyring(self, tables):
        with closing(compose.keyring(tables)) as keyring:
            yield keyring


class TestPostgresKeyringAsACaretaker(KeyringContract):
    @pytest.fixture
    def keyring(self, as_caretaker):
        with closing(compose.keyring(as_caretaker)) as keyring:
            yield keyring


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.slow)])
def place(request, tmp_path):
    return str(tmp_path / "memory.db") if request.param == "file" else request.getfixturevalue("tables")


def test_a_key_in_memory_is_of_its_keyring_alone():
    compose.keyring(":memory:").add(key(1))
    assert compose.keyring(":memory:").is_empty()


def test_other_handles_and_processes_see_at_once_what_is_added_and_revoked(place):
    with closing(compose.keyring(place)) as one, closing(compose.keyring(place)) as other:
        token, made = access.create_key("t", ["read"], {}, None, None, NOW)
        command = [sys.executable, "-W", "error", "-c", ELSEWHERE, place]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

            def ask(line):
                process.stdin.write(f"{line}\n")
                process.stdin.flush()
                return process.stdout.readline().strip()

            assert ask(token) == "None"
            one.add(made)
            assert access.verify_key(other, token, NOW).name == made.prefix
            assert "tenant='t'" in ask(token)
            one.revoke(made.prefix, NOW)
            assert access.verify_key(other, token, NOW) is None
            assert ask(token) == "None"
            theirs = ask("")
        assert process.returncode == 0
        assert access.verify_key(one, theirs, NOW).tenant == "theirs"


def test_keys_and_memories_share_a_store(place, clock):
    with (
        salience.connect(place, embedder=PlantedEmbedder(), clock=clock) as memory,
        closing(compose.keyring(place)) as keyring,
    ):
        receipt = memory.remember("The crocus blooms")
        keyring.add(key(1))
        memory.forget(receipt.memory.id)
        assert keyring.find(key(1).prefix) == key(1)
        assert memory.doctor().healthy


def test_a_damaged_key_grants_nothing_and_is_found_and_mended(place):
    with closing(compose.keyring(place)) as keyring:
        keyring.add(key(1))
        keyring.add(key(2))
        damage = "UPDATE {}api_keys SET rights = '[\"all\"]' WHERE prefix = '{}'"
        if place.startswith("postgresql"):
            with psycopg.connect(place) as connection:
                connection.execute(damage.format("salience.", key(1).prefix))
        else:
            with closing(sqlite3.connect(place, isolation_level=None)) as file:
                file.execute(damage.format("", key(1).prefix))
        with pytest.raises(StoreError, match="salience doctor"):
            keyring.find(key(1).prefix)
        with compose.database(place) as database:
            (finding,) = database.check()
            assert (finding.check, key(1).prefix in finding.problem) == ("keys", True)
            assert [found.repaired for found in database.check(repair=True)] == [True]
            assert database.check() == []
        assert [each.prefix for each in keyring.list()] == [key(2).prefix]


def test_a_file_that_is_gone_is_not_made_anew(tmp_path):
    file = tmp_path / "memory.db"
    with closing(compose.keyring(file)) as keyring:
        file.rename(tmp_path / "moved.db")
        with pytest.raises(StoreError, match="moved, removed or replaced"):
            keyring.is_empty()
    assert not file.exists()


def test_a_file_of_something_else_is_refused(tmp_path):
    file = tmp_path / "memory.db"
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE t (x)")
    with pytest.raises(NotAStoreError):
        compose.keyring(file)


def test_a_tenant_sees_its_own_keys_alone_on_a_server(tables, as_application):
    with closing(compose.keyring(tables)) as keyring:
        keyring.add(key(1, tenant="a"))
        keyring.add(key(2, tenant="b", expires_at=NOW + HOUR))
    asked = "SELECT prefix FROM salience.api_keys ORDER BY prefix"
    with psycopg.connect(as_application) as connection:
        assert connection.execute(asked).fetchall() == []
        connection.execute("SET LOCAL salience.tenant = 'b'")
        assert connection.execute(asked).fetchall() == [(key(2).prefix,)]
