"""The in-memory index of one tenant's memories: NumPy columns and postings, and the search of them."""

from salience.store.index.columns import Index
from salience.store.index.search import Activations, gather, out_of_scope, sessions, speakers

__all__ = ["Activations", "Index", "gather", "out_of_scope", "sessions", "speakers"]
