"""A query and its best memories read together by a cross-encoder: the rerankers that ship."""
