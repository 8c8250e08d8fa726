"""The HTTP client: the verbs of the engine, sync and async.

```
coroutines  AsyncEngine, AsyncOpening
calls       a verb and its arguments as an HTTP request
client      Client and AsyncClient, retries, exports and imports
```
"""

from salience.client.client import AsyncClient, Client, Endpoint, RetryPolicy
from salience.client.coroutines import AsyncEngine, AsyncOpening

__all__ = ["AsyncClient", "AsyncEngine", "AsyncOpening", "Client", "Endpoint", "RetryPolicy"]
