"""What happens to memories between recalls: tiers, expiry, retention, and the passes that see to them.

```
tiers     who has earned the next tier; the end of a session, consolidation
steps     expiry, retention of old versions
story     one pass, held by one process at a time
loop      pass after pass
```
"""

from salience.maintain.upkeep.loop import Pace, Stop, keep
from salience.maintain.upkeep.story import upkeep
from salience.maintain.upkeep.tiers import consolidate, earned_tier, end_session

__all__ = ["Pace", "Stop", "consolidate", "earned_tier", "end_session", "keep", "upkeep"]
