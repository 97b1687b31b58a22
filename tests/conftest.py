"""What all tests share."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

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
