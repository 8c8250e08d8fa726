"""Programs that build the documentation; they are not in the wheel."""
