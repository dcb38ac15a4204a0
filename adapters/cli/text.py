"""The text that is learned: which files it is made of, in which order, and what is kept for validation."""

import hashlib
import os
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import UsageError

__all__ = ["LIMIT", "Text", "collect"]

LIMIT: Final = 20_000_000  # bytes; more would slow the start and no short run sees it
VALIDATION_SHARE: Final = 0.1
PROBE: Final = 8192  # a file with a zero byte in its first PROBE bytes is taken for binary
ORDER_SEED: Final = 0  # of the order of the files; the seed of a run does not change the text
CACHES: Final = frozenset({"__pycache__"})
# Folders of the standard library that are not its own sources, or are tables that a program wrote.
NOT_SOURCES: Final = CACHES | {
    "site-packages", "dist-packages", "test", "tests", "idle_test", "encodings", "pydoc_data"
}  # fmt: skip


class Text(NamedTuple):
    """A text, split for training.

    The files are sorted by path, shuffled by a fixed seed and joined; the last tenth of the bytes validates.
    The shuffle makes that tenth a sample of all files, and with one file it is simply its end.
    """

    train: NDArray[np.uint8]
    validation: NDArray[np.uint8]
    files: int  # number that were read, the last perhaps in part
    digest: str  # SHA-256 of all bytes, in hexadecimal

    @property
    def size(self) -> int:
        """Bytes in both parts."""
        return len(self.train) + len(self.validation)


def collect(paths: Sequence[str | Path], *, context: int, limit: int = LIMIT) -> Text:
    """Read a text.

    Files are read as bytes. In folders, everything below is taken except hidden files and folders,
    ``__pycache__``, and files with a zero byte near their start, which are taken for binary.

    Parameters
    ----------
    paths : sequence of str or Path
        Files and folders; none for the sources of the Python standard library.
    context : int
        Bytes in a sequence; both parts must hold one and the byte after it.
    limit : int, default 20 000 000
        Bytes to stop at.

    Returns
    -------
    Text
        The bytes for training and for validation.

    Raises
    ------
    UsageError
        If a path does not exist or cannot be read, or the text is too short.
    """
    files = list(_standard_library() if not paths else _files(paths))
    order = np.random.default_rng(ORDER_SEED).permutation(len(files))
    chunks: list[bytes] = []
    room = limit
    for index in order:
        chunk = _read(files[index], room)
        if chunk:
            chunks.append(chunk)
            room -= len(chunk)
        if not room:
            break
    content = b"".join(chunks)
    kept = len(content) - int(len(content) * VALIDATION_SHARE)
    train, validation = np.split(np.frombuffer(content, np.uint8), [kept])
    if len(validation) <= context:
        where = ", ".join(map(str, paths)) or "the standard library"
        raise UsageError(
            f"argument --text: {where} has {len(content)} bytes of text; "
            f"a context of {context} needs at least {10 * (context + 1)}"
        )
    return Text(train, validation, len(chunks), hashlib.sha256(content).hexdigest())


def _standard_library() -> list[Path]:
    root = Path(sysconfig.get_path("stdlib"))
    return [path for path in _below(root, NOT_SOURCES) if path.suffix == ".py"]


def _files(paths: Sequence[str | Path]) -> Iterator[Path]:
    seen: set[Path] = set()
    for path in map(Path, paths):
        if not path.exists():
            raise UsageError(f"argument --text: no such file or folder: {str(path)!r}")
        for file in _below(path, CACHES) if path.is_dir() else [path]:
            resolved = file.resolve()
            if resolved not in seen:
                seen.add(resolved)
                yield file


def _below(folder: Path, skipped: frozenset[str]) -> list[Path]:
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = (name for name in folders if name not in skipped and not name.startswith("."))
        found += (Path(parent, name) for name in files if not name.startswith("."))
    return sorted((path for path in found if path.is_file()), key=lambda path: path.relative_to(folder).parts)


def _read(path: Path, room: int) -> bytes:
    try:
        with path.open("rb") as file:
            probe = file.read(min(PROBE, room))
            return b"" if b"\0" in probe else probe + file.read(room - len(probe))
    except OSError as error:
        raise UsageError(f"argument --text: cannot read {str(path)!r}: {error.strerror}") from error
