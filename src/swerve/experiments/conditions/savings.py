"""What does the race save, and does it find the same?"""

from __future__ import annotations

from collections.abc import Iterator

from swerve.experiments import Row, question
from swerve.experiments.conditions.condition_runs import RACED, WHOLE, ConditionRuns, Searches, search_step, system_table

CLOSE = 0.02  # of the fitness, within which two results count as the same
WITH, WITHOUT = "fitness with the race", "without"


@system_table("race", "With and without the race", formats={"share": ".1%", WITH: ".4f", WITHOUT: ".4f", "gap": "+.2%"})
def race(one: ConditionRuns) -> Iterator[Row]:
    """the evolution of one condition, on every scene and with the race; run: candidates times scenes; gap: how much the
    final fitness differs"""
    for number in range(one.setting.size.races):
        whole, raced = (one.summary(search_step(how, number)) for how in (WHOLE, RACED))
        (ours,), (theirs,) = raced["conditions"], whole["conditions"]
        spent, full = (found["condition_search"]["scene_evaluations"] for found in (raced, whole))
        gap = ours["fitness"] / theirs["fitness"] - 1 if theirs["fitness"] else None
        cells = {"run with the race": spent, "run without": full, "share": spent / full}
        found = {WITH: ours["fitness"], WITHOUT: theirs["fitness"], "gap": gap, "same": ours["change"] == theirs["change"]}
        yield {"search": number + 1, "scenes": theirs["scenes"], **cells, **found}


@question("What does the race save?", race, each=True)
def does_the_race_pay(one: ConditionRuns) -> str:
    """A candidate leaves as soon as it can hardly become the best; without the race each is run on every scene."""
    rows = [row for row in race.rows(Searches(one.setting, [one])) if row["gap"] is not None]
    spent, full = (sum(row[name] for row in rows) for name in ("run with the race", "run without"))
    close = sum(abs(row["gap"]) <= CLOSE for row in rows)
    share = f"{spent / full:.0%}" if full else "none"
    same = f"the final fitness within {CLOSE:.0%} in {close} of {len(rows)} searches"
    return f"{one.name}: {share} of the scene evaluations, {same}"
