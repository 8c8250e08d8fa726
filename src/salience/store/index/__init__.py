"""The in-memory index of one tenant's memories: NumPy columns and postings, and the search of them."""

from salience.store.index.columns import Index
from salience.store.index.search import Activations, facet_counts, gather, out_of_scope, sessions, speakers

__all__ = ["Activations", "Index", "facet_counts", "gather", "out_of_scope", "sessions", "speakers"]
