"""Types of the arrays of a recall."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]
Numbers32 = NDArray[np.int32]
Int8 = NDArray[np.int8]
