"""The command line: every verb of the API, the store's upkeep, profiles, evaluation, and a demo.

```
main        the command `salience`: global options, commands, errors as exit codes
options     options that commands share, times, and the decorator that registers a command
output      JSON, lines or a terminal view; progress, questions, sanitizing
results     recalls, memories and receipts as lines and as tables
memories, explain, files, maintain, db, serve, keys, mcp, hook, chat, profiles, evaluate, config, demo
            the commands; each imports the engine when it is called, so that help starts fast
```
"""

from salience.cli.main import app, main

__all__ = ["app", "main"]
