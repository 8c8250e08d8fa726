"""What recalls leave behind is written together, a moment later, and told at once.

```
queue   what waits to be written, and who writes it
store   a store that shows what waits as if it were written
```
"""

from salience.access_log.queue import Touches, queue_of, settle_all
from salience.access_log.store import TouchedStore

__all__ = ["TouchedStore", "Touches", "queue_of", "settle_all"]
