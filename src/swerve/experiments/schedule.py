"""The steps of an experiment: campaigns to run and networks to train, one after the other, each resumed where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign
from swerve.core.errors import InputError
from swerve.execution.launch import run_into
from swerve.experiments.results import SubjectRuns
from swerve.experiments.setting import RUNS
from swerve.store.files import make_folder, write_whole
from swerve.store.view import Run
from swerve.train.loop import Checkpoint

DIGITS = 12  # of the key in the name of a checkpoint


@dataclass(frozen=True)
class CampaignStep:
    """A campaign on one subject, in `runs/SUBJECT/NAME`. It is made when its turn comes, from the subject's earlier steps.

    Args:
        campaign: a function of the `SubjectRuns` so far and of `values`; by default that of the experiment.
        after: steps that must be finished; if one was refused, so is this.
        trials: how many answers it is expected to take; by default as many as its search announces.
        parallel: whether workers help; a search that waits for every answer gains nothing from them.
        checked: whether `swerve check` may refuse it.
        when: a condition on the results of all steps without a condition, of all subjects, and on this subject.
    """

    name: str
    campaign: Callable[..., Campaign] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    trials: float | None = None
    parallel: bool = True
    checked: bool = False
    when: Callable[[Any, Any], bool] | None = None

    def run(self, one: SubjectRuns, campaign: Callable[..., Campaign] | None) -> None:
        """Run or resume it; pictures of findings are left to the page."""
        setting, name = one.setting, f"{one.name}/{self.name}"
        loaded, folder = Loaded(self.campaign_for(one, campaign), setting.base), setting.into / RUNS / name
        setting.say(name)
        workers, force = setting.workers if self.parallel else 0, setting.force or not self.checked
        run = partial(run_into, progress=setting.progress, trusted=setting.trusted, pictures=False)
        run(loaded, folder, workers=workers, force=force)
        one.runs[self.name] = Run(folder)

    def campaign_for(self, one: SubjectRuns, campaign: Callable[..., Campaign] | None) -> Campaign:
        """Its campaign."""
        make = self.campaign or campaign
        if make is None:
            raise ValueError(f"step '{self.name}' has no campaign, and neither has the experiment")
        return make(one, **self.values)


@dataclass(frozen=True)
class TrainingStep:
    """A training, whose result is the file `runs/SUBJECT/NAME`; `train` writes it, `key` is a hash of all it depends on.

    A file with another key is made again. A training that the data do not allow (`InputError`) is recorded as refused.
    """

    name: str
    train: Callable[[Any, Path, Checkpoint], None]
    key: Callable[[Any], str]
    after: tuple[str, ...] = ()
    trials: float = 0.0
    when: Callable[[Any, Any], bool] | None = None

    def run(self, one: SubjectRuns, campaign: Callable[..., Campaign] | None) -> None:
        """Train, unless the file is there already."""
        del campaign
        file, key = one.setting.into.absolute() / RUNS / one.name / self.name, self.key(one)
        stated = file.with_name(f"{self.name}.key")
        if not (file.is_file() and _holds(stated, key.encode())):
            one.setting.say(f"{one.name}/{self.name}")
            make_folder(file.parent, parents=True)
            checkpoint = Checkpoint(file.with_name(f"{file.stem}-{key[:DIGITS]}.checkpoint"), key)
            try:
                self.train(one, file, checkpoint)
            except InputError as error:
                one.refused[self.name] = str(error).partition(";")[0]  # the rest is about options of another verb
                return
            write_whole(stated, key.encode())
            checkpoint.remove()
        one.trained[self.name] = file


def _holds(file: Path, content: bytes) -> bool:
    """Whether a file has exactly this content; one of another size, however large, is not read."""
    return file.is_file() and file.stat().st_size == len(content) and file.read_bytes() == content


Step = CampaignStep | TrainingStep


def grid(**axes: Iterable[Any]) -> tuple[CampaignStep, ...]:
    """A step for every combination of values, named after them; the experiment's campaign is called with them."""
    combinations = (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))
    return tuple(
        CampaignStep(", ".join(f"{name} {one}" for name, one in some.items()), values=some) for some in combinations
    )


def check_order(steps: Iterable[Step]) -> list[Step]:
    """The steps, refused if two have one name or one depends on a step that does not come before it."""
    known: dict[str, Step] = {}
    for step in steps:
        if step.name in known:
            raise ValueError(f"two steps are named '{step.name}'")
        if missing := [name for name in step.after if name not in known]:
            raise ValueError(f"step '{step.name}' comes after '{missing[0]}', which is not an earlier step")
        known[step.name] = step
    return list(known.values())
