"""`python -m maskedcrf`: the command line."""

import sys

from maskedcrf.cli import main

if __name__ == "__main__":
    sys.exit(main())
