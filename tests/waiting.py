"""How long a test waits for another thread, process or server before it fails."""

from typing import Final

PATIENCE: Final = 300.0
"""In seconds: far more than is needed, since a busy machine may take a hundred times as long as a quiet one."""
