"""Reflection: memories that belong together are summed up in one, which names them and stays true to them.

```
groups     which memories of a home belong together             pure
matching   which reflection stands for which group already      pure
wording    what a reflection says and carries                   the summariser, else the medoid
story      read a home, group, match, write                     one transaction a reflection
```
"""

from salience.maintain.reflect.story import Progress, reflect

__all__ = ["Progress", "reflect"]
