"""`salience ui`, and the dashboard of `salience serve`."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from html import unescape
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

import salience
from salience import settings
from salience.models import registry
from salience.server.app import build_app
from salience.server.process import ServerConfig
from tests.contract.doubles import PlantedEmbedder
from waiting import PATIENCE

COMMAND = str(Path(sys.executable).with_name("salience"))


@pytest.fixture
def config(monkeypatch, target):
    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder())

    def make(**given):
        loaded = settings.load(url=target, server_upkeep="forever", **given)
        return ServerConfig(settings=loaded, embedder="planted")

    return make


@pytest.mark.parametrize(("given", "status"), [({}, 200), ({"ui": False}, 404)])
def test_serve_has_the_dashboard_unless_it_is_switched_off(config, given, status):
    with build_app(config(**given)) as app, TestClient(app.asgi, base_url="http://127.0.0.1") as client:
        assert client.get("/ui").status_code == status
        assert client.get("/ui/login").status_code == status
        assert client.get("/healthz").status_code == 200


def test_workers_share_the_secret_and_the_setting_wins(config):
    one = config()
    assert one.cookie_secret() == one.cookie_secret() != config().cookie_secret()
    assert config(ui_secret="s" * 32).cookie_secret() == b"s" * 32
    assert one.cookie_secret().hex() not in repr(one)


@pytest.mark.slow
def test_the_command_serves_a_link_that_works_once_and_ends_by_ctrl_c(target, tmp_path):
    with salience.connect(target) as memory:
        memory.remember("Alice prefers Python", user_id="alice")
    process = subprocess.Popen([COMMAND, "ui", target, "--no-browser"], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert process.stdout is not None
        [link] = re.findall(r"http://\S+", process.stdout.readline())
        base = link.partition("/ui/")[0]
        assert httpx.get(f"{base}/v1/memories", timeout=PATIENCE).status_code == 401
        with httpx.Client(follow_redirects=True, timeout=PATIENCE) as browser:
            page = browser.get(link)
            assert str(page.url) == f"{base}/ui/"
            assert "Alice prefers Python" in page.text
            recalled = unescape(browser.get(f"{base}/ui/playground?q=Which+language%3F").text)
            assert f"salience.connect({target!r})" in recalled
            assert f"salience --store {target} recall --environment" in recalled
            stored = browser.get(f"{base}/ui/operations").text
            assert f"salience --store {target} reinstate BACKUP.db" in stored
        assert httpx.get(link, timeout=PATIENCE).status_code == 401
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
