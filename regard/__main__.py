"""`python -m regard` is the command line."""

import sys

from regard.cli.main import main

sys.exit(main())
