"""`python -m pyslash`: the command `pyslash`, for an environment whose scripts are not on the PATH."""

import sys

from pyslash.cli import main

if __name__ == "__main__":
    sys.exit(main())
