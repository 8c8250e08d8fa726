"""The HTTP client: the verbs on a server, sync and async.

```
calls       a verb and its arguments as an HTTP request
client      Client and AsyncClient, retries, exports and imports
```
"""

from salience.client.client import AsyncClient, Client, Endpoint, RetryPolicy

__all__ = ["AsyncClient", "Client", "Endpoint", "RetryPolicy"]
