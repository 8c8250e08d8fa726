"""Tokens of keys: how they are made, and that nothing but the token of a live key grants anything."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.errors import InputError
from salience.records import RIGHTS, ApiKey, Grant
from salience.server import auth as access
from salience.store.keyring import MemoryKeyring

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def made(**values):
    given = {"tenant": "t", "rights": ["read"], "bound": {}, "expires_at": None, "note": None, "now": NOW, **values}
    return access.create_key(**given)


def held(key):
    keyring = MemoryKeyring()
    keyring.add(key)
    return keyring


def test_a_token_has_the_grant_of_its_key():
    token, key = made(rights=["write", "read", "read"], bound={"user_id": "u", "project": "p"}, note="Ann's")
    assert token.startswith(f"sal_{key.prefix}_")
    grant = access.verify_key(held(key), token, NOW)
    assert grant == Grant(tenant="t", rights=("read", "write"), bound={"project": "p", "user_id": "u"}, name=key.prefix)
    assert list(grant.bound) == ["project", "user_id"]
    assert (key.note, key.created_at, key.status(NOW)) == ("Ann's", NOW, "live")


def test_tokens_are_unique_and_keys_do_not_contain_the_secret():
    tokens = {made()[0] for _ in range(100)}
    assert len({token.split("_")[1] for token in tokens}) == len({token.split("_")[2] for token in tokens}) == 100
    token, key = made()
    secret = token.rpartition("_")[2]
    assert len(secret) == 64
    assert secret not in repr(key)
    assert key.digest not in repr(key)
    assert secret not in (key.prefix, key.digest)


@pytest.mark.parametrize(
    ("right", "may"),
    [("read", {"read"}), ("write", {"write"}), ("admin", {"read", "write", "admin"})],
)
def test_admin_holds_all_rights_and_write_does_not_hold_read(right, may):
    grant = Grant(tenant="t", rights=[right], name="n")
    assert {arguments for arguments in RIGHTS if grant.may(arguments)} == may
    with pytest.raises(InputError, match="right 'own' is unknown"):
        grant.may("own")


def test_only_the_exact_token_is_valid():
    token, key = made()
    keyring, other = held(key), made()[0]
    wrong = [
        "", "sal_", token[:-1], token + "0", token.upper(), f" {token}", f"{token}\n", token.removeprefix("sal_"),
        f"sal_{key.prefix}_{key.digest}", other, f"sal_{key.prefix}_{other.rpartition('_')[2]}",
        f"sal_{other.split('_')[1]}_{token.rpartition('_')[2]}", f"Bearer {token}", token.replace("_", "-"), "\0",
        "\ud800",
    ]  # fmt: skip
    assert [access.verify_key(keyring, result, NOW) for result in wrong] == [None] * len(wrong)
    assert access.verify_key(keyring, token, NOW) is not None


@given(st.text())
def test_other_texts_are_invalid_tokens(text):
    assert access.verify_key(held(made()[1]), text, NOW) is None


def test_keys_expire_and_can_be_revoked():
    token, key = made(expires_at=NOW + HOUR)
    keyring = held(key)
    assert access.verify_key(keyring, token, NOW + HOUR - timedelta(microseconds=1)) is not None
    assert access.verify_key(keyring, token, NOW + HOUR) is None
    assert key.status(NOW + HOUR) == "expired"
    keyring.revoke(key.prefix, NOW)
    assert access.verify_key(keyring, token, NOW) is None
    assert keyring.find(key.prefix).status(NOW) == "revoked"


@pytest.mark.parametrize("what", ["none", "no token", "another secret", "the right one"])
def test_every_token_is_compared_in_constant_time_once(what):
    token, key = made()
    result = {"none": "", "no token": "Bearer x", "another secret": token[:-1] + "0", "the right one": token}[what]
    keyring = held(key)
    with (
        patch.object(access.hmac, "compare_digest", wraps=hmac.compare_digest) as compared,
        patch.object(keyring, "find", wraps=keyring.find) as found,
    ):
        access.verify_key(keyring, result, NOW)
    assert (compared.call_count, found.call_count) == (1, 1)
    assert [len(side) for side in compared.call_args.args] == [64, 64]


def test_a_pasted_token_is_named_by_its_prefix():
    token, key = made()
    assert access.key_prefix(token) == access.key_prefix(key.prefix) == key.prefix


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"rights": []}, "rights"),
        ({"rights": "read"}, "rights"),
        ({"rights": ["own"]}, "right"),
        ({"bound": {"tenant": "x"}}, "bound"),
        ({"bound": {"project": ""}}, "bound.project"),
        ({"bound": {"project": "*"}}, "bound.project"),
        ({"bound": ["project"]}, "bound"),
        ({"tenant": ""}, "tenant"),
        ({"note": "a\nb"}, "note"),
        ({"expires_at": NOW}, "expires_at"),
        ({"expires_at": datetime(2027, 1, 1)}, "expires_at"),  # noqa: DTZ001 - naive on purpose
    ],
)
def test_invalid_keys_are_not_created(values, field):
    with pytest.raises(InputError) as caught:
        made(**values)
    assert caught.value.field == field


def test_key_records_are_frozen():
    _, key = made(bound={"project": "p"})
    with pytest.raises(TypeError):
        key.bound["project"] = "q"
    with pytest.raises(InputError, match="digest"):
        ApiKey(prefix="p", digest="short", tenant="t", rights=["read"], created_at=NOW)
