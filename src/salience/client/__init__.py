"""The HTTP client: the verbs of the engine, sync and async.

```
methods     the verbs with the engine's signatures; AsyncEngine, AsyncOpening
calls       a verb and its arguments as an HTTP request
retries     when to retry; responses to results and errors
client      Client and AsyncClient, exports and imports
```
"""

from salience.client.client import AsyncClient, Client, Endpoint
from salience.client.methods import AsyncEngine, AsyncOpening, AsyncVerbs
from salience.client.retries import RetryPolicy

__all__ = ["AsyncClient", "AsyncEngine", "AsyncOpening", "AsyncVerbs", "Client", "Endpoint", "RetryPolicy"]
