"""Torture of the store on PostgreSQL: tenants that must not meet, servers that are killed, tenants by the thousand.

```
housing                        engines of many tenants on one store, and a role that is neither owner nor superuser
marks, deeds, prowl, leaks     random verbs of all tenants at once, each answer searched for what is of another
cutting                        a proxy that cuts a connection off at its commit
harms, hands, rules, kill      servers killed under writers who never open anew; all that was told must be there
growth                         tenants made in a row, and what each costs
report                         what came of it, as lines to read
```

Run as `python -m bench.torture_postgres leaks|kill|tenants`; it ends with 1 where anything is wrong.
"""
