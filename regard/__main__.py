"""`python -m regard` is the command line."""

import sys

from regard.cli import main

sys.exit(main())
