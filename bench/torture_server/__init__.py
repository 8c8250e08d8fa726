"""Torture of a server: keys of several tenants, some bound and some read-only, that must not meet over REST or MCP.

```
cast       homes with a secret each, and who holds which key
asking     one request over REST or MCP, and its answer in a form that can be compared
deeds      random requests, on one's own memories and on those of others
judging    what is foreign in an answer, and what an answer must not be
leaks      threads of all keys at once, keys that are taken back meanwhile, and what stands in the store in the end
timing     whether time tells "not yours" from "not there"
report     what came of it, as lines to read
```

Run as `python -m bench.torture_server leaks|timing`; it ends with 1 where anything is wrong.
"""
