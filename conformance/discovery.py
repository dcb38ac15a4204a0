"""From the name of a backend to its record."""

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from zeropower.backend import Backend

ENTRY_POINTS = "zeropower.backends"
ALL = "all"


class Missing(NamedTuple):
    """A backend whose framework is not installed.

    Attributes
    ----------
    name
        Its name.
    reason
        What is missing.
    """

    name: str
    reason: str


class DiscoveryError(Exception):
    """A name that leads to no backend; the message is one line for the user."""


def find_backends(names: list[str]) -> list[Backend | Missing]:
    """Return the backends of some names.

    Parameters
    ----------
    names
        Each the name of an entry point of the group ``zeropower.backends``, ``package.module:ATTRIBUTE``, or
        ``"all"``: every entry point, those that are not installed as :class:`Missing`.

    Returns
    -------
    list of Backend or Missing
        Each once, in the order of the names.

    Raises
    ------
    DiscoveryError
        If a name is unknown, or a backend that is asked for by name is not installed or no :class:`Backend`.
    """
    known = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    found: dict[str, Backend | Missing] = {}
    for name in names:
        if name == ALL:
            for entry in known.values():
                found.setdefault(entry.name, _load(entry))
            continue
        if name not in known and ":" not in name:
            accepted = ", ".join(map(repr, [*known, ALL]))
            raise DiscoveryError(f"backend={name!r} is not known; accepted: {accepted}, or 'package.module:BACKEND'")
        entry = known.get(name) or EntryPoint(name, name, ENTRY_POINTS)
        backend = _load(entry)
        if isinstance(backend, Missing):
            raise DiscoveryError(f"backend={name!r} cannot be imported: {backend.reason}")
        found[name] = backend
    return list(found.values())


def _load(entry: EntryPoint) -> Backend | Missing:
    try:
        module = import_module(entry.module)
        backend = getattr(module, entry.attr, None)
        if not isinstance(backend, Backend):
            raise DiscoveryError(f"backend={entry.name!r}: {entry.value} is {backend!r}; accepted: a zeropower.Backend")
        backend.namespace()
    except DiscoveryError:
        raise
    except Exception as error:
        # Only a whole package that is not there is a framework that is not installed; all else is a fault.
        if isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name:
            return Missing(entry.name, str(error))
        raise DiscoveryError(f"backend={entry.name!r}: {entry.value} raised {error!r}") from error
    return backend
