"""All checks: ``from zeropower.conformance.suite import *`` in a test file of your own runs them there."""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

_NAME = "zeropower.conformance.suite"  # pytest may import this file under the name of its folder

_MODULES = [import_module(f"{_NAME}.{module.name}") for module in iter_modules(__path__)]

CHECKS: dict[str, Callable[..., None]] = {
    name: value for module in _MODULES for name, value in vars(module).items() if name.startswith("test_")
}
"""Check by name."""

globals().update(CHECKS)
__all__ = list(CHECKS)  # pyright: ignore[reportUnsupportedDunderAll] - found while it runs
