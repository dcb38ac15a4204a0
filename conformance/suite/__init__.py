"""All checks: ``from zeropower.conformance.suite import *`` in a test file of your own runs them there."""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

_NAME = "zeropower.conformance.suite"  # pytest may import this file under the name of its folder

CHECKS: dict[str, Callable[..., None]] = {}
"""Check by name."""

for _module in iter_modules(__path__):
    _names: dict[str, Any] = vars(import_module(f"{_NAME}.{_module.name}"))
    CHECKS |= {name: value for name, value in _names.items() if name.startswith("test_")}

globals().update(CHECKS)
__all__ = list(CHECKS)  # pyright: ignore[reportUnsupportedDunderAll]
