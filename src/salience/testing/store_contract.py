"""The laws that every store keeps: subclass `StoreContract` in your tests and override its `store` fixture.

```python
class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self):
        store = MyStore(dimension=DIMENSION)
        yield store
        store.close()
```
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from salience.ports import Store
from salience.testing.adopt_laws import AdoptLaws
from salience.testing.context_laws import ContextLaws
from salience.testing.distinction_laws import DistinctionLaws
from salience.testing.erase_laws import EraseLaws, PruneLaws
from salience.testing.history_laws import HistoryLaws
from salience.testing.model_laws import DeriveLaws, PinLaws
from salience.testing.read_laws import ReadLaws
from salience.testing.request_laws import RequestLaws
from salience.testing.touch_laws import TouchLaws
from salience.testing.upkeep_laws import UpkeepLaws
from salience.testing.write_laws import WriteLaws


class StoreContract(
    ReadLaws, ContextLaws, DistinctionLaws, WriteLaws, TouchLaws, HistoryLaws, EraseLaws, PruneLaws, UpkeepLaws,
    RequestLaws, PinLaws, DeriveLaws, AdoptLaws,
):  # fmt: skip
    """The laws; each test is one."""

    @pytest.fixture
    def store(self) -> Iterable[Store]:
        """Return an empty store for vectors of `DIMENSION`; closed afterwards."""
        raise NotImplementedError("override the `store` fixture")
