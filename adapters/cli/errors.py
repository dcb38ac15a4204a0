"""How the command line ends: its exit codes, and the one exception that is the user's to mend."""

import importlib.util
from typing import Final

__all__ = ["INTERRUPTED", "OK", "USAGE", "UsageError", "require"]

OK: Final = 0
USAGE: Final = 2  # as argparse has it
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells report it


class UsageError(Exception):
    """Input that cannot be used; `zeropower.cli.main` prints the message as one line and returns 2."""


def require(extra: str, *modules: str) -> None:
    """Check that optional packages are installed, without importing them.

    Parameters
    ----------
    extra : str
        Extra of the ``zeropower`` distribution that brings them, for the message.
    *modules : str
        Names of top-level modules.

    Raises
    ------
    UsageError
        If one is missing.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UsageError(f"this command needs {module}: pip install 'zeropower[{extra}]'")
