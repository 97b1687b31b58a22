"""Changes drawn where the system is, before any is made: the trials of a batch that draw from one space at once.

A space may read the case and ask the system, so proposals are made in one thread, one space after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from swerve.core.campaign import Campaign, Trial
from swerve.core.case import Case
from swerve.core.errors import InputError, ModelError, NotApplicable, SwerveError, printable
from swerve.core.relation import Fault, Verdict
from swerve.core.space import Proposal, Space, propose_all, reads
from swerve.core.transformation import Chain, Transformation, clear_frame_cache
from swerve.execution.answers import FOREIGN, brief, checksums_of, sentence

Drawn = Transformation | Verdict  # the change of a trial, or the verdict on a trial that has none
SPOILT = Verdict.error("a proposal writes into its case; have the space and the system work on a copy", Fault.CHANGE)


def draw_changes(campaign: Campaign, trials: Sequence[Trial], cases: Mapping[str, Case]) -> list[Drawn]:
    """The change of every trial, fixed by the search or drawn now; `SPOILT` where drawing it has changed the case."""
    drawn: dict[int, Drawn] = {place: trial.change for place, trial in enumerate(trials) if trial.change is not None}
    batches = _batches(campaign, trials)
    looking = [place for space, places in batches if reads(space) for place in places]
    keys = dict.fromkeys(trials[place].case for place in looking)
    shown = [cases[key] for key in keys]
    checksums = checksums_of(shown)
    for space, places in batches:
        drawn.update(zip(places, _draw(campaign, space, [trials[place] for place in places], cases), strict=True))
    written = {key for key, one, other in zip(keys, checksums, checksums_of(shown), strict=True) if one != other}
    if written:
        clear_frame_cache()
    spoilt = {place for place in looking if trials[place].case in written}
    return [SPOILT if place in spoilt else _checked(trial, drawn[place]) for place, trial in enumerate(trials)]


def resolved(trial: Trial, change: Drawn) -> Trial:
    """The trial as its record keeps it: what continued other changes is now a change."""
    if trial.continues is None:
        return trial
    return replace(trial, change=None if isinstance(change, Verdict) else change, continues=None)


def _batches(campaign: Campaign, trials: Sequence[Trial]) -> list[tuple[Space, list[int]]]:
    """The spaces that changes are drawn from, each with the places of its trials."""
    places: dict[object, list[int]] = {}
    for place, trial in enumerate(trials):
        if trial.change is None:
            places.setdefault((trial.rule, trial.continues and trial.continues.kinds), []).append(place)
    return [(_space(campaign, trials[own[0]]), own) for own in places.values()]


def _space(campaign: Campaign, trial: Trial) -> Space:
    whole = campaign.rule(trial.rule).change
    return trial.continues.space(whole) if trial.continues else whole


def _draw(campaign: Campaign, space: Space, trials: Sequence[Trial], cases: Mapping[str, Case]) -> list[Drawn]:
    """A change for each trial; if the batch fails, each is drawn alone, so that one case cannot spoil the rest."""
    # Made anew for every attempt: a generator that was used before would draw other changes.
    rngs = [trial.rng(campaign.seed) for trial in trials]
    try:
        shown = [t.continues.begin(cases[t.case]) if t.continues and reads(space) else cases[t.case] for t in trials]
        proposals = propose_all(space, shown, rngs, campaign.system)
        return [_change_of(trial, proposal) for trial, proposal in zip(trials, proposals, strict=True)]
    except FOREIGN as error:  # a space of the user's own, or the system that it asks
        if len(trials) > 1:
            return [drawn for trial in trials for drawn in _draw(campaign, space, [trial], cases)]
        if isinstance(error, SwerveError) and not isinstance(error, ModelError | NotApplicable):
            raise  # what is wrong for every case stops the campaign with its message
        return [_verdict_of(error)]


def _change_of(trial: Trial, proposal: Proposal) -> Drawn:
    if isinstance(proposal, NotApplicable):
        return _verdict_of(proposal)
    return trial.continues.chain(proposal) if trial.continues and isinstance(proposal, Chain) else proposal


def _verdict_of(error: BaseException) -> Verdict:
    if isinstance(error, NotApplicable):
        return Verdict.skipped(str(error))
    if isinstance(error, ModelError):
        return Verdict.error(printable(str(error), 200), Fault(error.kind))
    return Verdict.error(sentence(error), Fault.CHANGE)


def _checked(trial: Trial, change: object) -> Drawn:
    if not isinstance(change, Transformation | Verdict):
        raise InputError(f"rule '{trial.rule}' proposed {brief(change)}, not a transformation")
    return change
