"""What all tests share."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.quality.children import Nursery

# Before numpy, torch and OpenCV are imported, here or in a process of a test: threads that wait for each other on busy
# cores cost many times the work, and there is a process of tests for every core already.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"):
    os.environ.setdefault(name, "1")

gc.disable()  # until all tests are collected: what is imported and collected is needed to the end

MEMORY = Path("/dev/shm")
ROOM = 4_000_000_000  # bytes; all tests together leave less than a tenth of that behind


def has_room(folder: Path) -> bool:
    """Whether temporary folders can lie in memory there: what is written is never waited for."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        tmpfs = any(mount[1:3] == [str(folder), "tmpfs"] for mount in mounts)
        runs = not os.statvfs(folder).f_flag & os.ST_NOEXEC  # some tests start the programs that they write
        return tmpfs and runs and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= ROOM
    except OSError:
        return False


if has_room(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

settings.register_profile("swerve", deadline=None)  # a busy machine is no fault
settings.load_profile("swerve")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script; programs started here would hang
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """From now on garbage is looked for among what tests make, and not again and again among all that there is before."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch on one thread: the same sums in the same order on any machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="session")
def own_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests allow to run is not kept in the config directory of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


# What follows imports Swerve, and with it numpy: not before the lines above.


@pytest.fixture
def forked_workers(nursery: Nursery, request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers are forked from a process that has imported everything: every start of one would import it all again."""
    with nursery.workers.in_use(request.module.__name__):
        yield


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Has commands forked from a process that has imported everything."""
    from tests.quality.children import Nursery

    with Nursery("tests.quality.preloaded") as made:
        yield made


@pytest.fixture(scope="session")
def frames_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all processes of this run of the tests keep frames."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "frames"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def rendered_once(frames_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No frame of the world is rendered that another test has rendered before; more drives than usual are remembered."""
    from swerve.world.source import World
    from tests.rendered_once import DRIVES, remembered

    monkeypatch.setattr(World, "_case", remembered(World._case, frames_folder))
    monkeypatch.setattr("swerve.world.drives._DRIVES", DRIVES)


@pytest.fixture
def light_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are started as they are from a thread; from the main one, this whole process is forked for each."""
    beside = SimpleNamespace(current_thread=threading.current_thread, main_thread=lambda: None)
    monkeypatch.setattr("swerve.systems.child.threading", beside)


@pytest.fixture
def soon() -> Iterator[None]:
    """What hangs on a pipe or an endless file is ended."""
    signal.alarm(300)
    yield
    signal.alarm(0)
