"""Measures a store on PostgreSQL, and prints the page."""

from __future__ import annotations

import argparse
import os
import sys

import psutil

from bench.bench_postgres.corpus import Corpus
from bench.bench_postgres.measuring import Amounts, measured
from bench.bench_postgres.place import SETTINGS, Store, connected, store
from bench.bench_postgres.report import Machine, page
from bench.machine import processor

FEWEST = 1_500
TENANTS = 10
EACH = 100


def main(arguments: list[str]) -> None:
    """Print the page; how far it is goes to standard error."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_postgres", description=__doc__)
    parser.add_argument("--memories", type=int, default=1_000_000, help=f"at least {FEWEST:,}, and {EACH} a tenant")
    parser.add_argument("--tenants", type=int, default=1_000, help=f"at least {TENANTS}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dsn", help="of a superuser of a server; without it, one is started and removed again")
    chosen = parser.parse_args(arguments)
    if chosen.tenants < TENANTS or chosen.memories < max(FEWEST, EACH * chosen.tenants):
        parser.error(f"give at least {TENANTS} tenants, {FEWEST:,} memories, and {EACH} memories for each tenant")
    corpus = Corpus(chosen.memories, chosen.tenants, chosen.seed)
    with store(chosen.dsn) as made:
        found = measured(made, corpus, Amounts(), lambda words: print(words, file=sys.stderr, flush=True))
        where = machine(made, own=chosen.dsn is None)
    command = f"python -m bench.bench_postgres --memories {corpus.memories} --tenants {corpus.tenants}"
    print(page(found, corpus, where, f"{command} --seed {corpus.seed}"))


def machine(store: Store, *, own: bool) -> Machine:
    """Return where it is measured."""
    versions = (
        "SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector')"
    )
    with connected(store.owner) as connection:
        row = connection.execute(versions).fetchone()
    assert row is not None
    settings = ", ".join(f"`{name} = {value}`" for name, value in SETTINGS.items())
    told = f"Settings: {settings}; all others are PostgreSQL's own." if own else "Settings are those of that server."
    server = f"PostgreSQL {row[0].split()[0]} with pgvector {row[1]}"
    return Machine(processor(), os.cpu_count() or 1, psutil.virtual_memory().total, server, told)


if __name__ == "__main__":
    main(sys.argv[1:])
