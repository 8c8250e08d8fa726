"""The story of a server: check, open, bind, announce, serve, leave."""

from __future__ import annotations

import gc
import socket
from typing import Any

import structlog

from salience.server import logs, rates, scraping
from salience.server.listening import bound, url_of
from salience.server.opening import MAKE_A_KEY, opened
from salience.server.plan import Plan
from salience.server.workers import Supervisor
from salience.settings import Settings, masked


def run(plan: Plan) -> None:
    """Serve a plan until a signal ends it.

    The store is opened before the port is taken: what is wrong with it is told by an error, not by a server that cannot
    answer.

    Raises:
        InputError: a value that cannot be accepted.
        SalienceError: the store cannot be opened, or the port is taken.
    """
    plan.check()
    rates.admission(plan.settings.server_rate)
    logs.configure(plan.settings.log_level)
    if plan.settings.server_workers > 1:
        _by_workers(plan)
    else:
        _alone(plan)
    _log().info("ended")


def _alone(plan: Plan) -> None:
    from salience.server.server import leave, serve  # only the process that serves loads what speaks HTTP
    from salience.server.site import standing

    settings = plan.settings
    with standing(plan) as site, bound(settings.server_host, settings.server_port) as listening:
        _announce(settings, listening, site.is_open())
        serve(site, listening, settings.server_shutdown)
    leave()


def _by_workers(plan: Plan) -> None:
    settings = plan.settings
    with opened(plan) as (_, keyring):
        is_open = settings.oauth_issuer is None and keyring.is_empty()
    with bound(settings.server_host, settings.server_port) as listening, scraping.counting_together():
        _announce(settings, listening, is_open)
        Supervisor(plan, listening).run()
    gc.freeze()  # as `leave` does


def _announce(settings: Settings, listening: socket.socket, is_open: bool) -> None:
    """Say what is served and where; and that nobody needs a key, where that is so."""
    url = url_of(listening)
    workers = settings.server_workers
    _log().info("serving", url=url, mcp=f"{url}/mcp", store=masked(settings.url), workers=workers)
    if is_open:
        _log().warning(
            "no key was made yet: whoever is on this machine may read and write", remedy=f"Make one: {MAKE_A_KEY}"
        )


def _log() -> Any:
    return structlog.get_logger()
