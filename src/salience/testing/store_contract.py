"""Tests that every store passes: subclass `StoreContract` in your tests and override its `store` fixture.

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
from salience.testing.history_contract import HistoryContract
from salience.testing.log_contract import LogContract
from salience.testing.model_contract import ModelContract
from salience.testing.read_contract import ReadContract
from salience.testing.token_contract import TokenContract
from salience.testing.write_contract import WriteContract


class StoreContract(ReadContract, WriteContract, HistoryContract, ModelContract, TokenContract, LogContract):
    """The contract of the protocol `Store`; each test states one rule."""

    @pytest.fixture
    def store(self) -> Iterable[Store]:
        """Return an empty store for vectors of `DIMENSION`; closed afterwards."""
        raise NotImplementedError("override the `store` fixture")
