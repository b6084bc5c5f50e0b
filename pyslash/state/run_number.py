"""Numbers of runs: a later run has a higher one, and no two runs have the same one.

The checkpoint alone cannot tell the next one. Where it goes back to a copy of itself, the numbers in it go back too,
and agents that live on hold the state of runs that it knows nothing of: a number that they know already would make what
they hold part of the new run.
"""

from __future__ import annotations

import secrets
import threading
import time

from pyslash.units import BEFORE_ALL_RUNS, Run

# A number is the time at which its run begins, in nanoseconds since 1970, the lowest bits of which are random: two
# processes that begin at the same moment, or whose clock stands still, begin different runs.
_RANDOM_BITS = 20

_lock = threading.Lock()
_newest = BEFORE_ALL_RUNS  # of this process, whose clock may be set back


def next_run(above: Run) -> Run:
    """The number of a run that begins now: above this one, and above all that this process has begun."""
    global _newest
    with _lock:
        after = (max(above, _newest) >> _RANDOM_BITS) + 1
        ticks = max(time.time_ns() >> _RANDOM_BITS, after)
        _newest = Run(ticks << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS))
        return _newest
