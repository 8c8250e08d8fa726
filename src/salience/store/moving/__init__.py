"""All that a store holds, brought into another one row by row, whichever database each is in.

```
mark         what a store says of itself while a copy into it is not whole, and who is refused then
tables       what is copied: tables, keys, statements, and the checksum of rows
side         what a copy asks of a database; on_sqlite, on_postgres: the two that there are
merge        rows of two stores beside each other, in the order of their keys
claim        whether a copy may begin or go on, and the pins that it brings
copy         the story: claim, bring, compare, finish
```
"""
