"""Salience: memory for AI agents that ranks what matters, shows why, and loses nothing."""

__version__ = "0.1.0"
