"""How a command looks, runs and ends, whichever program it belongs to."""

from __future__ import annotations

import sys
from typing import Any

import typer

from alteraser.cli.interruption import Interrupted, interruptible
from alteraser.cli.output import note
from alteraser.errors import AlteraserError

# Plain help and errors: lines that can be copied, the same in every terminal and width.
PLAIN: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


def run(app: typer.Typer, arguments: list[str] | None, *, prog_name: str) -> None:
    """Run a command; bad input exits with 2, an interruption with 130, both with nothing half-written."""
    try:
        with interruptible():
            app(args=arguments, prog_name=prog_name)
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


def _out_of_memory(error: MemoryError | RuntimeError) -> bool:
    # For torch it is a RuntimeError like any other; only its text tells.
    return isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate" in str(error)
