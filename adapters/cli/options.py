"""What ``zeropower compare`` is asked to do, as one value that a run keeps in its config.json."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from .errors import UsageError
from .model import ModelShape

__all__ = ["Options", "typed"]


@dataclass(frozen=True)
class Options:
    """Everything that decides the course of a run. The defaults of the command line are the defaults here.

    The default sizes make a comparison of two optimizers that takes about two minutes on two cores.

    Parameters
    ----------
    backend : str
        ``"torch"`` or ``"jax"``.
    optimizer : tuple of str
        Requests as typed: ``NAME`` or ``NAME:key=value,...``.
    config : tuple of str
        Absolute paths of configuration files, each an optimizer more.
    text : tuple of str
        Absolute paths of files and folders; empty for the Python standard library.
    steps, batch : int
        Optimizer steps, and sequences in each.
    seed : int
        Seed of the initial weights and of the order of the data.
    context, width, layers, heads : int
        Sizes of the model, as in `zeropower.cli.model.ModelShape`.
    threads : int, optional
        Threads of the torch backend; None for every core that the process may use.
    sweep : bool
        Whether each optimizer is trained over a grid of learning rates.
    """

    backend: str = "torch"
    optimizer: tuple[str, ...] = ("adamw", "muon_adamw")
    config: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    steps: int = 400
    seed: int = 0
    batch: int = 16
    context: int = 128
    width: int = 128
    layers: int = 4
    heads: int = 4
    threads: int | None = None
    sweep: bool = False

    def __post_init__(self) -> None:
        if self.width % (2 * self.heads):
            raise UsageError(
                f"argument --width: must be a multiple of twice --heads ({2 * self.heads}), got {self.width}"
            )
        if self.backend != "torch" and self.threads is not None:
            raise UsageError(f"argument --threads: only the torch backend takes it, got --backend {self.backend}")
        if self.sweep and self.config:
            raise UsageError("argument --sweep: the learning rates of --config are not swept; leave one of them out")

    @property
    def shape(self) -> ModelShape:
        """Sizes of the model."""
        return ModelShape(self.width, self.layers, self.heads, self.context)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values for a JSON file.

        Returns
        -------
        dict
            Field name to number, string, list or None.
        """
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Options":
        """Undo `to_json`.

        Parameters
        ----------
        stored : mapping
            What `to_json` returned, after a trip through a file.

        Returns
        -------
        Options
            Equal to the one that was stored.

        Raises
        ------
        UsageError
            If the names are not those of this class: another version wrote them.
        """
        names = {field.name for field in fields(cls)}
        if names != set(stored):
            odd = ", ".join(sorted(names ^ set(stored)))
            raise UsageError(f"the run was written by another version of zeropower: options {odd} differ")
        return cls(**typed(stored))

    def check_same(self, given: Mapping[str, Any], run: str) -> None:
        """Refuse options that contradict those of a run that is to be resumed.

        Parameters
        ----------
        given : mapping
            Field name to value, for the options that were typed.
        run : str
            Name of the run, for the message.

        Raises
        ------
        UsageError
            If a typed value differs from the field.
        """
        for name, value in given.items():
            started = getattr(self, name)
            if value != started:
                raise UsageError(
                    f"argument --{name}: {_spell(value)} conflicts with run {run!r}, which was started with "
                    f"{_spell(started)}; leave it out to resume"
                )


def typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the fields of `Options` out of a mapping and make tuples of lists.

    Parameters
    ----------
    values : mapping
        Name to value, as argparse or a JSON file gives them.

    Returns
    -------
    dict
        Arguments for `Options`, without those that `values` lacks.
    """
    given: dict[str, Any] = {field.name: values[field.name] for field in fields(Options) if field.name in values}
    for name in {"optimizer", "config", "text"} & given.keys():
        given[name] = tuple(given[name])
    return given


def _spell(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "the default"
    return str(value)
