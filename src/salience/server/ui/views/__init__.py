"""The views: each module has a `router`, whose functions call verbs and render a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter

from salience.server.ui.views import (
    compare,
    explorer,
    graph,
    inbox,
    memory,
    operations,
    playground,
    profiles,
    recalls,
    sessions,
    tiers,
    time,
    why,
)


@dataclass(frozen=True, slots=True)
class View:
    """A view in the navigation: its path below `/ui/`, its title, and the group of the navigation."""

    path: str
    title: str
    group: str
    router: APIRouter


VIEWS: Final = (
    View("", "Explorer", "Look", explorer.router),
    View("memory", "Memory", "Look", memory.router),
    View("time", "Time", "Look", time.router),
    View("graph", "Graph", "Look", graph.router),
    View("sessions", "Sessions", "Look", sessions.router),
    View("recalls", "Recalls", "Look", recalls.router),
    View("playground", "Playground", "Ask", playground.router),
    View("why", "Why", "Ask", why.router),
    View("compare", "Compare", "Ask", compare.router),
    View("inbox", "Inbox", "Keep", inbox.router),
    View("tiers", "Tiers and decay", "Keep", tiers.router),
    View("profiles", "Profiles", "Run", profiles.router),
    View("operations", "Operations", "Run", operations.router),
)
"""In the order of the navigation."""
