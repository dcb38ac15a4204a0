"""Optimizers that a configuration file describes."""

from collections.abc import Sequence
from pathlib import Path

from zeropower.config import read_config

from .errors import UsageError
from .optimizers import Chosen, Settings

__all__ = ["configured"]


def configured(paths: Sequence[str]) -> tuple[Chosen, ...]:
    """Read configuration files.

    Parameters
    ----------
    paths : sequence of str
        TOML files with the fields of `zeropower.config.OptimizerConfig`, at the top or in a table ``[optimizer]``.

    Returns
    -------
    tuple of Chosen
        One for each, called by the name of its file.

    Raises
    ------
    UsageError
        If a file cannot be read or used, or two have the same name.
    """
    chosen: list[Chosen] = []
    for path in paths:
        try:
            config = read_config(Path(path))
        except (OSError, TypeError, ValueError) as error:
            raise UsageError(f"argument --config: {path}: {error}") from None
        label = Path(path).stem
        if label in [one.label for one in chosen]:
            raise UsageError(f"argument --config: two files are called {label!r}")
        settings = Settings(config.learning_rate, config.weight_decay)
        chosen.append(Chosen(label, "config", settings, config.to_dict()))
    return tuple(chosen)
