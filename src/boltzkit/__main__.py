"""``python -m boltzkit`` is the command `boltzkit`."""

import sys

from boltzkit.cli import main

if __name__ == "__main__":
    sys.exit(main())
