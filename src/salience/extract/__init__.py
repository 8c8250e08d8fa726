"""What a text says of itself: importance, entities, intent."""
