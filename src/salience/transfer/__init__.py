"""Export, import and copy of memories; files are lines of JSON (NDJSON)."""
