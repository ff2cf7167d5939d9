"""What to forget as options of a command: a file, standard input, or typed as users, items, pairs and a period."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from alteraser.cli.options import Command, takes_group
from alteraser.errors import SettingError

if TYPE_CHECKING:
    from alteraser.data.requests import Requests

# Two texts in one argument: typer has no option that takes two and may be repeated. No terminal sends this sign.
_BETWEEN = "\x1f"


def _option(flag: str, text: str, metavar: str) -> Any:
    return typer.Option(flag, help=text, metavar=metavar, show_default=False)


@dataclass(frozen=True)
class RequestOptions:
    """Requests as they were typed; each user, item and pair is a request of its own."""

    requests: Annotated[
        str | None,
        _option("--requests", "A file of requests: CSV, Parquet or JSON-lines; - is standard input.", "FILE"),
    ] = None
    user: Annotated[
        list[str] | None, _option("--user", "A user: all that the user has. Repeat for more.", "ID")
    ] = None
    item: Annotated[
        list[str] | None, _option("--item", "An item: all that anybody has of it. Repeat for more.", "ID")
    ] = None
    pair: Annotated[
        list[str] | None, _option("--pair", "One item of one user. Repeat for more.", "USER ITEM")
    ] = None
    start: Annotated[
        str | None,
        _option("--from", "Only from this time on: an ISO date, or a number as in the data.", "TIME"),
    ] = None
    end: Annotated[
        str | None,
        _option("--to", "Only up to this time, a date to its end. Both narrow all that is typed.", "TIME"),
    ] = None
    everyone: Annotated[
        bool, typer.Option("--everyone", help="With --from or --to alone: that period of all users.")
    ] = False

    def read(self) -> Requests:
        """All that is asked for."""
        from alteraser.data.requests import Requests

        typed = list(self._typed())
        period = {"from": self.start, "to": self.end}
        if self.requests is None and not typed:
            raise SettingError(
                "Nothing to forget came. Give --user ID, --item ID, --pair USER ITEM or --requests FILE"
                + (", or --everyone for the period of all users." if any(period.values()) else ".")
            )
        if self.requests is not None and any(period.values()):
            raise SettingError(
                "--from and --to narrow what is typed; requests in a file have columns from and to for it. Give "
                "--requests alone, and what is typed in a command of its own."
            )
        parts = [] if self.requests is None else [_from(self.requests)]
        parts += [
            Requests.of([period | each for each in asked], source=source) for source, asked in typed if asked
        ]
        first, *others = parts
        for other in others:
            first += other
        return first

    def _typed(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """The requests of each option that was given."""
        if self.user:
            yield "--user", [{"user": user} for user in self.user]
        if self.item:
            yield "--item", [{"item": item} for item in self.item]
        if self.pair:
            pairs = [each.partition(_BETWEEN) for each in self.pair]
            if any(not between for _, between, _ in pairs):
                raise SettingError("--pair wants two ids behind it: a user and an item, as in --pair 42 7.")
            yield "--pair", [{"user": user, "item": item} for user, _, item in pairs]
        if self.everyone:
            yield "--everyone", [{"everyone": True}]


def _from(place: str) -> Requests:
    from alteraser.data.request_files import read_request_stream, read_requests

    return read_request_stream(sys.stdin.buffer) if place == "-" else read_requests(place)


class AskingCommand(TyperCommand):
    """A command whose option --pair takes two arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        joined: list[str] = []
        rest = iter(args)
        for argument in rest:
            joined.append(argument)
            if argument == "--":
                break
            if argument == "--pair":
                two = [each for each in (next(rest, None), next(rest, None)) if each is not None]
                joined += [_BETWEEN.join(two)] if not any(_is_option(each) for each in two) else two
        return super().parse_args(ctx, [*joined, *rest])


def _is_option(text: str) -> bool:
    return text.startswith("--")


def asks(command: Command) -> Command:
    """The command with the options of `RequestOptions` added; it receives them as its argument `asked`."""
    return takes_group(command, "asked", RequestOptions)
