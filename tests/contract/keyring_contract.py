"""Tests that every keyring passes: subclass `KeyringContract` in your tests and override its `keyring` fixture."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from salience.errors import ConflictError, InputError, StoreError
from salience.ports import Keyring
from salience.records import ApiKey
from tests.contract.memories import NOW

HOUR = timedelta(hours=1)


def key(number: int, **values: Any) -> ApiKey:
    """Return a key made from a number; `values` are fields of it."""
    made: dict[str, Any] = {"prefix": f"{number:012x}", "digest": f"{number:064x}", "tenant": "default"}
    return ApiKey(**{**made, "rights": ("read",), "created_at": NOW, **values})


class KeyringContract:
    """The contract of the protocol `Keyring`; each test states one rule."""

    @pytest.fixture
    def keyring(self) -> Iterable[Keyring]:
        """Return an empty keyring; closed afterwards."""
        raise NotImplementedError("override the `keyring` fixture")

    def test_a_key_comes_back_as_it_went_in(self, keyring: Keyring) -> None:
        bound = {"environment": "e", "project": 'Zoë\'s "p"', "user_id": "u", "agent_id": "a"}
        moments = {"created_at": NOW + timedelta(microseconds=1), "expires_at": NOW + HOUR, "revoked_at": NOW}
        full = key(2, tenant="ä\u2028", rights=("write", "admin"), bound=bound, note="it's Ann's", **moments)
        for each in (key(1), full):
            keyring.add(each)
            assert keyring.find(each.prefix) == each
        assert list(keyring.list()) == [key(1), full]

    def test_only_the_whole_prefix_finds_a_key(self, keyring: Keyring) -> None:
        keyring.add(key(1))
        prefix = key(1).prefix
        assert [keyring.find(prefix_or_part) for prefix_or_part in (prefix[:-1], f"{prefix} ", "%", "", "'; --")] == [
            None
        ] * 5

    def test_a_prefix_is_taken_once(self, keyring: Keyring) -> None:
        keyring.add(key(1))
        keyring.revoke(key(1).prefix, NOW)
        with pytest.raises(ConflictError):
            keyring.add(key(1, tenant="other"))
        assert keyring.find(key(1).prefix) == key(1, revoked_at=NOW)

    def test_keys_are_listed_by_age_then_prefix(self, keyring: Keyring) -> None:
        made = [key(3, created_at=NOW - HOUR), key(1, tenant="other"), key(2, expires_at=NOW + HOUR)]
        for each in reversed(made):
            keyring.add(each)
        keyring.revoke(key(2).prefix, NOW)
        revoked = replace(made[2], revoked_at=NOW)
        assert list(keyring.list()) == [*made[:2], revoked]
        assert list(keyring.list("default")) == [made[0], revoked]
        assert list(keyring.list("nobody")) == []

    def test_a_key_is_revoked_once(self, keyring: Keyring) -> None:
        keyring.add(key(1))
        keyring.add(key(2))
        assert keyring.revoke(key(1).prefix, NOW + HOUR) == key(1, revoked_at=NOW + HOUR)
        assert keyring.revoke(key(1).prefix, NOW) == keyring.find(key(1).prefix) == key(1, revoked_at=NOW + HOUR)
        assert keyring.find(key(2).prefix) == key(2)
        with pytest.raises(InputError, match="prefix"):
            keyring.revoke("nobody", NOW)

    def test_it_is_empty_until_a_key_was_added(self, keyring: Keyring) -> None:
        """A revoked key counts: a server that had keys must not open to everybody."""
        assert keyring.is_empty()
        keyring.add(key(1))
        keyring.revoke(key(1).prefix, NOW)
        assert not keyring.is_empty()

    def test_many_threads_find_and_add_at_once(self, keyring: Keyring) -> None:
        seen: list[bool] = []

        def work(first: int) -> None:
            for number in range(first, first + 5):
                keyring.add(key(number))
                seen.append(keyring.find(key(number).prefix) == key(number))

        threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [True] * 20
        assert len(keyring.list()) == 20

    def test_a_closed_keyring_refuses(self, keyring: Keyring) -> None:
        keyring.close()
        for ask in (keyring.is_empty, keyring.list, lambda: keyring.find("x"), lambda: keyring.add(key(1))):
            with pytest.raises(StoreError):
                ask()
