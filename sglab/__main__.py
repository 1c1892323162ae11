"""`python -m sglab`: the command, where no script of it is on PATH."""

import sys

from sglab.cli import main

sys.exit(main())
