"""Ctrl-C as a request, so that training stops between two steps and not within one."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interruptible"]


@contextmanager
def interruptible() -> Generator[Callable[[], bool]]:
    """Note the first SIGINT instead of raising; a second one raises KeyboardInterrupt at once.

    Outside the main thread, where Python allows no handlers, nothing is noted.

    Yields
    ------
    callable
        Tells whether a SIGINT has come.
    """
    came = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        came.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield came.is_set
    finally:
        signal.signal(signal.SIGINT, before)
