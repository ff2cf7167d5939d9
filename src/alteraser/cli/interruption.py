"""Ctrl-C and SIGTERM as an exception that nothing on the way catches by mistake."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """Someone asked the command to stop. Not a KeyboardInterrupt: typer answers that with codes of its own."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block the signals raise `Interrupted`; one that the caller had ignored stays ignored."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    handler = _Handler()
    try:
        for number, old in before.items():
            if old is not signal.SIG_IGN:
                signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@dataclass
class _Handler:
    """Raises once; an impatient second Ctrl-C within two seconds must not break off the cleaning up."""

    patience: float = 2.0
    _last: float = field(default=float("-inf"), init=False)

    def __call__(self, *_: Any) -> None:
        now = time.monotonic()
        if now - self._last > self.patience:
            self._last = now
            raise Interrupted
