"""For tests, ours and of third-party stores: the store contract, doubles of the world."""
