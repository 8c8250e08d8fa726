"""What the engine asks of the world, and the values it asks with: protocols, needs and changes."""

from salience.ports.changes import (
    Add,
    Adopt,
    Change,
    Derive,
    Distinguish,
    Erase,
    Lease,
    Prune,
    Revise,
    Stored,
    Touch,
)
from salience.ports.models import (
    EDGE,
    FINGERPRINTED,
    SAME_MODEL,
    Calibration,
    Clustering,
    Embedder,
    Extract,
    Extractor,
    Model,
    Reranker,
    Summariser,
    Summary,
)
from salience.ports.needs import (
    Near,
    Need,
)
from salience.ports.store import (
    Store,
    World,
)

__all__ = [
    "EDGE",
    "FINGERPRINTED",
    "SAME_MODEL",
    "Add",
    "Adopt",
    "Calibration",
    "Change",
    "Clustering",
    "Derive",
    "Distinguish",
    "Embedder",
    "Erase",
    "Extract",
    "Extractor",
    "Lease",
    "Model",
    "Near",
    "Need",
    "Prune",
    "Reranker",
    "Revise",
    "Store",
    "Stored",
    "Summariser",
    "Summary",
    "Touch",
    "World",
]
