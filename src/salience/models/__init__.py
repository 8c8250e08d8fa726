"""Models that read text: embedders, rerankers, summarisers, judges and the client of language models."""
