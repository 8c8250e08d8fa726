"""From a target and settings to an engine or a client: the only importer of concrete stores and embedders.

```
targets     what a target names: a file, a database, this process, a server
parts       the concrete stores and clients, each imported when it is chosen
stores      the store of a target, and the keys beside it
engines     connect, aconnect, and the engines that other rooms ask for
operating   what an operator does with a store as a whole
```
"""

from typing import TYPE_CHECKING

from salience.loading import on_use

if TYPE_CHECKING:
    from salience.compose.engines import EMBEDDER, SALIENCE, aconnect, checked, connect, engine, local, moved, moving
    from salience.compose.operating import copy, database, distribute, file_of, reinstate, require_store
    from salience.compose.stores import keyring, model, require_folder, store
    from salience.compose.targets import MEMORY, SERVERS, SQLITE, is_url, on_server
else:
    __getattr__, __dir__ = on_use(
        __name__,
        {
            "salience.compose.engines": (
                "EMBEDDER",
                "SALIENCE",
                "aconnect",
                "checked",
                "connect",
                "engine",
                "local",
                "moved",
                "moving",
            ),
            "salience.compose.operating": ("copy", "database", "distribute", "file_of", "reinstate", "require_store"),
            "salience.compose.stores": ("keyring", "model", "require_folder", "store"),
            "salience.compose.targets": ("MEMORY", "SERVERS", "SQLITE", "is_url", "on_server"),
        },
    )

__all__ = [
    "EMBEDDER",
    "MEMORY",
    "SALIENCE",
    "SERVERS",
    "SQLITE",
    "aconnect",
    "checked",
    "connect",
    "copy",
    "database",
    "distribute",
    "engine",
    "file_of",
    "is_url",
    "keyring",
    "local",
    "model",
    "moved",
    "moving",
    "on_server",
    "reinstate",
    "require_folder",
    "require_store",
    "store",
]
