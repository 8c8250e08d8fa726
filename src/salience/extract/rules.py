"""The extractor that needs no model."""

from __future__ import annotations

from salience.extract.entities import entities
from salience.extract.facts import fact_key
from salience.extract.importance import importance
from salience.ports import Extract


class RuleExtractor:
    """Importance by cmm's table, entities and facts by rules."""

    def extract(self, content: str, *, speaker: str | None = None, user_id: str | None = None) -> Extract:
        """Return the importance, entities and fact of `content`."""
        return Extract(importance(content), entities(content), fact_key(content, speaker=speaker, user_id=user_id))

    def but_for_fact(self, content: str) -> Extract:
        """Return the same without the fact, where a text is not to be read for one."""
        return Extract(importance(content), entities(content))
