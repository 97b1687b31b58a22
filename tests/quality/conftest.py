"""What tests of processes share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.quality.children import ROOT, environment
from tests.quality.forks import Template, template


@pytest.fixture(scope="module")
def worker_template(request: pytest.FixtureRequest) -> Iterator[Template]:
    """A process that has imported what workers of this module's campaigns need."""
    with template("tests.quality.preloaded", request.module.__name__, env=environment(), cwd=ROOT) as made:
        yield made


@pytest.fixture
def forked_workers(worker_template: Template) -> Iterator[None]:
    """Workers are forked from a process that has imported everything: every start of one would import it all again."""
    with worker_template.in_use():
        yield
