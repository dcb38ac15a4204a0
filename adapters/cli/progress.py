"""What is shown while training: bars on a terminal, an occasional line elsewhere."""

import statistics
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from .trainer import Step

__all__ = ["Reporter", "reporting"]

RECENT: Final = 50  # steps whose median is shown
LINES: Final = 10  # for each optimizer, where there is no terminal


class Reporter(Protocol):
    """Shows how training goes on."""

    def begin(self, label: str, done: int, total: int) -> None:
        """Start to show an optimizer that has done some of its steps."""
        ...

    def advance(self, step: Step) -> None:
        """Show one more step."""
        ...


@contextmanager
def reporting(console: Console) -> Generator[Reporter]:
    """Choose the reporter that suits a console.

    Parameters
    ----------
    console : Console
        Where to write.

    Yields
    ------
    Reporter
        Bars on a terminal, lines elsewhere.
    """
    if console.is_terminal:
        with _progress(console) as progress:
            yield Bars(progress)
    else:
        yield Lines(console)


class Pace:
    """Times of the recent steps of one optimizer."""

    def __init__(self, done: int, total: int) -> None:
        self.done = done
        self.total = total
        self._steps: deque[Step] = deque(maxlen=RECENT)

    def add(self, step: Step) -> None:
        """Count a step.

        Parameters
        ----------
        step : Step
            The step.
        """
        self.done += 1
        self._steps.append(step)

    def describe(self) -> str:
        """Put loss, times and remaining time into words.

        Returns
        -------
        str
            Loss of the last step, medians of the recent times, and an estimate.
        """
        seconds = statistics.median(step.seconds for step in self._steps)
        optimizer = statistics.median(step.optimizer_seconds for step in self._steps)
        left = seconds * (self.total - self.done)
        return (
            f"loss {self._steps[-1].loss:.3f}  {1000 * seconds:.0f} ms/step, {1000 * optimizer:.1f} "
            f"in the optimizer  {int(left // 60)}:{int(left % 60):02d} left"
        )


class Bars:
    """A progress bar for each optimizer."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = TaskID(0)
        self._pace = Pace(0, 0)

    def begin(self, label: str, done: int, total: int) -> None:
        """Add a bar.

        Parameters
        ----------
        label : str
            Label of the optimizer.
        done, total : int
            Steps.
        """
        self._pace = Pace(done, total)
        self._task = self._progress.add_task(label, completed=done, total=total, pace="starting")

    def advance(self, step: Step) -> None:
        """Move the bar.

        Parameters
        ----------
        step : Step
            The step.
        """
        self._pace.add(step)
        self._progress.update(self._task, completed=self._pace.done, pace=self._pace.describe())


class Lines:
    """Some lines of text for each optimizer."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._label = ""
        self._pace = Pace(0, 0)

    def begin(self, label: str, done: int, total: int) -> None:
        """Write the first line.

        Parameters
        ----------
        label : str
            Label of the optimizer.
        done, total : int
            Steps.
        """
        self._label = label
        self._pace = Pace(done, total)
        self._console.print(f"{label}: step {done} of {total}")

    def advance(self, step: Step) -> None:
        """Write a line now and then.

        Parameters
        ----------
        step : Step
            The step.
        """
        self._pace.add(step)
        done, total = self._pace.done, self._pace.total
        if done % max(1, total // LINES) == 0 or done == total:
            self._console.print(f"{self._label}: step {done} of {total}  {self._pace.describe()}")


def _progress(console: Console) -> Progress:
    label = TextColumn("{task.description}", markup=False)
    pace = TextColumn("{task.fields[pace]}", markup=False)
    return Progress(label, BarColumn(bar_width=24), MofNCompleteColumn(), pace, console=console)
