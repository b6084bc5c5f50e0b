"""On the path of an application of `test_side_car`: the Python that is started beside its driver waits for strikes."""

import os
import sys

if "pyslash.side_car" in sys.orig_argv:
    from tests.driver.plugin_job import ORDER
    from tests.faults.points import Arm
    from tests.faults.strike import Strike

    _arm = Arm()

    def _look(epoch: int) -> None:
        with open(os.environ[ORDER]) as order:
            point, first, marker = order.read().split("\n")
        _arm.strikes = [Strike("kill driver", point, int(first), marker, driver=(os.getpid(),))]

    _arm.epoch_begins = _look
    _arm.install()
