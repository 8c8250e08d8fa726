"""A double of an OAuth issuer: a server on this machine that publishes metadata and keys, and signs tokens."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

AUDIENCE = "https://memory.example.org/mcp"
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MAKERS = {
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


def published(key: Any, algorithm: str, name: str | None, **members: object) -> dict[str, Any]:
    """Return the public part of a key as an issuer publishes it."""
    public = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    public.pop("key_ops", None)
    return {**public, **({} if name is None else {"kid": name}), "use": "sig", "alg": algorithm, **members}


class Issuer:
    """An issuer; what it answers can be changed while it runs.

    Attributes:
        url: its address.
        keys: what it publishes.
        answers: path -> what it answers there: an object, bytes as they are, or a status.
        asked: path -> how often.
        held: while it is clear, no answer is given.
        now: tells the time at which its tokens are made, seconds.
    """

    def __init__(self, path: str = "") -> None:
        self.answers: dict[str, object] = {}
        self.asked: Counter[str] = Counter()
        self.held = threading.Event()
        self.held.set()
        self.now: Callable[[], float] = NOW.timestamp
        self.keys: list[dict[str, Any]] = []
        self.signing: dict[str, tuple[Any, str]] = {}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.answer(self)

            def do_POST(self) -> None:
                issuer.grant(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.root = f"http://127.0.0.1:{self._server.server_port}"
        self.url = self.root + path
        self.jwks_url = f"{self.root}/keys"
        self.answers["/keys"] = {"keys": self.keys}
        self.answers[f"/.well-known/oauth-authorization-server{path}"] = self.metadata()

    def __enter__(self) -> Issuer:
        return self

    def __exit__(self, *_: object) -> None:
        self.held.set()
        self._server.shutdown()
        self._server.server_close()

    def metadata(self, **other: object) -> dict[str, object]:
        """Return what it says of itself."""
        usual = {
            "issuer": self.url,
            "jwks_uri": self.jwks_url,
            "authorization_endpoint": f"{self.root}/authorize",
            "token_endpoint": f"{self.root}/token",
            "response_types_supported": ["code"],
            "grant_types_supported": ["client_credentials"],
        }
        return {**usual, **other}

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a request, once it is let."""
        self.asked[handler.path] += 1
        self.held.wait()
        told = self.answers.get(handler.path, 404)
        body = told if isinstance(told, bytes) else json.dumps(told).encode()
        try:
            handler.send_response(told if isinstance(told, int) else 200)
            handler.send_header("content-length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
        except OSError:
            pass  # who asked has gone

    def grant(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a client that asks for a token: one for the resource and the scope that it names."""
        asked = dict(parse_qsl(handler.rfile.read(int(handler.headers["content-length"])).decode()))
        token = self.token(next(iter(self.signing)), aud=asked["resource"], scope=asked["scope"])
        self.answers["/token"] = {"access_token": token, "token_type": "Bearer", "expires_in": 300}
        self.answer(handler)

    def add(self, name: str, algorithm: str = "ES256", **members: object) -> None:
        """Have one more key, and publish it."""
        key = MAKERS[algorithm]()
        self.signing[name] = (key, algorithm)
        self.keys.append(published(key, algorithm, name, **members))

    def claims(self, **other: object) -> dict[str, object]:
        """Return what a token says that holds; a claim of None is left out."""
        usual = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "alice@example.org",
            "exp": self.now() + 300,
            "scope": "openid salience:read salience:write",
            "tenant": "acme",
        }
        return {name: value for name, value in {**usual, **other}.items() if value is not None}

    def token(self, by: str, headers: dict[str, object] | None = None, **claims: object) -> str:
        """Return a token, signed by the key of a name."""
        key, algorithm = self.signing[by]
        said = json.dumps(self.claims(**claims)).encode()
        return jwt.PyJWS().encode(said, key, algorithm=algorithm, headers={"kid": by, **(headers or {})})
