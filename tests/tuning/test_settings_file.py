"""Settings files: what is written is read again, and nothing unknown is passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer.main

from alteraser.cli.main import app
from alteraser.errors import OutputExists, SettingError
from alteraser.tuning.settings_file import KEYS, read_settings, write_settings

SETTINGS: dict[str, Any] = {
    "model": "mf",
    "trainer": "als",
    "dim": 48,
    "w0": 1e-05,
    "l2": 0.0123,
    "solve_h": False,
}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    write_settings(SETTINGS | {"tolerance": None}, path, comment='two\nlines, "quoted"')
    assert read_settings(path) == SETTINGS
    assert path.read_text().startswith("# two\n# lines")
    with pytest.raises(OutputExists):
        write_settings(SETTINGS, path)
    assert [each.name for each in tmp_path.iterdir()] == ["settings.toml"]


def test_a_person_may_write_it(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("l2 = 1  # a whole number will do\nmodel = 'enmf'\n")
    assert read_settings(path) == {"l2": 1.0, "model": "enmf"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("w0 = 0.1\nw_0 = 0.2", "'w_0' in .*: unknown; known are model, .*w0"),
        ("[objective]\nw0 = 0.1", "'objective'"),
        ("dim = 6.5", "dim in .* is 6.5; a whole number"),
        ("dim = true", "dim in .* is True"),
        ("w0 = '0.1'", "w0 in .* is '0.1'; a finite number"),
        ("w0 = inf", "a finite number"),
        ("solve_h = 1", "true or false"),
        ("w0: 0.1", "not TOML"),
        (b"\xff\xfe", "not TOML"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path: Path, text: str | bytes, said: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingError, match=said):
        read_settings(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="could not be read"):
        read_settings(tmp_path / "nothing.toml")
    with pytest.raises(SettingError, match="'speed'"):
        write_settings({"speed": 3}, tmp_path / "settings.toml")
    assert not list(tmp_path.iterdir())


def test_every_key_is_an_option_of_train() -> None:
    train: Any = typer.main.get_command(app)
    options = {parameter.name for parameter in train.commands["train"].params}
    assert KEYS.keys() <= options
