"""The client: the engine's verbs over HTTP, and as coroutines.

```
faces       the verbs, with the engine's own signatures: as calls, and as coroutines
calling     from a verb and its arguments to a call: what is sent, and whether it may be sent twice
plain       arguments as JSON values
trying      tries of a call: what may pass, what an answer says, what is told when no try is left
place       the URL and the key
streams     exports and imports, as they pass by
remote      Client and AsyncClient: they send
local       AsyncEngine: an engine's verbs in threads
opening     what `aconnect` returns: awaited, or entered
```
Nothing but sending and waiting is there twice.
"""

from salience.client.faces import AsyncVerbs
from salience.client.local import AsyncEngine
from salience.client.opening import Opening
from salience.client.place import Place
from salience.client.remote import AsyncClient, Client
from salience.client.trying import Patience

__all__ = ["AsyncClient", "AsyncEngine", "AsyncVerbs", "Client", "Opening", "Patience", "Place"]
