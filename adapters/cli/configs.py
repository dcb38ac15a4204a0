"""Optimizers that a configuration file describes."""

from collections.abc import Sequence
from pathlib import Path

from zeropower.config import read_config
from zeropower.resolution import resolve_lr_schedule

from .errors import UsageError
from .optimizers import Chosen, Settings

__all__ = ["configured"]


def configured(paths: Sequence[str], steps: int) -> tuple[Chosen, ...]:
    """Read configuration files.

    Parameters
    ----------
    paths : sequence of str
        TOML files with the fields of `zeropower.config.OptimizerConfig`, at the top or in a table ``[optimizer]``.
    steps : int
        Steps of the run, which their schedules must fit.

    Returns
    -------
    tuple of Chosen
        One for each, called by the name of its file.

    Raises
    ------
    UsageError
        If a file cannot be read or used, or two have the same name.
    """
    chosen: dict[str, Chosen] = {}
    for path in paths:
        label = Path(path).name  # with its suffix, so that no optimizer of the tables has it
        if label in chosen:
            raise UsageError(f"argument --config: two files are called {label!r}")
        try:
            config = read_config(Path(path))
        except (OSError, TypeError, ValueError) as error:
            raise UsageError(f"argument --config: {error}") from None
        try:
            resolve_lr_schedule(config, steps)
        except ValueError as error:
            raise UsageError(f"argument --config: {path}: {error}") from None
        settings = Settings(config.learning_rate, config.weight_decay)
        chosen[label] = Chosen(label, "config", settings, config.to_dict())
    return tuple(chosen.values())
