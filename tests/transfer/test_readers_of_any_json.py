"""No JSON makes a reader fail: a record has a key, and everything else is a problem with a reason."""

from __future__ import annotations

import json
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from other_systems import read

from salience import InputError
from salience.lines import as_draft
from salience.transfer.importers import SOURCES
from salience.transfer.importers.records import Problem

FIELDS = """
    agents attachments author block_ids blocks categories chat_messages content content_hash content_type
    conversations_memory core_memory create_time created_at current_node cwd docs edges entities entityType
    episodes expiration_date extracted_content fact from id invalid_at isMeta items key label labels leafUuid
    mapping memories memory memory_files message metadata name namespace nodes observations parent
    parent_message_uuid parts project_memories prompt_template properties recipient relationType relations
    results role sender sessionId summary superseded_by tags text timestamp to tool_calls type user_id uuid
    valid_at value
""".split()
"""Fields of the formats, so that generated JSON comes close to them."""
WORDS = [
    "user",
    "assistant",
    "human",
    "summary",
    "text",
    "bio",
    "all",
    "2026-05-01T00:00:00Z",
    "a",
    "---\ntags: a\n---",
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=30,
)


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=30)
@given(value=JSON)
def test_no_json_breaks_a_reader(source: str, value: object) -> None:
    try:
        items = read(source, BytesIO(json.dumps(value).encode()))
    except InputError:
        return
    assert all(item.number >= 1 for item in items)
    for item in items:
        if isinstance(item, Problem):
            assert item.reason
            continue
        try:
            assert as_draft(item.draft).key
        except InputError as error:
            assert error.remedy  # noqa: PT017 - refused with a reason
