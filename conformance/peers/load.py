"""Imports of peers that a plain import statement does not manage, and silence around peers."""

import os
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from types import ModuleType
from unittest.mock import patch


@contextmanager
def quiet() -> Generator[None]:
    """Keep what a peer warns of or prints from those who run it.

    Yields
    ------
    None
        Nothing.
    """
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def load_submodule(module: str) -> ModuleType:
    """Import a module; where a package around it fails to import, do without that package's own code.

    Parameters
    ----------
    module
        The dotted name.

    Returns
    -------
    types.ModuleType
        The module. Unless all of its packages imported, ``sys.modules`` is as before.
    """
    root = module.partition(".")[0]
    if module in sys.modules:
        return sys.modules[module]
    before = _modules_below(root)
    try:
        return import_module(module)
    except ImportError:
        _restore_modules_below(root, before)
        with _empty_packages(module, before):
            return import_module(module)


@contextmanager
def _empty_packages(module: str, before: dict[str, ModuleType]) -> Generator[None]:
    """Stand empty modules that know their folders in for the packages around a module."""
    root, *inner, _ = module.split(".")
    spec = find_spec(root)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    try:
        for depth in range(len(inner) + 1):
            package = ModuleType(".".join([root, *inner[:depth]]))
            package.__path__ = [os.path.join(folder, *inner[:depth]) for folder in folders]
            sys.modules[package.__name__] = package
        yield
    finally:
        _restore_modules_below(root, before)


def _modules_below(root: str) -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name == root or name.startswith(f"{root}.")}


def _restore_modules_below(root: str, before: dict[str, ModuleType]) -> None:
    for name in _modules_below(root):
        del sys.modules[name]
    sys.modules.update(before)


def load_keras(module: str = "keras") -> ModuleType:
    """Import Keras, with PyTorch below it unless it is imported already or the environment names another.

    Its first import writes a file of settings where there is none, the backend among them: here, to a folder that
    goes again.

    Parameters
    ----------
    module
        Keras or a module of it.

    Returns
    -------
    types.ModuleType
        The module.
    """
    if "keras" in sys.modules:
        return import_module(module)
    with TemporaryDirectory() as folder, patch.dict(os.environ):
        os.environ.setdefault("KERAS_BACKEND", "torch")
        os.environ.setdefault("KERAS_HOME", folder)
        return import_module(module)
