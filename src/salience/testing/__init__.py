"""For tests, ours and those of third-party stores: the store contract, and doubles of clocks and embedders."""
