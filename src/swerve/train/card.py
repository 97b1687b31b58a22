"""The card of trained weights: data, recipe, versions and measured numbers, as JSON and Markdown."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from swerve.store.files import json_bytes, write_whole

PAGE = """# {name}

{about}

| | |
|---|---|
{table}

## Measured

{measured}

## Limits

{limits}

## Train it again

    swerve zoo train {name}
"""


def recipe_row(recipe: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The numbers of a recipe with the seed and the threads that the same bytes need."""
    return {**recipe, "seed": seed, "threads": torch.get_num_threads()}


def versions(*others: str) -> str:
    """The libraries and the processor that weights depend on."""
    return ", ".join((f"torch {torch.__version__}", f"numpy {np.__version__}", *others, platform.machine()))


def card_page(name: str, about: str, rows: Mapping[str, object], *, measured: str, limits: Iterable[str]) -> str:
    """The Markdown page of a card."""
    table = "\n".join(f"| {title} | {value} |" for title, value in rows.items())
    return PAGE.format(
        name=name, about=about, table=table, measured=measured, limits="\n".join(f"- {limit}" for limit in limits)
    )


def write_card(folder: Path, card: Mapping[str, Any], page: str) -> None:
    """Write `NAME.json` and `NAME.md`."""
    write_whole(folder / f"{card['name']}.json", json_bytes(card))
    write_whole(folder / f"{card['name']}.md", page.encode())


def read_cards(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The cards that lie in a folder, by name, in the order of `names`."""
    files = {name: folder / f"{name}.json" for name in names}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
