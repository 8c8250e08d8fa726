"""What a text says of itself: importance, entities, distinctions; and a query: intent, time, whose voice."""
