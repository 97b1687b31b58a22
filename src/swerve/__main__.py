"""`python -m swerve`: the `swerve` command."""

import sys

from swerve.cli.main import console

if __name__ == "__main__":
    sys.exit(console())
