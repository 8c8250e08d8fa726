"""The HTTP client: the verbs of the engine, sync and async.

```
methods     the verbs with the engine's signatures; AsyncEngine, AsyncOpening
calls       a verb and its arguments as an HTTP request
client      Client and AsyncClient, retries, exports and imports
```
"""

from salience.client.client import AsyncClient, Client, Endpoint, RetryPolicy
from salience.client.methods import AsyncEngine, AsyncOpening, AsyncVerbs

__all__ = ["AsyncClient", "AsyncEngine", "AsyncOpening", "AsyncVerbs", "Client", "Endpoint", "RetryPolicy"]
