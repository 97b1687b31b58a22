"""Real models and frames, where they lie beside the project."""

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(scope="session")
def data() -> Path:
    if not DATA.is_dir():
        pytest.skip(f"no real data: there is no folder ../{DATA.parent.name}/{DATA.name}")
    return DATA
