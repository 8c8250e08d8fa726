"""Texts to vectors: the embedders that ship, and what their cosines mean."""
