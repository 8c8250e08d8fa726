"""Every view on a PostgreSQL store with two tenants: what it shows, and to whom."""

from __future__ import annotations

from contextlib import ExitStack
from html import unescape

import pytest

import databases
from bench import sample
from bench.browser import dashboard
from bench.screenshots import PAGES
from dashboards import client_of, csrf_of
from salience import compose
from salience.records import ANY
from salience.server.auth import create_key
from salience.server.ui.views import VIEWS
from tests.contract.doubles import HashedEmbedder

pytestmark = pytest.mark.slow
TOKEN = "one-time"
OTHERS = "The vault of the other tenant opens at nine"
SHOWN = {
    "explorer": ("Bob is allergic to peanuts", "Alice has two cats, Pixel and Byte"),
    "recall": ("Alice now prefers Rust for backend work",),
    "playground": ("Alice now prefers Rust for backend work", "memory.recall("),
    "why": ("Alice now prefers Rust for backend work",),
    "compare": ("Alice now prefers Rust for backend work", "zeromemory"),
    "memory": ("Alice now prefers Rust for backend work", "language"),
    "time": ("alice.city", "atlas.rate_limit", "Numbers by month"),
    "tiers": ("episodic", "What upkeep"),
    "inbox": ("The on-call engineer of the ledger answers within 15 minutes", "is-duplicate"),
    "graph": ("Alice now prefers Rust for backend work", "names"),
    "graph-memory": ("Alice now prefers Rust for backend work",),
    "entities": ("Alice", "Bob"),
    "sessions": ("standup-0421", "menu-planning"),
    "transcript": ("Did the checksums match?", "All but two rows"),
    "recalls": ("What may Bob not eat?", "When is the bistro closed?"),
    "trace": ("What language does Alice like?", "Alice now prefers Rust"),
    "operations": ("Revoke", "carla"),
    "profiles": ("mememory", "zeromemory"),
    "profile": ("cosine",),
    "profile-edit": ("Alice now prefers Rust for backend work",),
}
"""Page of `PAGES` -> texts on it."""


class Alike(HashedEmbedder):
    """Gives texts that differ in the last `!` alone the same vector."""

    def _vector(self, text):
        return super()._vector(text.rstrip("!"))


@pytest.fixture(scope="module")
def site(postgres):
    """A function from a tenant and bounds to a client that is logged in, and the ids for the paths of `PAGES`."""
    with databases.laid_out(postgres) as owner, ExitStack() as stack:
        dsn = databases.as_application(postgres, owner, databases.CARETAKER)
        engine = stack.enter_context(sample.opened(dsn, Alike("hashed", 64)))
        engine.of("other").remember(OTHERS, user_id="olga", session_id="vault", fact_key="vault.opens")
        keyring = compose.keyring(dsn)
        stack.callback(keyring.close)
        application = dashboard(engine, keyring, target=dsn)
        found = engine.list(user_id="alice", project="atlas", agent_id="coder", limit=1000).memories
        memory = next(one for one in found if one.content.startswith("Alice now prefers"))
        recall = engine.recalls(limit=1, project=ANY, user_id=ANY, agent_id=ANY).recalls[0]

        def log_in(tenant, *rights, **bound):
            token, key = create_key(tenant, rights or ("admin",), bound, None, None, engine.services.clock())
            keyring.add(key)
            client = client_of(application)
            client.post("/ui/login", data={"key": token, "csrf": csrf_of(client, "/ui/login")})
            return client

        local = client_of(dashboard(engine, one_time_token=TOKEN, target=dsn))
        local.get(f"/ui/open?token={TOKEN}")
        yield log_in, {"id": memory.id, "recall": recall.id}, local


def test_every_view_shows_the_memories_of_its_tenant(site):
    log_in, ids, _ = site
    client = log_in("default")
    assert SHOWN.keys() == PAGES.keys()
    missing = {}
    for name, path in PAGES.items():
        response = client.get(path.format(**ids))
        text = unescape(response.text)
        assert response.status_code == 200, (name, text)
        assert "vault" not in text, name
        missing[name] = [one for one in SHOWN[name] if one not in text]
    assert {name: absent for name, absent in missing.items() if absent} == {}
    facets = client.get("/ui/facets").text
    assert 'href="/ui/?f_project=bistro"' in facets


def test_another_tenant_sees_its_own_memory_alone(site):
    log_in, ids, _ = site
    client = log_in("other")
    for view in VIEWS:
        response = client.get(f"/ui/{view.path}")
        assert response.status_code == 200, view
        assert not any(secret in response.text for secret in ("peanuts", "Pixel", "bistro")), view
    for path in ("", "memory", "time", "?mode=recall&q=When+does+the+vault+open", "inbox?kind=pending"):
        assert (OTHERS in client.get(f"/ui/{path}").text) == ("inbox" not in path), path
    assert "vault" in client.get("/ui/sessions").text
    for name in ("memory", "graph-memory", "trace"):
        assert client.get(PAGES[name].format(**ids)).status_code == 404


def test_a_bound_key_sees_its_user_alone_and_no_form(site):
    log_in, ids, _ = site
    client = log_in("default", "read", user_id="carla")
    for view in VIEWS:
        response = client.get(f"/ui/{view.path}")
        assert response.status_code in (200, 403), view
        assert not any(secret in response.text for secret in ("peanuts", "Pixel", "standup-0421", "vault")), view
        assert response.text.count('method="post"') == 1, view  # the log out
    assert "Carla runs the bistro" in client.get("/ui/?q=Carla").text
    assert "menu-planning" in client.get("/ui/sessions").text
    assert client.get(PAGES["memory"].format(**ids)).status_code == 404


def test_the_user_of_the_store_itself_sees_its_tables(site):
    local = site[-1]
    text = local.get("/ui/operations?storage=1").text
    for shown in ("PostgreSQL", "pgvector", "Revision of the tables", "postings"):
        assert shown in text
    report = local.post("/ui/operations/doctor", data={"csrf": csrf_of(local)}).text
    assert "healthy" in report


def test_memories_are_changed_and_the_change_is_undone(site):
    log_in, ids, _ = site
    client, path = log_in("default"), f"/ui/memory/{ids['id']}"
    done = client.post(f"{path}/forget", data={"csrf": csrf_of(client), "reason": "a try"})
    assert done.status_code == 303
    assert "a try" in client.get(path).text
    assert client.post(f"{path}/restore", data={"csrf": csrf_of(client)}).status_code == 303
    assert client.get("/ui/?q=now+prefers+Rust").text.count("Alice now prefers Rust for backend work") >= 1
