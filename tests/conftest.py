"""What all tests share."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Before numpy, torch and OpenCV are imported, here or in a process of a test: threads that wait for each other on busy
# cores cost many times the work, and there is a process of tests for every core already.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"):
    os.environ.setdefault(name, "1")

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
