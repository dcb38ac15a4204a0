"""The folder of a run: its settings, its metrics, its checkpoints and its plot.

Files that are rewritten are written beside and renamed, so that a crash leaves the old one or the new one;
the metrics are appended line by line.
"""

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from .errors import UsageError

__all__ = ["Event", "Run"]

Event = dict[str, Any]  # keys "event" and "optimizer", and what the kind of event has

CONFIG: Final = "config.json"


class Run:
    """A folder below the folder of runs.

    Parameters
    ----------
    folder : Path
        The folder, which exists.
    config : mapping
        Content of its config.json.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.folder = folder
        self.config = config

    @classmethod
    def create(cls, out: Path, name: str | None, config: Mapping[str, Any]) -> "Run":
        """Make the folder and write its config.json.

        Parameters
        ----------
        out : Path
            Folder of runs; made if missing.
        name : str, optional
            Name of the run; by default the date and time.
        config : mapping
            Settings, as plain JSON values.

        Returns
        -------
        Run
            The new run.

        Raises
        ------
        UsageError
            If the run exists or the folder cannot be made.
        """
        folder = out / (name or time.strftime("%Y-%m-%d-%H%M%S"))
        try:
            folder.mkdir(parents=True)
        except FileExistsError as error:
            raise UsageError(f"argument --name: {str(folder)!r} exists; --resume continues it") from error
        except OSError as error:
            raise UsageError(f"argument --out: cannot make {str(folder)!r}: {error.strerror}") from error
        run = cls(folder, config)
        run.write(CONFIG, lambda path: path.write_text(json.dumps(config, indent=2) + "\n"))
        return run

    @classmethod
    def find(cls, out: Path, name: str | None) -> "Run":
        """Open a run.

        Parameters
        ----------
        out : Path
            Folder of runs.
        name : str, optional
            Name of the run; by default the newest.

        Returns
        -------
        Run
            The run.

        Raises
        ------
        UsageError
            If there is no such run, or its config.json cannot be read.
        """
        configs = [out / name / CONFIG] if name else list(out.glob(f"*/{CONFIG}"))
        configs = sorted((path for path in configs if path.exists()), key=lambda path: path.stat().st_mtime_ns)
        if not configs:
            raise UsageError(f"argument --resume: no run{f' {name!r}' if name else ''} in {str(out)!r}")
        try:
            return cls(configs[-1].parent, json.loads(configs[-1].read_text()))
        except ValueError as error:
            raise UsageError(f"argument --resume: {str(configs[-1])!r} is not JSON: {error}") from error

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.name

    @property
    def metrics(self) -> Path:
        """One JSON object a line, one line an event, in the order of time."""
        return self.folder / "metrics.jsonl"

    def checkpoint(self, label: str) -> Path:
        """Where the state of one optimizer's training is kept.

        Parameters
        ----------
        label : str
            Label of the optimizer.

        Returns
        -------
        Path
            A file, there once something was saved.
        """
        return self.folder / f"{quote(label, safe='=')}.checkpoint"

    def write(self, name: str, writer: Callable[[Path], object]) -> Path:
        """Replace a file in one move.

        Parameters
        ----------
        name : str
            Name of the file in the folder.
        writer : callable
            Takes the path of a temporary file beside it and fills that.

        Returns
        -------
        Path
            The file.
        """
        final = self.folder / name
        temporary = final.with_name(f".{os.getpid()}.{name}")
        try:
            writer(temporary)
            temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)
        return final

    def log(self, event: str, optimizer: str, **fields: str | float | None) -> None:
        """Append an event to the metrics. Numbers that are not finite become null.

        Parameters
        ----------
        event : str
            ``"optimizer"``, ``"step"`` or ``"validation"``.
        optimizer : str
            Label of the optimizer.
        **fields : str, float or None
            What happened.
        """
        line = {
            "event": event,
            "optimizer": optimizer,
            **{key: _plain(value) for key, value in fields.items()},
        }
        with self.metrics.open("a") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")

    def events(self) -> list[Event]:
        """Read the metrics; a last line that a crash cut short is left out.

        Returns
        -------
        list of dict
            Events, oldest first.
        """
        if not self.metrics.exists():
            return []
        lines = self.metrics.read_text().split("\n")  # the last is empty, or cut short
        return [json.loads(line) for line in lines[:-1]]

    def forget(self, optimizer: str, after: int) -> None:
        """Drop the events of an optimizer that are later than its checkpoint: they will happen again.

        Parameters
        ----------
        optimizer : str
            Label of the optimizer.
        after : int
            Steps done at the checkpoint; -1 drops all events.
        """
        kept = [one for one in self.events() if one["optimizer"] != optimizer or one["step"] <= after]
        text = "".join(json.dumps(one) + "\n" for one in kept)
        self.write(self.metrics.name, lambda path: path.write_text(text))


def _plain(value: str | float | None) -> str | float | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
