"""Candidates out of many memories."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from salience.batch import Batch
from salience.ports import Need
from salience.records import Scope
from salience.store.gather import Activations


def found(reader: Connection, need: Need, dimension: int, activations: Activations) -> Batch:
    raise NotImplementedError


def speakers(reader: Connection, scope: Scope, names: Sequence[str]) -> list[str]:
    raise NotImplementedError
