"""Torture of the embedded store: processes killed, disks filled, crowds on one file; all that was told must be there.

```
journal                 what a writer is about to do and what it was told, kept where a kill cannot take it away
verbs, thoughts, mix    the verbs that a writer mixes, each with what it is going to write
writing                 a writer: one verb after the other, each noted before and after
check                   a file held against the journals of its writers
processes, ways, crash  kill -9, at random moments
pressures, full_disk    no space, and files that cannot be written
crowd                   many processes on one file
report                  what came of it, as lines to read
```

Run as `python -m bench.torture crash|disk|crowd`; it ends with 1 where anything was lost.
"""
