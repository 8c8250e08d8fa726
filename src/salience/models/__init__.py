"""Models: embedders, rerankers, summarisers, judges and fact readers. `registry` chooses them by name."""
