"""Without its framework, the import of an adapter ends with the pip command."""

from __future__ import annotations

import importlib
import sys

import pytest

from salience.errors import MissingExtraError


@pytest.mark.parametrize(
    ("adapter", "framework", "extra"),
    [
        ("agent_framework", "agent_framework", "agent-framework"),
        ("anthropic", "anthropic", "anthropic"),
        ("google_adk", "google.adk", "google-adk"),
        ("llama_index", "llama_index.core", "llama-index"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("pydantic_ai", "pydantic_ai_harness", "pydantic-ai"),
        ("strands", "strands", "strands"),
        ("crewai", "crewai", "crewai"),
    ],
)
def test_the_error_names_the_extra(monkeypatch, adapter, framework, extra):
    for name in [name for name in sys.modules if name == framework or name.startswith(f"{framework}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, framework, None)
    module = f"salience.integrations.{adapter}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(MissingExtraError, match=rf'{module} needs .*pip install .*\[{extra}\]"'):
        importlib.import_module(module)
