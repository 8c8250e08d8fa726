"""Requests made up from the OpenAPI document, in shapes that it allows and in others, and every answer checked.

Each operation is tried by itself, and then in chains along the links of the document. `allowed` has what may be
answered otherwise than a schema can say, and why; all else that differs from the document is a failure.

`python -m bench.fuzz_server` runs it against `salience serve` on a store for this alone.
"""
