"""What one server answers: `salience serve` as it is run, driven over loopback by wrk, and by clients that also write.

```
texts      sentences and questions, by the thousand
place      stores, filled; keys
loads      what is asked: how much of it is new, how much in sight, by which key
wrk        the tool that asks, and what it tells
alone      the same asked of the engine itself, for the ratio
mixing     clients that recall and write; what was acknowledged is looked for afterwards
ending     the same, while the server is told to end
measuring  the parts, each kept once it is there
report     the page
```
"""
