"""Models of other packages: registered, written, read; and what is said of those that are not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import alteraser as ae
from alteraser.data.interactions import Side
from alteraser.models import registry
from alteraser.models.bilinear import Bilinear
from alteraser.versions.version import Version, load_version


@dataclass(frozen=True, eq=False, repr=False)
class Doubled(Bilinear):
    """Somebody's own model: every dimension weighs 2."""

    kind: ClassVar[str] = "doubled"

    @property
    def h(self) -> torch.Tensor:
        return 2 * torch.ones(self.dim, dtype=self.dtype)

    def _weighed(self, table: torch.Tensor) -> torch.Tensor:
        return 2 * table

    def parameters(self) -> dict[str, torch.Tensor]:
        return {"users": self.users, "items": self.items}


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))


@pytest.fixture
def stored(random_data: Any, small_model: Any) -> Version:
    data = random_data()
    model = small_model(data)
    ae.register(Doubled)
    return Version.of(Doubled(model.users, model.items, model.objective), data)


def test_a_registered_model_is_written_and_read(stored: Version, tmp_path: Path) -> None:
    assert "doubled" in registry.kinds()
    stored.save(tmp_path / "model")
    back = load_version(tmp_path / "model")
    assert isinstance(back.model, Doubled)
    assert back.kind == "doubled"
    everyone = np.arange(back.model.n_users)
    assert torch.equal(back.model.scores(everyone), stored.model.scores(everyone))
    wanted = 2 * stored.model.table(Side.USERS) @ stored.model.table(Side.ITEMS).T
    torch.testing.assert_close(back.model.scores(everyone), wanted, rtol=1e-12, atol=1e-12)


def test_a_folder_of_an_unknown_kind_says_which_and_what_to_do(
    stored: Version, random_data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.save(tmp_path / "model")
    monkeypatch.delitem(registry._REGISTERED, "doubled")
    with pytest.raises(
        ae.ModelFileError, match=r"'doubled' came; known are enmf, mf.*Import .* `alteraser\.reg"
    ):
        load_version(tmp_path / "model")
    with pytest.raises(ae.ModelFileError, match=r"A Doubled came; known are enmf, mf.*`alteraser\.register`"):
        Version.of(stored.model, random_data())


def test_the_same_class_may_be_registered_again_but_no_other_of_its_kind() -> None:
    assert ae.register(Doubled) is Doubled
    assert ae.register(Doubled) is Doubled
    other = type("Other", (Doubled,), {})
    with pytest.raises(ae.SettingError, match="'doubled' of Other is taken"):
        ae.register(other)


@pytest.mark.parametrize("kind", ["mf", "enmf"])
def test_a_built_in_kind_is_not_replaced_even_before_it_is_loaded(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = type("Mine", (Doubled,), {"kind": kind})
    with pytest.raises(ae.SettingError, match="taken"):
        ae.register(mine)
    monkeypatch.setattr(registry, "_REGISTERED", {})
    with pytest.raises(ae.SettingError, match="taken"):
        ae.register(mine)


def test_what_a_class_lacks_is_said_when_it_is_registered() -> None:
    with pytest.raises(
        ae.SettingError, match=r"Nothing cannot be registered: it has no kind, tensors.*Storable"
    ):
        ae.register(type("Nothing", (), {}))


def test_the_command_offers_the_kinds_there_are(random_data: Any) -> None:
    data, rng = random_data(), np.random.default_rng(0)
    for kind in registry.kinds():
        model = registry.untrained(kind, data, dim=3, objective=ae.Objective(w0=0.3, l2=0.01), rng=rng, dtype=torch.float64)
        assert model.kind == kind
        assert model.table(Side.USERS).shape == (data.n_users, 3)
    ae.register(Doubled)
    with pytest.raises(ae.SettingError, match="sized_for"):
        registry.untrained("doubled", data, dim=3, objective=ae.Objective(w0=0.3, l2=0.01), rng=rng, dtype=torch.float64)


def test_names_alone_cost_no_torch() -> None:
    code = "import sys; from alteraser.models.registry import kinds; print(kinds(), 'torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "('enmf', 'mf') False\n"
