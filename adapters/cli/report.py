"""The tables at the end of a run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.table import Table

from .history import Crossing, History
from .optimizers import Chosen, without_lr

__all__ = ["baseline", "comparison", "sweep"]


def baseline(chosen: Sequence[Chosen]) -> Chosen:
    """Choose the optimizer to measure the others against: AdamW where it takes part, else the first.

    Parameters
    ----------
    chosen : sequence of Chosen
        Those of the run.

    Returns
    -------
    Chosen
        One of them.
    """
    return next((one for one in chosen if one.name == "adamw"), chosen[0])


def comparison(chosen: Sequence[Chosen], found: Mapping[str, History], steps: int) -> Table:
    """Compare the optimizers of a run.

    Parameters
    ----------
    chosen : sequence of Chosen
        Those of the run.
    found : mapping of str to History
        What happened, by label; optimizers that never began are missing.
    steps : int
        Steps that were wanted.

    Returns
    -------
    Table
        One row for each optimizer.
    """
    against = baseline(chosen).label
    target = _final_loss(found.get(against), steps)
    table = Table(
        title=f"After {steps} steps",
        caption="Loss in nats per byte. Seconds are those of the steps alone: no validation, checkpoint or "
        "compilation.",
        caption_justify="left",
    )
    for heading in (
        "optimizer",
        "final validation loss",
        f"steps to {against}'s",
        f"seconds to {against}'s",
        "seconds in all",
        "in the optimizer",
        "optimizer state",
    ):
        table.add_column(heading, justify="left" if heading == "optimizer" else "right", overflow="fold")
    for one in chosen:
        history = found.get(one.label)
        if history is None or not history.training.steps:
            table.add_row(one.label, *["-"] * 6)
            continue
        done = history.training.steps[-1]
        table.add_row(
            one.label,
            _loss(history.final_loss) if done == steps else f"stopped at step {done}",
            *_crossing(history.reaches(target), found[against]),
            f"{history.seconds:.1f}",
            f"{100 * history.optimizer_seconds / history.seconds:.1f} %",
            f"{history.state_bytes / 2**20:.1f} MiB",
        )
    return table


def sweep(chosen: Sequence[Chosen], found: Mapping[str, History], steps: int) -> Table:
    """Compare the learning rates of a sweep.

    Parameters
    ----------
    chosen : sequence of Chosen
        Those of the run, an optimizer's learning rates one after the other.
    found : mapping of str to History
        What happened, by label.
    steps : int
        Steps that were wanted.

    Returns
    -------
    Table
        One row for each learning rate, the best of each optimizer marked.
    """
    table = Table(title=f"Validation loss after {steps} steps, nats per byte")
    for heading in ("optimizer", "learning rate", "final validation loss", ""):
        table.add_column(heading, justify="left" if heading in {"optimizer", ""} else "right")
    groups: dict[tuple[object, ...], list[Chosen]] = {}
    for one in chosen:
        groups.setdefault((one.name, replace(one.settings, lr=0.0)), []).append(one)
    for group in groups.values():
        losses = [_final_loss(found.get(one.label), steps) for one in group]
        best = min((loss for loss in losses if not math.isnan(loss)), default=math.nan)
        for one, loss in zip(group, losses, strict=True):
            table.add_row(without_lr(one.label), f"{one.settings.lr:g}", _loss(loss), "best" if loss == best else "")
        table.add_section()
    return table


def _final_loss(history: History | None, steps: int) -> float:
    return history.final_loss if history is not None and history.finished(steps) else math.nan


def _loss(loss: float) -> str:
    return "not finite" if math.isnan(loss) else f"{loss:.4f}"


def _crossing(crossing: Crossing | None, against: History) -> tuple[str, str]:
    if crossing is None:
        return "-", "-"
    return (
        _with_share(crossing.steps, against.training.steps[-1], "0f"),
        _with_share(crossing.seconds, against.seconds, "1f"),
    )


def _with_share(value: float, whole: float, digits: str) -> str:
    return f"{value:.{digits}} ({100 * value / whole:.0f} %)"
