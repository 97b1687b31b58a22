"""Assets: files known by their content, opened without following links."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.config.toml import Builder
from swerve.core.asset import Asset, AssetFiles, assets_in
from swerve.core.campaign import Campaign, Record, Trial
from swerve.core.case import Case
from swerve.core.encode import encode, encode_change
from swerve.core.errors import InputError, SpecError
from swerve.core.relation import Rule, Verdict
from swerve.core.space import Choices, OneOf, Over, Table
from swerve.core.system import Answer
from swerve.core.transformation import Chain, Transformation, Unchanged
from swerve.core.values import Image
from swerve.execution.engine import run
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.store.fingerprint import differences, identity_of
from swerve.store.libraries import IMPORTERS, imports_of, libraries_of
from swerve.systems.function import FunctionSystem
from swerve.systems.onnx import Onnx
from swerve.testing import FakeSource, FakeSystem, MemoryLedger, TransformationContract
from swerve.transformations.affine import Rotate
from swerve.transformations.photometric import Brighten


@dataclass(frozen=True)
class Lookup(Transformation):
    """Every grey level replaced by the one that a table of 256 bytes has for it."""

    table: Asset
    preserves = ("*",)

    def image(self, image: Image) -> Image:
        return Image(np.frombuffer(self.table.read(), np.uint8)[image.pixels])


@dataclass(frozen=True)
class Library:
    """A space that is no `Over`: one of several tables."""

    tables: tuple[Asset, ...]

    def propose(self, case: Case, rng: np.random.Generator, system: object) -> Transformation:
        del case, system
        return Lookup(self.tables[int(rng.integers(len(self.tables)))])

    def grid(self) -> tuple[Transformation, ...]:
        return ()


class Tinted:
    """A system that is no dataclass and keeps nothing of the file it is given."""

    def __init__(self, table: Asset) -> None:
        self._fake = FakeSystem(gain=table.read()[0] / 255)

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        return self._fake(cases)

    def fingerprint(self) -> str:
        return "tinted"


def write_table(path: Path, shift: int = 20) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(bytes(min(255, level + shift) for level in range(256)))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "night.lut")


def campaign_of(*changes: Any, **more: Any) -> Campaign:
    rules = tuple(Rule(f"rule {number}", change, same_angle(5)) for number, change in enumerate(changes))
    return Campaign(**{"source": FakeSource(), "system": FakeSystem(), "rules": rules, "search": Sweep(per_case=2), **more})


def test_asset_is_its_content(tmp_path: Path, table: Path) -> None:
    one, other = Asset(table), Asset(write_table(tmp_path / "elsewhere" / "dusk.bin"))
    assert one.sha256 == hashlib.sha256(table.read_bytes()).hexdigest()
    assert one == other
    assert hash(one) == hash(other)
    assert one != Asset(write_table(tmp_path / "third", 21))
    assert encode(one) == {"asset": one.sha256}
    assert str(other) == "dusk.bin"


@given(content=st.binary(max_size=300), more=st.binary(min_size=1, max_size=5))
def test_content_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes, more: bytes) -> None:
    path = tmp_path_factory.mktemp("files") / "file"
    path.write_bytes(content)
    asset = Asset(path)
    assert asset.read() == content
    assert asset.check() == path
    path.write_bytes(content + more)
    for read in (asset.read, asset.check, lambda: Asset(path, asset.sha256)):
        with pytest.raises(InputError, match=r"/file: has changed: sha \w{8} then, \w{8} now; restore it"):
            read()


def test_ids_know_no_path(tmp_path: Path, table: Path) -> None:
    tables = table, write_table(tmp_path / "a" / "b" / "other name.lut")
    records = [Record(Trial("a", "rule", 0), Verdict.skipped("x"), Lookup(Asset(path))) for path in tables]
    assert records[0].id == records[1].id
    assert str(tmp_path) not in str(encode_change(records[0].change))
    identities = [identity_of(campaign_of(Lookup(Asset(path))), tmp_path) for path in tables]
    assert differences(*identities) == []
    assert str(tmp_path) not in str(identities[0]["assets"])
    changed = Record(Trial("a", "rule", 0), Verdict.skipped("x"), Lookup(Asset(write_table(table, 30))))
    assert changed.id != records[0].id


def everywhere(asset: Asset) -> dict[str, Campaign]:
    return {
        "change": campaign_of(Lookup(asset)),
        "choices": campaign_of(Over(Lookup, table=Choices((asset,)))),
        "chain": campaign_of(Chain((Unchanged(), Lookup(asset)))),
        "table": campaign_of(Table((Unchanged(), Lookup(asset)))),
        "one-of": campaign_of(OneOf((Over(Brighten), Library((asset,))))),
        "relation": campaign_of(Unchanged(), search=Strict(asset)),
        "attribute": campaign_of(Unchanged(), system=Holding(asset)),
    }


@dataclass(frozen=True)
class Strict:
    """A search that names a file."""

    table: Asset
    inner: Sweep = field(default_factory=Sweep)

    def start(self, plan: Any) -> Any:
        return self.inner.start(plan)


class Holding(FakeSystem):
    """A live object that keeps a list of files."""

    def __init__(self, asset: Asset) -> None:
        super().__init__()
        self.__dict__["files"] = [asset]


@pytest.mark.parametrize("place", everywhere(Asset(Path(__file__))))
def test_content_is_part_of_the_identity(table: Path, place: str) -> None:
    then = everywhere(Asset(table))[place]
    before = identity_of(then, Path("/"))
    write_table(table, 90)
    after = identity_of(everywhere(Asset(table))[place], Path("/"))
    (line,) = differences(before, after)
    old, new = (next(iter(one["assets"]))[:8] for one in (before, after))
    assert line == f"night.lut differs: sha {old} then, sha {new} now"
    assert differences(before, identity_of(campaign_of(Unchanged()), Path("/")))[-1].endswith("then, absent now")


def test_swapped_assets_are_another_campaign(tmp_path: Path, table: Path) -> None:
    one, other = Lookup(Asset(table)), Lookup(Asset(write_table(tmp_path / "b.lut", 3)))
    lines = differences(*(identity_of(campaign_of(*pair), Path("/")) for pair in ((one, other), (other, one))))
    assert [line.partition(":")[0] for line in lines] == ["rule[0].change.table.asset", "rule[1].change.table.asset"]
    assert all("sha " in line for line in lines)


def test_campaign_file_names_assets_by_path(tmp_path: Path, table: Path) -> None:
    builder = Builder("file", tmp_path)
    module = __name__
    change = {"use": f"{module}:Lookup", "table": "night.lut"}
    assert list(builder.space(change).grid()) == [Lookup(Asset(table))]
    write_table(tmp_path / "dusk.lut", 5)
    several = builder.space({**change, "table": {"choices": ["night.lut", "dusk.lut"]}})
    assert [str(step.table) for step in several.grid()] == ["night.lut", "dusk.lut"]  # type: ignore[attr-defined]
    library = builder.space({"use": f"{module}:Library", "tables": ["night.lut"]})
    assert library == Library((Asset(table),))
    files = AssetFiles({sha: asset.path.name for sha, asset in assets_in(several, library).items()}, tmp_path)
    again = Builder("campaign.json", tmp_path, assets=files)
    for space in (several, library):
        assert again.space(encode(space)) == space


def test_objects_that_keep_nothing_are_described_by_content(tmp_path: Path, table: Path) -> None:
    made = Builder("file", tmp_path).component({"use": f"{__name__}:Tinted", "table": "night.lut"})
    asset = Asset(table)
    assert encode(made) == {"use": f"{__name__}:Tinted", "table": {"asset": asset.sha256}}
    assert list(assets_in(made).values()) == [asset]


def test_unknown_content_is_refused(tmp_path: Path) -> None:
    row = {"use": f"{__name__}:Lookup", "table": {"asset": "0" * 64}}
    with pytest.raises(SpecError, match=r"^change\.table: expected a file that the campaign names, got dict"):
        Builder("change", tmp_path).change(row)
    with pytest.raises(SpecError, match=r"^change\.table: .*/gone: cannot be read: no such file"):
        Builder("change", tmp_path).change({**row, "table": "gone"})


def test_links_and_devices_are_refused(tmp_path: Path, table: Path) -> None:
    (tmp_path / "link").symlink_to(table)
    (tmp_path / "inside").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "inside", "/dev/null", "gone"):
        with pytest.raises(InputError, match=r"cannot be read: "):
            Asset(Path(name), root=tmp_path)
    with pytest.raises(InputError, match=r"cannot be read: "):
        Asset(Path("inside/night.lut"), root=tmp_path)
    assert Asset(tmp_path / "inside" / "night.lut") == Asset(Path("night.lut"), root=tmp_path)  # the folder may be a link


def test_proposals_read_only_what_the_campaign_names(table: Path) -> None:
    @dataclass(frozen=True)
    class Hidden:
        """A space that makes its asset up."""

        def propose(self, case: Case, rng: np.random.Generator, system: object) -> Transformation:
            del case, rng, system
            return Lookup(Asset(table))

        def grid(self) -> tuple[Transformation, ...]:
            return ()

    with pytest.raises(InputError, match=r"rule 'rule 0' proposed a change that reads .*night\.lut, which no part"):
        run(campaign_of(Hidden()), MemoryLedger())


def test_change_during_the_run_stops_it(table: Path) -> None:
    with pytest.raises(InputError, match=r"night\.lut: has changed"):
        run(campaign_of(Lookup(Asset(table))), MemoryLedger(), inspect=lambda _: write_table(table, 1) and None)


class TestLookup(TransformationContract):
    @pytest.fixture(autouse=True)
    def _table(self, table: Path) -> None:
        self.table = table

    def changes(self) -> list[Transformation]:
        return [Lookup(Asset(self.table))]


# Libraries.


def test_only_used_libraries_are_listed() -> None:
    assert libraries_of(campaign_of(Unchanged())).keys() == {"numpy"}
    assert libraries_of(campaign_of(Rotate(3))).keys() == {"numpy", "opencv-python-headless"}
    onnx = object.__new__(Onnx)  # no model is loaded
    assert libraries_of(campaign_of(Unchanged(), system=onnx)).keys() == {"numpy", "onnxruntime"}


def test_users_modules_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "drivers_own"
    package.mkdir()
    (package / "__init__.py").write_text("from . import nets\nimport typing\nif typing.TYPE_CHECKING:\n    import keras\n")
    (package / "nets.py").write_text(
        "import importlib\nfrom .deep import steer\n\ndef later():\n    return importlib.import_module('jax')\n"
    )
    (package / "deep.py").write_text("def steer(case):\n    import scipy.ndimage\n    return case.truth\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from drivers_own import nets  # type: ignore[import-not-found]

    used = libraries_of(campaign_of(Unchanged(), system=FunctionSystem(nets.steer)))
    assert used.keys() == {"numpy", "scipy"}
    assert libraries_of(campaign_of(Unchanged(), system=FunctionSystem(nets.later))).keys() == {"jax", "numpy", "scipy"}


SCATTERED = """
try:
    import a
except ImportError:
    import b
else:
    import c
finally:
    import d
for _ in ():
    import e
else:
    import f
while False:
    with open(""):
        import g
match 0:
    case 0:
        from h import i
if 0 if 1 else 2:
    import j
elif (lambda: 0)():
    import k
else:
    import m
async def n():
    class O:
        import p
"""


def test_imports_are_found_in_every_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a call that may import, every expression is read, too; without one, statements alone."""
    found = []
    for name, more in (("blocks", ""), ("blocks_and_calls", f"[*map({IMPORTERS[0]}, ())]\n")):
        (tmp_path / f"{name}.py").write_text(SCATTERED + more)
        module = ModuleType(name)
        module.__file__ = str(tmp_path / f"{name}.py")
        monkeypatch.setitem(sys.modules, name, module)
        found.append(imports_of(name))
    assert found[0] == found[1] == {*"abcdefghjkmp", "h.i"}
