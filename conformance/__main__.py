"""``python -m zeropower.conformance``."""

import sys

from zeropower.conformance.runner import main

if __name__ == "__main__":
    sys.exit(main())
