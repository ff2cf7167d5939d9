"""The pictures in CONTRIBUTING are those of the code, and the code keeps the sizes that are promised there."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import reduce
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "alteraser"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROOMS, WAY = re.findall(r"```mermaid\n(.*?)```", CONTRIBUTING, re.DOTALL)
FILES = sorted(SOURCE.rglob("*.py"))
MAX_LINES, MAX_ARGUMENTS = 400, 8

Layer = frozenset[str]


def there() -> Layer:
    """The rooms that there are: folders, and modules which are not folders."""
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    return frozenset(folders | {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"})


def contract() -> list[Layer]:
    """The layers of the import contract, the highest first, as far as their rooms have been built."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    # Rooms in brackets are those that may be missing.
    found = [frozenset(re.findall(r"\w+", layer)) & there() for layer in layers]
    return [layer for layer in found if layer]


def drawn(picture: str) -> list[Layer]:
    """The layers of the picture, the highest first; each arrow leads from one whole layer to the next."""
    arrows = re.findall(r"^ +(.+) --> (.+)$", picture, re.MULTILINE)
    ends = [tuple(frozenset(end.split(" & ")) for end in arrow) for arrow in arrows]
    assert [lower for _, lower in ends[:-1]] == [upper for upper, _ in ends[1:]]
    return [ends[0][0], *(lower for _, lower in ends)]


def test_the_picture_of_the_rooms_is_the_import_contract() -> None:
    assert drawn(ROOMS) == contract()
    assert frozenset().union(*drawn(ROOMS)) == there()


def test_a_room_that_is_added_removed_or_moved_is_noticed() -> None:
    for changed in (
        ROOMS.replace("live", "attic"),
        ROOMS.replace("train & measure", "train"),
        ROOMS.replace("report & versions", "report").replace("unlearn", "unlearn & versions"),
    ):
        assert drawn(changed) != contract()


def test_every_room_is_described_in_its_place() -> None:
    rows = re.findall(r"^\| (`.+?) \| ", CONTRIBUTING.partition("| room |")[2].partition("\n\n")[0], re.M)
    described = [frozenset(re.findall(r"`(\w+)`", row)) for row in rows]
    apart = [room for layer in drawn(ROOMS) for room in sorted(layer)]
    assert sorted(room for layer in described for room in layer) == sorted(apart)
    height = {room: level for level, layer in enumerate(drawn(ROOMS)) for room in layer}
    levels = [{height[room] for room in layer} for layer in described]
    assert all(len(level) == 1 for level in levels)
    assert [min(level) for level in levels] == sorted(min(level) for level in levels)


def test_what_a_request_meets_on_its_way_is_there() -> None:
    named = re.findall(r"\b(\w+(?:\.\w+)+)\b", WAY)
    assert len(named) == WAY.count(" -- ")
    for name in named:
        room, module, *attributes = name.split(".")
        reduce(getattr, attributes, import_module(f"alteraser.{room}.{module}"))


def test_no_file_is_long() -> None:
    lengths = {str(file.relative_to(SOURCE)): len(file.read_text("utf-8").splitlines()) for file in FILES}
    assert not {name: length for name, length in lengths.items() if length > MAX_LINES}


def test_no_kernel_has_many_arguments() -> None:
    trees = (ast.parse(file.read_text("utf-8")) for file in (SOURCE / "kernels").glob("*.py"))
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    kernels = {each.name: n_arguments(each) for each in functions if is_kernel(each)}
    assert {"row_residuals", "hessian_products"} <= kernels.keys()
    assert not {name: n for name, n in kernels.items() if n > MAX_ARGUMENTS}


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether a function is compiled, with one of the decorators of `kernels/jit.py`."""
    return any(
        isinstance(each, ast.Name) and each.id in {"compiled", "threaded"} for each in function.decorator_list
    )


def n_arguments(function: ast.FunctionDef) -> int:
    named = function.args
    rest = [each for each in (named.vararg, named.kwarg) if each is not None]
    return len(named.posonlyargs) + len(named.args) + len(named.kwonlyargs) + len(rest)
