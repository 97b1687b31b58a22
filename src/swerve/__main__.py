"""`python -m swerve`: the `swerve` command."""

import sys

from swerve.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
