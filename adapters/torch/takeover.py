"""States of other projects' optimizers as states that this one's ``load_state_dict`` takes."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from zeropower.checks import require_choice, require_number
from zeropower.momentum import MOMENTUM_FORMS, MomentumForm, convert_momentum


def renamed_state(
    state_dict: Mapping[str, Any],
    names: Mapping[str, str],
    *,
    momentum_form: tuple[MomentumForm, MomentumForm] | None = None,
    momentum: float | None = None,
) -> dict[str, Any]:
    """Return the state of another optimizer under the names that this one has.

    Options are not taken over: the optimizer that loads it keeps its own, learning rate included. Parameters must come
    in the same order, and in as many groups.

    Parameters
    ----------
    state_dict
        What the other optimizer's ``state_dict()`` returned. Never written.
    names
        Its names of what is kept of a parameter -> ``"momentum_buffer"``, ``"exp_avg"``, ``"exp_avg_sq"``, ``"step"``;
        what has no name here is left out.
    momentum_form
        Its form of momentum and the one that is wanted, where they differ.
    momentum
        The decay of the momentum, by which the forms differ.

    Returns
    -------
    dict
        For ``load_state_dict``; tensors are shared where nothing changes.

    Raises
    ------
    ValueError
        If a form is unknown, or ``momentum`` is missing where the forms need it.

    Examples
    --------
    >>> import torch
    >>> from zeropower.torch import Muon, renamed_state
    >>> weight = torch.nn.Parameter(torch.ones(2, 3))
    >>> theirs = {"state": {0: {"momentum": torch.ones(2, 3)}}, "param_groups": [{"params": [0], "mu": 0.95}]}
    >>> optimizer = Muon([weight], dialect="dion")
    >>> optimizer.load_state_dict(renamed_state(theirs, {"momentum": "momentum_buffer"}))
    >>> optimizer.state[weight]["momentum_buffer"].sum().item()
    6.0
    """
    if momentum_form is not None:
        for form in momentum_form:
            require_choice("momentum_form", form, MOMENTUM_FORMS)
        if momentum is None:
            raise ValueError("momentum=None; accepted with momentum_form: the decay of the momentum, in [0, 1)")
        require_number("momentum", momentum, low=0.0, high=1.0, high_open=True)

    def taken(name: str, value: Any) -> Any:
        if name != "momentum_buffer" or momentum_form is None or momentum is None or not isinstance(value, Tensor):
            return value
        return convert_momentum(value, *momentum_form, beta=momentum)

    state = {
        number: {names[name]: taken(names[name], value) for name, value in entry.items() if name in names}
        for number, entry in state_dict["state"].items()
    }
    groups = [{"params": list(group["params"])} for group in state_dict["param_groups"]]
    return {"state": {number: entry for number, entry in state.items() if entry}, "param_groups": groups}
