"""`pyslash` as the program that spark-submit runs, which wants a file."""

import sys

del sys.path[0]  # the folder of this file, whose modules are no top-level ones

from pyslash.cli import main  # noqa: E402

sys.exit(main())
