import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.config.toml import Builder, build_change, describe, load_campaign
from swerve.config.trust import OWN
from swerve.core import names
from swerve.core.campaign import Campaign
from swerve.core.encode import encode
from swerve.core.errors import SpecError, SwerveError
from swerve.core.relation import Rule
from swerve.core.space import Choices, OneOf, Over, Range, Sequenced
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Boxes2D
from swerve.relations.steering import lambda_mse, same_angle
from swerve.search.sweep import Sweep
from swerve.sources.windows import Windows
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.affine import Rotate, Translate
from swerve.transformations.blur import blurs
from swerve.transformations.photometric import Brighten

GOOD = """
seed = 7
inference_batch = 8

[source]
use = "swerve.testing:FakeSource"
count = 10

[system]
use = "swerve.testing:FakeSystem"
gain = 2

[[rule]]
name = "bright"
change = { use = "brighten", beta = [-30, 30] }
expect = { use = "same-angle", within = 5 }

[search]
use = "sweep"
per_case = 6
"""


def loaded(tmp_path: Path, text: str) -> Campaign:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load_campaign(str(path)).campaign


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(SpecError) as error:
        loaded(tmp_path, text)
    message = str(error.value)
    assert "mine.toml" in message
    assert len(message) <= 300
    assert message.isprintable()
    return message


def test_file_and_python_agree(tmp_path: Path) -> None:
    made = Campaign(
        source=FakeSource(10),
        system=FakeSystem(gain=2),
        rules=(Rule("bright", Over(Brighten, beta=Range(-30, 30)), same_angle(5)),),
        search=Sweep(6),
        seed=7,
        inference_batch=8,
    )
    assert describe(loaded(tmp_path, GOOD), tmp_path) == describe(made, tmp_path)


SPACES: dict[str, Any] = {
    '{ use = "rotate", degrees = "grid" }': Over(Rotate, degrees="grid"),
    '{ use = "rotate" }': Over(Rotate),
    '"rotate"': Over(Rotate),
    '{ use = "rotate", degrees = 4 }': Rotate(4),
    '{ use = "rotate", degrees = { choices = [1, 2] } }': Over(Rotate, degrees=Choices((1, 2))),
    '{ use = "translate", x = "grid", y = "grid", border = "reflect" }': Over(
        Translate, x="grid", y="grid", border="reflect"
    ),
    '[{ use = "rotate", degrees = 4 }, { use = "brighten", beta = [1, 2] }]': Sequenced(
        (Over(Rotate, degrees=4), Over(Brighten, beta=Range(1, 2)))
    ),
    '[{ use = "rotate", degrees = 4 }, { use = "brighten", beta = 5 }]': Chain((Rotate(4), Brighten(5))),
    '{ use = "one-of", spaces = [{ use = "rotate" }, { use = "brighten", beta = [1, 2] }] }': OneOf(
        (Over(Rotate), Over(Brighten, beta=Range(1, 2)))
    ),
    '"blurs"': blurs(),
}


@pytest.mark.parametrize(("text", "space"), SPACES.items(), ids=range(len(SPACES)))
def test_every_way_to_write_a_change(tmp_path: Path, text: str, space: Any) -> None:
    made = loaded(tmp_path, GOOD.replace('{ use = "brighten", beta = [-30, 30] }', text))
    wanted = describe(_with_rule(Rule("bright", space, same_angle(5))), tmp_path)["rule"]
    assert describe(made, tmp_path)["rule"] == wanted
    again = Builder("again:", tmp_path).campaign(describe(made, tmp_path))
    assert describe(again, tmp_path) == describe(made, tmp_path)


def _with_rule(rule: Rule) -> Campaign:
    return Campaign(FakeSource(1), FakeSystem(), (rule,), Sweep())


def test_relations_nest(tmp_path: Path) -> None:
    text = '{ use = "both", relations = [{ use = "same-angle", within = 3 }, { use = "lambda-mse", factor = 2 }] }'
    made = loaded(tmp_path, GOOD.replace('{ use = "same-angle", within = 5 }', text))
    assert made.rules[0].expect == same_angle(3) & lambda_mse(2)


def test_paths_are_relative_to_file(tmp_path: Path) -> None:
    module = tmp_path / "mine_source.py"
    module.write_text(
        "from dataclasses import dataclass\nfrom pathlib import Path\nfrom swerve.testing import FakeSource\n"
        "@dataclass(frozen=True)\nclass Folder(FakeSource):\n    folder: Path = Path('.')\n"
    )
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace('"swerve.testing:FakeSource"', '"mine_source.py:Folder"\nfolder = "data/day"'))
    made = load_campaign(str(path), [module])
    assert made.campaign.source.folder == tmp_path / "data/day"  # type: ignore[attr-defined]
    assert describe(made.campaign, made.base)["source"]["folder"] == "data/day"
    assert describe(made.campaign, made.base)["source"]["use"] == "mine_source.py:Folder"


def test_python_file_needs_trust(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "evil.py").write_text(f"open({str(canary)!r}, 'w')")
    message = refused(tmp_path, GOOD.replace("swerve.testing:FakeSource", "evil.py:Folder"))
    assert "runs only with --trust" in message
    assert not canary.exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seed = 7", "sead = 7", "unknown key 'sead'; did you mean 'seed'?"),
        ("within = 5", "withn = 5", "rule 'bright'.expect: unknown key 'withn'; did you mean 'within'?"),
        ("beta = [", "bata = [", "rule 'bright'.change: brighten has no parameter 'bata'; did you mean 'beta'?"),
        ('"brighten"', '"brigten"', "use: unknown name 'brigten'; did you mean 'brighten'?"),
        ("count = 10", "cuont = 10", "source: unknown key 'cuont'; did you mean 'count'?"),
        ('name = "bright"', 'nam = "bright"', "rule[0]: unknown key 'nam'; did you mean 'name'?"),
        ('name = "bright"\n', "", "rule[0]: 'name' is missing"),
        ("[[rule]]", "[rule]", "rule must be written [[rule]]"),
        ("[system]", "[sistem]", "unknown key 'sistem'; did you mean 'system'?"),
        ("[source]", "[[source]]", "source: expected a table with 'use', got list"),
        ("swerve.testing:FakeSource", "swerve.testing:FakeSorce", "swerve.testing has no class or function 'FakeSorce'"),
        ("swerve.testing:FakeSource", "nowhere:FakeSource", "there is no module 'nowhere' on the Python path"),
        ("seed = 7", "seed = 7 7", "(at line 2, column 10)"),
        ("seed = 7", "seed = 7\nseed = 8", "(at line 3, column 9)"),
        ("[-30, 30]", "[30, -30]", "beta: a range needs two finite numbers in increasing order, got [30, -30]"),
        ("[-30, 30]", "[-30, 30, 40]", "beta: a range is a pair [low, high]"),
        ("[-30, 30]", "[-300, 30]", "'beta' must be a number from -255 to 255, got -300"),
        ("[-30, 30]", "{ chioces = [1] }", "beta: unknown key 'chioces'; did you mean 'choices'?"),
        ("[-30, 30]", "{ choices = [] }", "beta: 'choices' must contain at least one value"),
        ('"same-angle", within = 5', '"rotate", degrees = 5', "expected a relation, got Rotate"),
        ('"brighten", beta = [-30, 30]', '"same-angle"', "expected a transformation or a space, got same_angle"),
        ('use = "sweep"', 'use = "brighten"', "search: use = 'brighten': expected a search, got Brighten"),
        ("beta = [-30, 30]", "beta = 1, kind = 2", "brighten has no parameter 'kind'"),
        (
            '"brighten", beta',
            '"rotate", border = "blck", degrees',
            "'border' must be one of black, reflect, replicate, inpaint, got 'blck'",
        ),
        ('"brighten", beta', '"rotate", border = { choices = ["black", "x"] }, degrees', "got 'x'"),
        ('"brighten", beta', '"rotate", border = "grid", degrees', "got 'grid'"),
        ('"brighten", beta', '"rotate", border = [1, 2], degrees', "rotate.border is not a number"),
        ('{ use = "brighten", beta = [-30, 30] }', "[]", "expected one or more changes, got an empty list"),
        (
            '{ use = "brighten", beta = [-30, 30] }',
            '{ use = "one-of", spaces = [] }',
            "'spaces' must be a list of one or more spaces",
        ),
        (
            '{ use = "brighten", beta = [-30, 30] }',
            '{ use = "table", changes = [] }',
            "'changes' must be a list of one or more",
        ),
        (
            '{ use = "same-angle", within = 5 }',
            '{ use = "both", relations = [] }',
            "'relations' must be a list of one or more relations",
        ),
        (
            '{ use = "same-angle", within = 5 }',
            '{ use = "both", relations = ["angle-within"] }',
            "relations.[0]: use = 'angle-within': expected a relation, got AngleWithin",
        ),
        ('{ use = "same-angle", within = 5 }', '{ use = "equivariant", compare = "rotate" }', "compare"),
        ('use = "sweep"\nper_case = 6', 'use = "sweep"\n[gate]\nuse = "sweep"', "expected a gate, got Sweep"),
        ('"swerve.testing:FakeSource"', '"builtins:dict"', "source"),
        ('"swerve.testing:FakeSource"', '"tests.unit.test_spec:Missing"', "source: FileNotFoundError: weights.bin"),
        ("seed = 7", 'seed = 7\nmethod = "deptest"', "unknown method 'deptest'"),
        ('use = "sweep"\nper_case = 6', 'use = "same-angle"', "expected a search, got same_angle"),
    ],
)
def test_mistake_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    assert said in refused(tmp_path, GOOD.replace(old, new))


BAD_NUMBERS = ["-1", "0", "nan", "inf", "1e999", '"ten"', "true", "[]", "{}", "1.5"]
OPTIONS = {
    "seed = 7": ("seed", {"0"}),
    "inference_batch = 8": ("inference_batch", set()),
    "per_case = 6": ("per_case", set()),
    "within = 5": ("within", {"0", "1.5"}),
    "count = 10": ("count", {"-1", "0"}),
    "gain = 2": ("gain", {"-1", "0", "1.5"}),
}


@pytest.mark.parametrize("wrong", BAD_NUMBERS)
@pytest.mark.parametrize("line", OPTIONS)
def test_bad_number_names_its_key(tmp_path: Path, line: str, wrong: str) -> None:
    key, allowed = OPTIONS[line]
    text = GOOD.replace(line, f"{key} = {wrong}")
    if wrong in allowed:
        assert loaded(tmp_path, text)
    else:
        assert key in refused(tmp_path, text)


@pytest.mark.parametrize("wrong", ["-1", "0", "nan", '"ten"', "true"])
def test_bad_factor_names_its_key(tmp_path: Path, wrong: str) -> None:
    text = GOOD.replace('"same-angle", within = 5', f'"lambda-mse", factor = {wrong}')
    assert "factor" in refused(tmp_path, text)


def Missing(count: int) -> FakeSource:  # noqa: N802 - named as a class would be
    raise FileNotFoundError("weights.bin")


def test_short_name_stands_for_a_part(tmp_path: Path) -> None:
    text = GOOD.replace('use = "swerve.testing:FakeSource"\ncount = 10', 'use = "windows"\nlength = 2\nsource = "world"')
    assert isinstance(loaded(tmp_path, text).source, Windows)
    both = GOOD.replace('{ use = "same-angle", within = 5 }', '{ use = "both", relations = ["same-angle", "lambda-mse"] }')
    assert loaded(tmp_path, both).rules[0].expect == same_angle() & lambda_mse()


def test_chain_may_be_written_out(tmp_path: Path) -> None:
    text = '{ use = "chain", steps = [{ use = "rotate", degrees = 4 }, { use = "brighten", beta = 5 }] }'
    made = loaded(tmp_path, GOOD.replace('{ use = "brighten", beta = [-30, 30] }', text))
    assert made.rules[0].change.grid() == (Chain((Rotate(4), Brighten(5))),)


@dataclass(frozen=True)
class Boxed(Transformation):
    """A change with fields of several kinds."""

    box: tuple[float, ...]
    far: float = float("inf")
    target: Boxes2D | None = None
    preserves = ("*",)


def test_fields_of_a_change_come_back() -> None:
    target = Boxes2D(np.array([[1, 2, 3, 4.0]]), ("light",))
    change = Boxed((1.0, 2.0, 3.0), target=target)
    assert build_change(encode(change), OWN) == change


def test_pair_may_be_a_value(tmp_path: Path) -> None:
    made = loaded(tmp_path, GOOD.replace('"brighten", beta = [-30, 30]', '"tests.unit.test_spec:Boxed", box = [10, 20]'))
    assert made.rules[0].change.grid() == (Boxed((10.0, 20.0)),)


def test_fifo_is_not_a_campaign(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(SpecError, match="is not a file"):
        load_campaign(str(tmp_path / "pipe.toml"))


def test_python_campaign_knows_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_campaign("tests.unit.test_spec:_factory")
    monkeypatch.chdir(tmp_path)
    assert load_campaign("tests.unit.test_spec:_factory").base == first.base


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"nothere.toml: cannot be read: No such file"):
        load_campaign(str(tmp_path / "nothere.toml"))
    with pytest.raises(SpecError, match="is not a file"):
        load_campaign(str(tmp_path))


def test_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe\x00seed")
    with pytest.raises(SpecError, match="not UTF-8 text"):
        load_campaign(str(tmp_path / "mine.toml"))


def test_factory_gives_the_campaign() -> None:
    assert load_campaign("tests.unit.test_spec:_factory").factory == "tests.unit.test_spec:_factory"
    with pytest.raises(SpecError, match="expected a campaign, got _not_a_factory"):
        load_campaign("tests.unit.test_spec:_not_a_factory")
    with pytest.raises(SpecError, match="must return a Campaign, it returned int"):
        load_campaign("tests.unit.test_spec:_does_not_say")


def _factory() -> Campaign:
    return _with_rule(Rule("x", Brighten(1), same_angle()))


def _not_a_factory() -> int:
    raise AssertionError("called, though it says that it returns no campaign")


def _does_not_say():  # type: ignore[no-untyped-def]
    return 3


def test_change_comes_back_from_json() -> None:
    assert build_change(
        {"use": "chain", "steps": [{"use": "rotate", "degrees": 3}, {"use": "brighten", "beta": 4}]}, OWN
    ) == Chain((Rotate(3), Brighten(4)))
    with pytest.raises(SpecError, match="expected a transformation, got same_angle"):
        build_change({"use": "same-angle"}, OWN)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_file_never_tracebacks(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(GOOD) - 1))
    length = data.draw(st.integers(0, 12))
    insert = data.draw(st.text(alphabet='"[]{}=.#\n\\ 0x-e,\x00é', max_size=6))
    path = tmp_path_factory.getbasetemp() / "mutated.toml"
    path.write_text(GOOD[:position] + insert + GOOD[position + length :])
    assert _message_or_rules(path).isprintable()


def _message_or_rules(path: Path) -> str:
    try:
        return " ".join(rule.name for rule in load_campaign(str(path)).campaign.rules).encode("unicode_escape").decode()
    except SwerveError as error:
        return str(error)


def test_core_imports_only_numpy() -> None:
    code = (
        "import sys; import swerve.execution.engine, swerve.store.journal, swerve.core.space;"
        "print([name for name in ('torch', 'cv2', 'rich', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_optional_tuple_takes_a_list_and_no_range() -> None:
    @dataclass(frozen=True)
    class Kept(Transformation):
        keep: tuple[int, ...] | None = None
        preserves: ClassVar[tuple[str, ...]] = ("*",)

    named = names.name_of(Kept)
    space = Builder("rule").space({"use": named, "keep": [3, 5]})
    assert space.grid() == (Kept((3, 5)),)
    assert Builder("rule").space({"use": named}).grid() == (Kept(),)
