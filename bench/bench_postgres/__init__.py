"""What one PostgreSQL server holds: a store of a million memories is made, indexed and asked, and the figures told.

```
corpus       tenants of uneven size, the texts of their sessions, and questions on them, all made up
meaning      the embedder: a text's vector follows from its words
loading      memories by COPY, the other indexes afterwards, and what all of it takes on the disk
asking       cases: who asks what; how long the answers take, and what is in them
clients      processes of one or more threads that ask at the same time
measuring    the parts of the measurement, in their order
report       the page
```

Run as `python -m bench.bench_postgres [--memories N] [--tenants N] [--seed N] [--dsn DSN]`.
"""
