"""``zeropower compare``: train a small language model with several optimizers and compare them."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .errors import require
from .optimizers import TABLES
from .options import Options, typed

__all__ = ["SUMMARY", "configure", "run"]

SUMMARY: Final = "Train a byte-level transformer on text with several optimizers and compare them."

_DEFAULTS: Final = Options()
_EXAMPLES: Final = """\
examples:
  zeropower compare
  zeropower compare --text ~/notes book.txt --steps 1000 --width 256
  zeropower compare --optimizer adamw muon_adamw:lr=0.01 muon_adamw:lr=0.02,weight_decay=0
  zeropower compare --optimizer muon_adamw muon_adamw:dialect=keller,lr=0.05 muon_adamw:dialect=normuon,lr=0.05
  zeropower compare --config adamw.toml hybrid.toml
  zeropower compare --sweep
  zeropower compare --resume
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``zeropower compare``.

    Options that are not typed stay out of the namespace, so that resuming can tell them from typed ones.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser of the sub-command.
    """
    known = "\n".join(f"  {backend}: {', '.join(table)}" for backend, table in TABLES.items())
    parser.argument_default = argparse.SUPPRESS
    parser.epilog = f"optimizers:\n{known}\n\n{_EXAMPLES}"
    add = parser.add_argument
    add("--backend", choices=sorted(TABLES), help=f"framework (default: {_DEFAULTS.backend})")
    add(
        "--optimizer",
        nargs="+",
        action="extend",
        metavar="NAME[:KEY=VALUE,...]",
        help="optimizers, each with lr, weight_decay or adamw_lr (the rate of what Muon does not train) "
        f"if the tuned ones are not wanted (default: {' '.join(_DEFAULTS.optimizer)})",
    )
    add(
        "--config",
        nargs="+",
        action="extend",
        type=_absolute,
        metavar="FILE.toml",
        help="optimizers from configuration files, called as the files, with their own schedules; without --optimizer, "
        "these alone",
    )
    add(
        "--text",
        nargs="+",
        action="extend",
        type=_absolute,
        metavar="PATH",
        help="files or folders to learn from; the last tenth validates (default: Python's standard library)",
    )
    for name, lowest, meaning in (
        ("steps", 1, "optimizer steps"),
        ("seed", 0, "seed of the initial weights and the order of the data"),
        ("batch", 1, "sequences in a step"),
        ("context", 1, "bytes in a sequence"),
        ("width", 2, "size of the residual stream"),
        ("layers", 1, "transformer blocks"),
        ("heads", 1, "attention heads in a block"),
    ):
        default = getattr(_DEFAULTS, name)
        add(f"--{name}", type=_integer(lowest), metavar="N", help=f"{meaning} (default: {default})")
    add(
        "--threads",
        type=_integer(1),
        metavar="N",
        help="threads of torch (default: one for each core)",
    )
    add("--sweep", action="store_true", help="try a grid of learning rates around each optimizer's own")
    add("--out", type=Path, default=Path("runs"), metavar="DIR", help="folder of the runs (default: runs)")
    add(
        "--name",
        type=_run_name,
        default=None,
        help="name of the run (default: date and time; with --resume: newest)",
    )
    add("--resume", action="store_true", default=False, help="continue a run that was interrupted")


def run(arguments: argparse.Namespace) -> int:
    """Train, compare and report.

    Parameters
    ----------
    arguments : argparse.Namespace
        What `configure`'s parser returned.

    Returns
    -------
    int
        Exit code: 0 when everything is trained, 130 when interrupted after saving.
    """
    require("cli", "rich", "matplotlib")
    from .experiment import Experiment

    given = typed(vars(arguments))
    if arguments.resume:
        experiment = Experiment.resume(arguments.out, arguments.name, given)
    else:
        if "config" in given:
            given.setdefault("optimizer", ())
        experiment = Experiment.start(arguments.out, arguments.name, Options(**given))
    return experiment.run()


def _integer(lowest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = lowest - 1
        if number < lowest:
            raise argparse.ArgumentTypeError(f"must be an integer of at least {lowest}, got {text!r}")
        return number

    return parse


def _run_name(text: str) -> str:
    if text in {"", ".", ".."} or Path(text).name != text:
        raise argparse.ArgumentTypeError(f"must be the name of a folder, without slashes, got {text!r}")
    return text


def _absolute(text: str) -> str:
    return str(Path(text).expanduser().absolute())
