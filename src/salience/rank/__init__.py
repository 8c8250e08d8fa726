"""Ranking: arithmetic over the columns of a batch."""
