"""Export and import: everything that is kept of memories, as lines of JSON (NDJSON)."""
