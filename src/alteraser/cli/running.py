"""How a command looks, runs and ends, whichever program it belongs to."""

from __future__ import annotations

import gc
import logging
import sys
from typing import Any

import typer

from alteraser.cli.interruption import Interrupted, interruptible
from alteraser.cli.output import logs_on_standard_error, note
from alteraser.cli.wall_clock import start_clock, wall_seconds
from alteraser.errors import AlteraserError

log = logging.getLogger(__name__)

# Plain help and errors: lines that can be copied, the same in every terminal and width.
PLAIN: dict[str, Any] = {
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


VERBOSITY = {
    **dict.fromkeys(("-q", "--quiet"), logging.WARNING),
    **dict.fromkeys(("-v", "--verbose"), logging.DEBUG),
}


def run(app: typer.Typer, arguments: list[str] | None, *, prog_name: str) -> None:
    """Run a command; bad input exits with 2, an interruption with 130, both with nothing half-written.

    -v and -q may stand anywhere, before the command or behind it.
    """
    given, level = _without_verbosity(sys.argv[1:] if arguments is None else arguments)
    start_clock(with_process=arguments is None)
    try:
        with interruptible(), logs_on_standard_error(level):
            try:
                app(args=given, prog_name=prog_name)
            except SystemExit:  # which is how a command ends
                log.debug("%.2f s in all", wall_seconds())
                gc.freeze()  # at its end Python looks for garbage in all that was imported, for a third of a second
                raise
    except AlteraserError as error:
        note(f"Error: {error}")
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        note("Error: There is not enough memory. Use a smaller --dim or less data, or a larger machine.")
        sys.exit(2)
    except Interrupted:
        note("Interrupted; nothing was left half-written.")
        sys.exit(130)


def _without_verbosity(arguments: list[str]) -> tuple[list[str], int]:
    """The arguments without -v and -q, and the level of what is shown; behind -- nothing is an option."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    levels = [VERBOSITY[each] for each in arguments[:end] if each in VERBOSITY]
    kept = [each for each in arguments[:end] if each not in VERBOSITY]
    return kept + arguments[end:], levels[-1] if levels else logging.INFO


def _out_of_memory(error: MemoryError | RuntimeError) -> bool:
    # For torch it is a RuntimeError like any other; only its text tells.
    return isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate" in str(error)
