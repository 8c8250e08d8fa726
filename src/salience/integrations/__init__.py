"""Adapters: Salience as the memory of agent frameworks, one module and one extra each.

An adapter takes a connected `Memory` and implements the framework's own interface. Its coroutines run the same calls in
worker threads. Importing an adapter without its framework raises `MissingExtraError`, which names the pip command.
"""

from salience.client import Client
from salience.engine import Engine

Memory = Engine | Client
"""A connection of `salience.connect`: a file, a PostgreSQL database or a server."""
