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
from tests.contract.history_contract import HistoryContract
from tests.contract.log_contract import LogContract
from tests.contract.model_contract import ModelContract
from tests.contract.read_contract import ReadContract
from tests.contract.token_contract import TokenContract
from tests.contract.write_contract import WriteContract


class StoreContract(ReadContract, WriteContract, HistoryContract, ModelContract, TokenContract, LogContract):
    """The contract of the protocol `Store`; each test states one rule."""

    @pytest.fixture
    def store(self) -> Iterable[Store]:
        """Return an empty store for vectors of `DIMENSION`; closed afterwards."""
        raise NotImplementedError("override the `store` fixture")
