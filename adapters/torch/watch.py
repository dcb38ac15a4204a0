"""Notice when the parameters of a module are no longer those that were routed."""

import weakref
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from torch import Tensor, nn

from .names import Named, of_module


class Changes(NamedTuple):
    """What became of the parameters of a module.

    Attributes
    ----------
    named
        All that it has now.
    added
        Those that it did not have, by name.
    removed
        The names of those that it has no longer.
    thawed
        The names of those that were frozen and are trained now.
    """

    named: dict[str, Named]
    added: dict[str, Named]
    removed: list[str]
    thawed: list[str]


class Watched:
    """A module, which may die, and the parameters that it was last known to have.

    Parameters
    ----------
    module
        The module.
    named
        Its parameters, as :func:`zeropower.torch.names.of_module` returns them.
    """

    def __init__(self, module: nn.Module, named: Mapping[str, Named]) -> None:
        self._module = weakref.ref(module)
        self._settle(named)

    def _settle(self, named: Mapping[str, Named]) -> None:
        self._params = {name: param for name, (param, _) in named.items()}  # alive, so that no other has its id
        self._trained = {name for name, param in self._params.items() if param.requires_grad}
        self._signature = _signature(self._params.values())

    def changes(self) -> Changes | None:
        """Return what has changed since the module was last settled; ``None`` for nothing."""
        module = self._module()
        if module is None or _signature(module.parameters()) == self._signature:
            return None
        named = of_module(module)
        known = {id(param) for param in self._params.values()}
        there = {id(param) for param, _ in named.values()}
        left = {name: param for name, param in self._params.items() if id(param) in there}
        return Changes(
            named=named,
            added={name: entry for name, entry in named.items() if id(entry.param) not in known},
            removed=[name for name in self._params if name not in left],
            thawed=[name for name, param in left.items() if param.requires_grad and name not in self._trained],
        )

    def settle(self, changes: Changes) -> None:
        """Take what has changed for granted."""
        self._settle(changes.named)


def _signature(params: Iterable[Tensor]) -> list[tuple[int, bool]]:
    return [(id(param), param.requires_grad) for param in params]
