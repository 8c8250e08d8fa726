"""The verbs of the TypeScript client: `make client` writes what this prints to clients/typescript/src/verbs.ts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from salience.verbs import VERBS, Verb

HEAD = """// Written by `make client` from the code; do not edit.
import type { operations, paths } from "./schema.js";

/** A verb, and what a client must know to send it again. */
export interface Verb {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: keyof paths;
  /** Whether it writes; a write that is not `keyed` is not repeated after a lost response. */
  writes?: boolean;
  /** Whether it takes an idempotency key. */
  keyed?: boolean;
  /** Whether it may scan a whole store. */
  long?: boolean;
}

/** The operations of the OpenAPI document that are verbs. */
export const VERBS = {
"""
TAIL = "} satisfies Partial<Record<keyof operations, Verb>>;\n"


def facts(verb: Verb) -> Mapping[str, Any]:
    """Return the row of a verb."""
    marks = {
        "writes": verb.right != "read",
        "keyed": bool({"key", "drafts", "messages"} & {*verb.arguments}),
        "long": verb.is_long,
    }
    return {"method": verb.method, "path": verb.path, **{name: True for name, given in marks.items() if given}}


def module() -> str:
    """Return the text of verbs.ts. Verbs that share a route are one operation, that of the first."""
    operations = {(verb.method, verb.path): verb for verb in reversed([*VERBS.values()])}
    rows = [
        f"  {verb.name}: {{ {', '.join(f'{name}: {json.dumps(value)}' for name, value in facts(verb).items())} }},\n"
        for verb in VERBS.values()
        if operations[verb.method, verb.path] is verb
    ]
    return HEAD + "".join(rows) + TAIL


if __name__ == "__main__":
    print(module(), end="")
