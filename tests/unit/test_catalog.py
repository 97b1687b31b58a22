"""What `swerve list` says of every part: types, choices, and samples that a campaign file can use."""

import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest

from swerve.config.catalog import ABOUT, CatalogEntry, entry_named, kinds, listing
from swerve.config.registry import resolve
from swerve.config.toml import Builder
from swerve.core.campaign import Search
from swerve.core.errors import InputError, SpecError
from swerve.core.gate import Gate
from swerve.core.names import KINDS, names
from swerve.core.relation import Relation
from swerve.core.transformation import Transformation, params_of
from swerve.systems.decoders import Decoder
from swerve.systems.preprocessing import Step
from swerve.translation.packaged import trained_styles

UNTRAINED = ("packaged-styles", "packaged-reconstruction")  # until their weights are included
ENTRIES = [entry for entries in listing().values() for entry in entries]
BUILT = {"steps": Step, "decoders": Decoder, "relations": Relation, "searches": Search, "gates": Gate}

# Those that can be built without files and without a campaign.
ALONE = [entry for entry in ENTRIES if entry.kind in (*BUILT, "criteria", "transformations") and entry.name != "meter"]


def table_of(entry: CatalogEntry) -> Any:
    """The value of the sample that describes the part."""
    sample = tomllib.loads(entry.toml)
    if entry.kind in ("transformations", "spaces", "relations"):
        (rule,) = sample["rule"]
        (value,) = rule.values()
        return value
    if entry.kind in ("selections", "explanations"):  # inside a space
        chosen = sample["rule"][0]["change"]["choose"]
        return chosen if entry.kind == "selections" else chosen["explanation"]
    if entry.kind == "methods":
        return sample
    (table,) = sample.values()
    return table if "use" in table or entry.name == "meter" else next(iter(table.values()))[0]


def test_every_kind_is_explained_and_counted() -> None:
    assert list(ABOUT) == list(KINDS)
    assert kinds() == {kind: len(entries) for kind, entries in listing().items()}
    assert kinds()["sources"] == len(names("sources")) - 1  # `some` is the former name of `subset`


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.kind} {entry.name}")
def test_sample_has_what_is_needed(entry: CatalogEntry) -> None:
    table = table_of(entry)
    given = set() if isinstance(table, str) else {*table} - {"use", "method"}
    wrapped = isinstance(table, dict) and table.get("use") == "equivariant" != entry.name
    needed = {name for name, argument in entry.arguments.items() if argument.needed}
    assert needed <= (set(table["compare"]) if wrapped else given) | ({"criteria"} if entry.name == "meter" else set())
    assert wrapped or given <= set(entry.arguments)
    assert entry.about
    assert "None" not in entry.toml


@pytest.mark.parametrize(
    "entry",
    [entry for entry in ENTRIES if entry.kind in (*BUILT, "transformations", "spaces")],
    ids=lambda entry: f"{entry.kind} {entry.name}",
)
def test_sample_can_be_built(entry: CatalogEntry, tmp_path: Path) -> None:
    builder, table = Builder("", tmp_path), table_of(entry)
    if entry.kind in BUILT:
        assert isinstance(builder.component(table, BUILT[entry.kind]), BUILT[entry.kind])
    elif entry.name in UNTRAINED and not trained_styles():
        with pytest.raises(SpecError, match="night is not trained yet"):
            builder.space(table)
    elif "path/to" not in entry.toml:
        assert builder.space(table)


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (entry, name)
        for entry in ALONE
        for name, argument in entry.arguments.items()
        if argument.choices and not (entry.kind == "transformations" and "path/to" in entry.toml)
    ],
    ids=lambda item: getattr(item, "name", item),
)
def test_choices_are_those_that_are_accepted(entry: CatalogEntry, name: str, tmp_path: Path) -> None:
    """A value that is not listed is refused, by the part itself, in a message that names the argument or its value."""
    table = table_of(entry)
    table = {"use": table} if isinstance(table, str) else table
    table = table["compare"] if table["use"] == "equivariant" != entry.name else table
    with pytest.raises(SpecError, match=rf"'{name}'|{name}|no-such-choice"):
        Builder("", tmp_path).component({**_fixed(table), name: "no-such-choice"})


def _fixed(table: dict[str, Any]) -> dict[str, Any]:
    """The table with the lower end of every range of numbers, as a change with all its numbers has them."""
    target = resolve(table["use"])
    declared = params_of(target) if isinstance(target, type) and issubclass(target, Transformation) else {}
    return {**table, **{name: table[name][0] for name in declared if isinstance(table.get(name), list)}}


def test_types_are_in_words() -> None:
    udacity = entry_named("sources", "udacity").arguments
    assert (udacity["folder"].type, udacity["folder"].needed) == ("path", True)
    assert (udacity["signals"].type, udacity["block"].type) == ("list of texts", "whole number")
    assert udacity["positive"].choices == ("left", "right")
    assert udacity["separator"].about.startswith("the character between two cells")
    assert entry_named("systems", "torch").arguments["net"].type == "module:function"
    assert entry_named("relations", "equivariant").arguments["compare"].type == "comparison"


def test_entries_are_plain_json() -> None:
    rotate = entry_named("transformations", "rotate").as_dict()
    assert rotate["arguments"]["degrees"] == {
        "type": "number",
        "needed": False,
        "default": None,
        "range": [-180, 180],
        "unit": "°",
    }
    assert rotate["arguments"]["border"]["choices"] == ["black", "reflect", "replicate", "inpaint"]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'gates'"):
        entry_named("gate", "max-fill")
    with pytest.raises(InputError, match="did you mean 'max-fill'"):
        entry_named("gates", "maxfill")


def test_every_argument_is_listed() -> None:
    for entry in ENTRIES:
        parameters = inspect.signature(resolve(names(entry.kind)[entry.name])).parameters
        assert list(entry.arguments) == [name for name, item in parameters.items() if item.kind is not item.VAR_KEYWORD]
