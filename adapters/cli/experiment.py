"""One run of ``zeropower compare`` from its options to its report."""

import platform
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from zeropower import __version__

from .batches import Batches
from .configs import configured
from .errors import INTERRUPTED, OK, UsageError
from .history import histories
from .interrupt import interruptible
from .loop import Surroundings, train
from .model import initial_weights
from .optimizers import Chosen, Settings, choose
from .options import Options
from .plot import plot
from .progress import reporting
from .report import baseline, comparison, sweep
from .runs import Run
from .schedule import learning_rate_factors
from .text import Text, collect
from .trainer import Backend, Task, load_backend

__all__ = ["Experiment"]

PLAIN_WIDTH: Final = 120  # columns where there is no terminal to ask


class Experiment:
    """A run that is about to start or to go on.

    Parameters
    ----------
    run : Run
        Its folder.
    options : Options
        What was asked for.
    text : Text
        What is learned.
    backend : Backend
        What it is trained with.
    """

    def __init__(self, run: Run, options: Options, text: Text, backend: Backend) -> None:
        self._run = run
        self._options = options
        self._text = text
        self._backend = backend
        self._chosen = [
            Chosen(one["label"], one["name"], Settings(**one["settings"]), one.get("config"))
            for one in run.config["optimizers"]
        ]

    @classmethod
    def start(cls, out: Path, name: str | None, options: Options) -> "Experiment":
        """Check everything, then make the folder of a new run.

        Parameters
        ----------
        out : Path
            Folder of runs.
        name : str, optional
            Name of the run; by default the date and time.
        options : Options
            What is asked for.

        Returns
        -------
        Experiment
            Ready to run.
        """
        chosen = choose(options.optimizer, options.backend, sweep=options.sweep)
        chosen = (*chosen, *configured(options.config, options.steps))
        text = collect(options.text, context=options.context)
        weights = initial_weights(options.shape, options.seed)
        backend = load_backend(options.backend, options.threads)
        config = {
            "options": options.to_json(),
            "optimizers": [asdict(one) for one in chosen],
            "parameters": sum(weight.size for weight in weights.values()),
            "text": {"files": text.files, "bytes": text.size, "sha256": text.digest},
            "versions": {
                "zeropower": __version__,
                "python": platform.python_version(),
                "backend": backend.version,
            },
        }
        return cls(Run.create(out, name, config), options, text, backend)

    @classmethod
    def resume(cls, out: Path, name: str | None, given: Mapping[str, Any]) -> "Experiment":
        """Open a run and check that it can go on as it began.

        Parameters
        ----------
        out : Path
            Folder of runs.
        name : str, optional
            Name of the run; by default the newest.
        given : mapping
            Options that were typed, by the field names of `Options`.

        Returns
        -------
        Experiment
            Ready to run.

        Raises
        ------
        UsageError
            If there is no such run, a typed option contradicts it, or its text has changed.
        """
        run = Run.find(out, name)
        options = Options.from_json(run.config.get("options", {}))
        options.check_same(given, run.name)
        text = collect(options.text, context=options.context)
        if text.digest != run.config["text"]["sha256"]:
            raise UsageError(f"argument --resume: the text of run {run.name!r} has changed since it started")
        return cls(run, options, text, load_backend(options.backend, options.threads))

    def run(self) -> int:
        """Train what is not trained yet, then report.

        Returns
        -------
        int
            Exit code: 0 when everything is trained, 130 when interrupted after saving.
        """
        console = Console(highlight=False, markup=False)
        if not console.is_terminal:
            console.width = PLAIN_WIDTH
        self._introduce(console)
        with interruptible() as stopped:
            finished = self._train(console, stopped)
        self._report(console)
        if finished:
            return OK
        out = self._run.folder.parent
        elsewhere = [] if out == Path("runs") else ["--out", str(out)]
        command = shlex.join(["zeropower", "compare", "--resume", "--name", self._run.name, *elsewhere])
        console.print(f"Interrupted. All steps done are saved; to continue: {command}", soft_wrap=True)
        return INTERRUPTED

    def _introduce(self, console: Console) -> None:
        options, text = self._options, self._text
        source = " ".join(options.text) or f"the standard library of Python {platform.python_version()}"
        console.print(f"Text: {text.files} files, {text.size / 1e6:.1f} MB, from {source}", soft_wrap=True)
        console.print(
            f"Model: {self._run.config['parameters']:,} parameters, {options.layers} layers of width "
            f"{options.width}, context {options.context}, batch {options.batch}; {self._backend.version}"
        )

    def _train(self, console: Console, stopped: Callable[[], bool]) -> bool:
        options = self._options
        batches = Batches(self._text, options)
        factors = learning_rate_factors(options.steps)
        before = histories(self._run.events())
        with reporting(console) as reporter:
            around = Surroundings(self._run, batches, options.steps, reporter, stopped)
            for one in self._chosen:
                if one.label in before and before[one.label].finished(options.steps):
                    continue
                task = Task(options.shape, options.batch, options.seed, one, factors)
                if stopped() or not train(self._backend.trainer(task), one.label, around):
                    return False
        return True

    def _report(self, console: Console) -> None:
        found = histories(self._run.events())
        against = baseline(self._chosen).label
        image = self._run.write("loss.png", lambda path: plot(found, against, path))
        for label, history in found.items():
            if history.plan is not None and not self._options.sweep:
                console.print(f"\nPlan of {label}:\n{history.plan}\n", soft_wrap=True)
        table = sweep if self._options.sweep else comparison
        console.print(table(self._chosen, found, self._options.steps))
        console.print(f"Written: {image}, {self._run.metrics}", soft_wrap=True)
