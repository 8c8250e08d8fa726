"""The contract that every store passes, and doubles of clocks and embedders."""
