"""Tokens of an issuer: which hold, what they grant, and what happens when the issuer changes its keys, or is away."""

import base64
import hashlib
import hmac
import json
import logging
import threading

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from issuers import AUDIENCE, MAKERS, NOW, Issuer, published
from salience.errors import AccessError, InputError
from salience.records import Grant
from salience.server import oauth
from salience.server.auth import Authenticator, create_key, verify_key
from salience.server.oauth import (
    EXPIRE_AFTER,
    LEEWAY,
    MIN_INTERVAL,
    REFRESH_AFTER,
    TOKEN_LIMIT,
    IssuerKeys,
    KeysError,
    metadata_urls,
    token_verifier,
)
from salience.store.keyring import MemoryKeyring

LATER = NOW.timestamp() + 300


class Ticks:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def issuer():
    with Issuer() as running:
        running.add("first")
        yield running


@pytest.fixture
def ticks():
    return Ticks()


@pytest.fixture
def verify(issuer, ticks):
    return verifying(issuer, ticks)


def verifying(issuer, ticks, **options):
    return token_verifier(issuer.url, AUDIENCE, clock=lambda: NOW, monotonic=ticks, **options)


def encoded(value):
    return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).rstrip(b"=")


def by_secret(claims, secret, header):
    """Return a token that is signed with HMAC by any bytes, which libraries refuse to do with a public key."""
    text = encoded(header) + b"." + encoded(claims)
    return (text + b"." + encoded(hmac.digest(secret, text, hashlib.sha256))).decode()


def test_a_token_grants_what_it_says(issuer, verify):
    expected = Grant(tenant="acme", rights=("read", "write"), name="alice@example.org", issuer=issuer.url)
    assert verify(issuer.token("first")) == expected


@pytest.mark.parametrize("algorithm", MAKERS)
def test_every_algorithm_of_ours(issuer, verify, algorithm):
    issuer.add("another", algorithm)
    assert verify(issuer.token("another")) is not None


@pytest.mark.parametrize(
    ("claims", "rights"),
    [
        ({"scope": "salience:admin"}, ("admin",)),
        ({"scope": ["salience:read", 7]}, ("read",)),
        ({"scope": None, "scp": "salience:write"}, ("write",)),
        ({"scope": None, "scp": ["salience:read", "salience:admin"]}, ("read", "admin")),
        ({"scope": "salience:read", "scp": "salience:admin"}, ("read",)),
    ],
)
def test_scopes_are_rights(issuer, verify, claims, rights):
    assert verify(issuer.token("first", **claims)).rights == rights


def test_a_bound_is_kept_to(issuer, verify):
    bound = {"user_id": "alice", "project": "website"}
    assert dict(verify(issuer.token("first", salience_bound=bound)).bound) == bound
    assert verify(issuer.token("first", salience_bound={})).bound == {}


def test_the_tenant_is_in_the_claim_that_is_set(issuer, ticks):
    named = verifying(issuer, ticks, tenant_claim="https://example.org/org")
    assert named(issuer.token("first", **{"https://example.org/org": "other"})).tenant == "other"
    assert named(issuer.token("first")) is None


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example.org"},
        {"iss": None},
        {"iss": ["x"]},
        {"aud": "https://other.example.org"},
        {"aud": None},
        {"aud": {}},
        {"exp": NOW.timestamp() - LEEWAY},
        {"exp": None},
        {"exp": "soon"},
        {"exp": True},
        {"exp": 10**400},
        {"nbf": NOW.timestamp() + LEEWAY + 1},
        {"nbf": "now"},
        {"sub": None},
        {"sub": 7},
        {"sub": "two\nlines"},
        {"tenant": None},
        {"tenant": ""},
        {"tenant": 7},
        {"tenant": ["acme"]},
        {"tenant": "a" * 257},
        {"scope": None},
        {"scope": "openid"},
        {"scope": "read write"},
        {"scope": "salience:root"},
        {"scope": 7},
        {"scope": {"salience:read": True}},
        {"salience_bound": "alice"},
        {"salience_bound": ["user_id"]},
        {"salience_bound": {"user_id": None}},
        {"salience_bound": {"user_id": 7}},
        {"salience_bound": {"session_id": "x"}},
        {"salience_bound": {"tenant": "other"}},
    ],
    ids=str,
)
def test_what_a_token_has_to_say(issuer, verify, claims):
    assert verify(issuer.token("first")) is not None
    assert verify(issuer.token("first", **claims)) is None


def test_a_bound_of_null_is_not_none(issuer, verify):
    key, _ = issuer.signing["first"]
    token = jwt.encode({**issuer.claims(), "salience_bound": None}, key, algorithm="ES256", headers={"kid": "first"})
    assert verify(token) is None


def test_clocks_may_differ_a_little(issuer, verify):
    assert verify(issuer.token("first", exp=NOW.timestamp() - LEEWAY + 1)) is not None
    assert verify(issuer.token("first", nbf=NOW.timestamp() + LEEWAY - 1)) is not None
    assert verify(issuer.token("first", aud=["other", AUDIENCE])) is not None


def test_no_token_is_taken_on_its_word(issuer, verify):
    """Not unsigned, not by a key that it brings along, not by our public key as a secret, not by another's key."""
    issuer.add("big", "RS256")
    claims, stranger = issuer.claims(), MAKERS["ES256"]()
    for public in (issuer.signing[name][0].public_key() for name in ("first", "big")):
        pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        for secret in (pem, der, b"", json.dumps(issuer.keys[0]).encode()):
            for name in ("first", "big"):
                assert verify(by_secret(claims, secret, {"alg": "HS256", "kid": name})) is None
                assert verify(by_secret(claims, secret, {"alg": "ES256", "kid": name})) is None
    for algorithm in ("none", "None", "nOnE", "", None, "HS256", "RS512", "PS256"):
        header = {"alg": algorithm, "kid": "first"}
        assert verify((encoded(header) + b"." + encoded(claims) + b".").decode()) is None
    own = published(stranger, "ES256", "first")
    brings = {"kid": "first", "jwk": own, "jku": issuer.jwks_url, "x5u": issuer.jwks_url}
    assert verify(jwt.encode(claims, stranger, algorithm="ES256", headers=brings)) is None
    assert verify(issuer.token("first", {"crit": ["exp"]})) is None
    assert verify(issuer.token("first", {"kid": "big"})) is None  # the key of another algorithm
    assert verify(issuer.token("first")) is not None


@pytest.mark.parametrize("name", ["../first", "first\x00", "' OR 1=1 --", "FIRST", "", " first", "f" * 10_000])
def test_the_name_of_a_key_is_only_looked_up(issuer, verify, name):
    assert verify(issuer.token("first", {"kid": name})) is None
    assert set(issuer.asked) == {"/.well-known/oauth-authorization-server", "/keys"}


def test_a_name_that_is_no_text_is_refused(issuer, verify):
    key, _ = issuer.signing["first"]
    for name in (7, ["first"], {"first": 1}):
        text = encoded({"alg": "ES256", "kid": name}) + b"." + encoded(issuer.claims())
        signature = jwt.get_algorithm_by_name("ES256").sign(text, key)
        assert verify((text + b"." + encoded(signature)).decode()) is None


def test_without_a_name_the_only_key_is_meant(issuer, ticks, verify):
    key, _ = issuer.signing["first"]
    nameless = jwt.encode(issuer.claims(), key, algorithm="ES256")
    assert verify(nameless) is not None
    issuer.add("second")
    ticks.now += REFRESH_AFTER
    assert verify(nameless) is None
    assert verify(issuer.token("second")) is not None


def test_keys_that_are_not_for_signing_are_left_out(issuer, verify):
    weak = rsa.generate_private_key(65537, 1024)  # noqa: S505 - that is what is not to be used
    curve = ec.generate_private_key(ec.SECP384R1())
    issuer.keys += [
        published(weak, "RS256", "weak"),
        {**published(curve, "ES384", "curve"), "alg": "ES256"},
        published(curve, "ES384", "long"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared", "alg": "HS256"},
        {"kty": "EC", "kid": "broken"},
        {"kty": ["EC"]},
        "no key",
    ]
    issuer.add("cipher", use="enc")
    issuer.add("other", alg="ES512")
    issuer.add("private", d="AQAB")
    assert verify(issuer.token("first")) is not None
    for name in ("cipher", "other", "private"):
        assert verify(issuer.token(name)) is None
    claims = issuer.claims()
    assert verify(by_secret(claims, b"secret", {"alg": "HS256", "kid": "shared"})) is None
    signed = jwt.get_algorithm_by_name("ES256")
    text = encoded({"alg": "ES256", "kid": "curve"}) + b"." + encoded(claims)
    assert verify((text + b"." + encoded(signed.sign(text, issuer.signing["first"][0]))).decode()) is None
    text = encoded({"alg": "RS256", "kid": "weak"}) + b"." + encoded(claims)
    weakly = jwt.get_algorithm_by_name("RS256").sign(text, weak)
    assert verify((text + b"." + encoded(weakly)).decode()) is None


def test_keys_are_fetched_once(issuer, verify):
    for _ in range(20):
        assert verify(issuer.token("first")) is not None
    assert issuer.asked == {"/.well-known/oauth-authorization-server": 1, "/keys": 1}


def test_keys_change(issuer, ticks, verify):
    """A new key holds within a minute, one that was taken back fails once the keys are fetched anew."""
    assert verify(issuer.token("first")) is not None
    issuer.add("second")
    assert verify(issuer.token("second")) is None  # a minute has not passed since the last fetch
    ticks.now += MIN_INTERVAL
    assert verify(issuer.token("second")) is not None
    del issuer.keys[0]
    assert verify(issuer.token("first")) is not None
    ticks.now += REFRESH_AFTER
    assert verify(issuer.token("first")) is None
    assert verify(issuer.token("second")) is not None


def test_unknown_keys_cost_one_fetch_a_minute(issuer, ticks, verify):
    issuer.signing["unpublished"] = (MAKERS["ES256"](), "ES256")
    for minute in range(1, 4):
        for _ in range(10):
            assert verify(issuer.token("unpublished")) is None
        assert issuer.asked["/keys"] == minute
        ticks.now += MIN_INTERVAL


def test_garbage_costs_no_fetch(issuer, verify):
    for garbage in ("", ".", "..", "a.b.c", "sal_0_1", "ey" * 9000, "\ud800.a.b", "e30.e30.", "💥.💥.💥"):
        assert verify(garbage) is None
    deep = encoded(b"[" * 5000) + b"." + encoded({}) + b"."
    assert verify(deep.decode()) is None
    assert verify(encoded({"alg": "none"}).decode() + ".e30.") is None
    assert not issuer.asked


def test_a_token_beyond_all_measure_is_not_read(issuer, verify):
    assert verify(issuer.token("first", more="x" * TOKEN_LIMIT)) is None
    assert not issuer.asked


def test_an_issuer_that_is_down_grants_nothing_and_keys_go_on(issuer, ticks, caplog):
    keyring = MemoryKeyring()
    shown, key = create_key("acme", ["read"], {}, None, None, NOW)
    keyring.add(key)
    door = Authenticator([lambda token: verify_key(keyring, token, NOW), verifying(issuer, ticks)])
    token = issuer.token("first")
    issuer.answers["/keys"] = 503
    with caplog.at_level(logging.WARNING), pytest.raises(AccessError):
        door.authenticate(f"Bearer {token}")
    assert [line.getMessage().rpartition(": ")[2] for line in caplog.records] == ["status 503"]
    assert token not in caplog.text
    assert door.authenticate(f"Bearer {shown}").name == key.prefix
    issuer.answers["/keys"] = {"keys": issuer.keys}
    with pytest.raises(AccessError):
        door.authenticate(f"Bearer {token}")  # it is not asked again at once
    ticks.now += MIN_INTERVAL
    assert door.authenticate(f"Bearer {token}").name == "alice@example.org"


def test_known_keys_hold_for_a_while_without_the_issuer(issuer, ticks, verify):
    assert verify(issuer.token("first")) is not None
    issuer.answers["/keys"] = 500
    ticks.now += REFRESH_AFTER
    assert verify(issuer.token("first")) is not None
    ticks.now += EXPIRE_AFTER - REFRESH_AFTER
    assert verify(issuer.token("first")) is None
    issuer.answers["/keys"] = {"keys": issuer.keys}
    ticks.now += MIN_INTERVAL
    assert verify(issuer.token("first")) is not None


def test_nobody_listens(issuer, ticks, caplog):
    token = issuer.token("first")
    with Issuer() as gone:
        verify = verifying(gone, ticks)
    assert verify(token) is None
    assert "ConnectError" in caplog.text


def test_an_issuer_that_does_not_answer_is_waited_for_once(issuer, ticks):
    verify = verifying(issuer, ticks, timeout=0.2)
    token = issuer.token("first")
    issuer.held.clear()
    assert [verify(token) for _ in range(5)] == [None] * 5
    assert issuer.asked.total() <= 1  # 0, if even that did not come through in time
    issuer.held.set()
    verify = verifying(issuer, ticks)
    assert verify(token) is not None


def test_keys_that_cannot_be_had_are_asked_for_once_a_minute(ticks):
    tried = []

    def fetch():
        tried.append(ticks.now)
        raise KeysError("away")

    keys = IssuerKeys(fetch, ticks)
    for _ in range(3):
        assert [keys.get(name) for name in ("first", None, "second")] == [None] * 3
        ticks.now += MIN_INTERVAL
    assert tried == [1000.0, 1000.0 + MIN_INTERVAL, 1000.0 + 2 * MIN_INTERVAL]


def test_who_has_a_key_does_not_wait_for_a_fetch(issuer, ticks, verify):
    token = issuer.token("first")
    assert verify(token) is not None
    ticks.now += REFRESH_AFTER
    issuer.held.clear()
    begun, found = threading.Event(), []

    def renew():
        begun.set()
        found.append(verify(token))

    thread = threading.Thread(target=renew)
    thread.start()
    begun.wait()
    while thread.is_alive() and issuer.asked.total() < 3:  # until the fetch is under way
        thread.join(0.001)
    assert verify(token) is not None
    assert not found
    issuer.held.set()
    thread.join()
    assert found[0] is not None


def test_many_threads_fetch_once(issuer, verify):
    token, found = issuer.token("first"), []
    threads = [threading.Thread(target=lambda: found.append(verify(token))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in found
    assert len(found) == 8
    assert issuer.asked["/keys"] == 1


@pytest.mark.parametrize(
    "answer",
    [b"", b"<html>", b"[" * 100_000, b"[]", b"\xff\xfe", b"{" + b" " * 300_000 + b"}", 404, 302, {"keys": {}}, {}],
    ids=lambda answer: str(answer)[:12],
)
def test_answers_that_are_no_keys(issuer, ticks, caplog, answer):
    issuer.answers["/keys"] = answer
    assert verifying(issuer, ticks, jwks_url=issuer.jwks_url)(issuer.token("first")) is None
    assert "cannot fetch the keys" in caplog.text


@pytest.mark.parametrize("path", ["", "/tenants/one", "/tenants/one/"])
def test_metadata_are_found(path, ticks):
    with Issuer(path) as issuer:
        issuer.add("first")
        for url in metadata_urls(issuer.url):
            issuer.answers = {"/keys": {"keys": issuer.keys}, url.removeprefix(issuer.root): issuer.metadata()}
            assert verifying(issuer, ticks)(issuer.token("first")) is not None


def test_where_metadata_are_looked_for():
    assert metadata_urls("https://id.example.org/") == [
        "https://id.example.org/.well-known/oauth-authorization-server",
        "https://id.example.org/.well-known/openid-configuration",
    ]
    assert metadata_urls("https://id.example.org/one") == [
        "https://id.example.org/.well-known/oauth-authorization-server/one",
        "https://id.example.org/.well-known/openid-configuration/one",
        "https://id.example.org/one/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"issuer": "https://evil.example.org"},
        {"jwks_uri": None},
        {"jwks_uri": "http://keys.example.org/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "http://[bad"},
    ],
    ids=str,
)
def test_metadata_that_are_not_trusted(issuer, verify, other):
    issuer.answers["/.well-known/oauth-authorization-server"] = issuer.metadata(**other)
    assert verify(issuer.token("first")) is None
    assert issuer.asked["/keys"] == 0


@pytest.mark.parametrize(
    "url", ["", "id.example.org", "http://id.example.org", "ftp://localhost", "https://", "http://[x"]
)
def test_addresses_have_to_be_safe(url):
    with pytest.raises(InputError, match="oauth_issuer"):
        token_verifier(url, AUDIENCE)
    with pytest.raises(InputError, match="oauth_jwks_url"):
        token_verifier("https://id.example.org", AUDIENCE, url)


def test_a_password_in_an_address_is_not_shown():
    with pytest.raises(InputError) as caught:
        token_verifier("http://me:secret@id.example.org", AUDIENCE)
    assert "secret" not in str(caught.value)


@pytest.fixture(scope="module")
def signed():
    """A verifier whose keys are there, and a token that holds."""
    with Issuer() as issuer:
        issuer.add("first")
        verify = token_verifier(issuer.url, AUDIENCE, clock=lambda: NOW)
        token = issuer.token("first")
        assert verify(token) is not None
        yield verify, token


@settings(max_examples=200)
@given(data=st.data())
def test_a_token_that_was_tampered_with_never_holds(signed, data):
    """One character of the two parts that are signed, or of the first of the signature's, is another."""
    verify, token = signed
    place = data.draw(st.integers(0, len(token) - 5))
    other = data.draw(st.characters())
    tampered = token[:place] + other + token[place + 1 :]
    assert (verify(tampered) is None) == (tampered != token)


def test_what_the_log_says_of_a_refused_token_is_a_type(issuer, verify, caplog):
    with caplog.at_level(logging.DEBUG, oauth.__name__):
        assert verify(issuer.token("first", aud="https://secret.example.org")) is None
    assert caplog.messages == ["oauth: a token was refused: InvalidAudienceError"]
