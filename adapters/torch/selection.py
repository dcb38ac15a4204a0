"""Which parameters of a model Muon can take, by the classes of its modules alone."""

from collections import deque
from collections.abc import Iterable

from torch import nn


def get_params_for_muon(model: nn.Module, exclude: Iterable[type[nn.Module]] = (nn.Embedding,)) -> list[nn.Parameter]:
    """Return the trainable parameters of at least two axes outside modules of some classes.

    The selection of DiffSinger's optimizer. It knows no names: an output head that is a plain ``nn.Linear``, a gate
    or a norm with a matrix of gains is selected unless its class is excluded; :class:`MuonAdamW` routes with more
    care.

    Parameters
    ----------
    model
        The model.
    exclude
        Classes of modules that are left out with their subclasses and all that is inside them.

    Returns
    -------
    list of torch.nn.Parameter
        Breadth-first over the modules, each once. A shared parameter is left out if any of its owners is.

    Raises
    ------
    TypeError
        If ``exclude`` holds anything but classes of modules.
    """
    classes = tuple(exclude)
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, nn.Module)):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
            raise TypeError(f"exclude holds {cls!r}; accepted: subclasses of torch.nn.Module")
    selected: dict[int, nn.Parameter] = {}
    left_out: set[int] = set()
    queue: deque[nn.Module] = deque([model])
    while queue:
        module = queue.popleft()
        if isinstance(module, classes):
            left_out.update(id(param) for param in module.parameters())
            continue
        for param in module.parameters(recurse=False):
            if param.requires_grad and param.ndim >= 2:
                selected.setdefault(id(param), param)
        queue.extend(module.children())
    return [param for key, param in selected.items() if key not in left_out]
