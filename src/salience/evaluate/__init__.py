"""Measure, compare and tune profiles on your own data; the sample and its demo."""
