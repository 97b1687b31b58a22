"""A draft as the text of a campaign file, with a comment at everything that was found out or assumed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swerve.config.sample import toml_value
from swerve.config.trust import PYTHON_FILE
from swerve.drafting.campaign_draft import DETECTION, Draft, Wanted
from swerve.drafting.guess import Guess, Guesses

ASSUMED = "ASSUMED: "
WIDTH = 110  # of a line with its comment; a longer comment stands above its key
PATHS = ("folder", "model", "weights", "structure")
# The name, the change and what it is: what must not change an angle by more than `within`, or what a detector is sure of.
STEERING_RULES = (
    ("tilted camera", '{ use = "rotate", degrees = [1, 15] }', 'a range; or a number, { choices = [1, 5] }, or "grid"'),
    ("brighter", '{ use = "brighten", beta = [10, 60] }', "levels of 255"),
    ("fog", '{ use = "fog", visibility = [60, 400] }', "metres"),
    ("rain", '"tigaug-rain"', "`swerve list spaces` and `swerve list transformations` have all changes"),
)
DETECTION_RULES = (
    ("rain", '"tigaug-rain"', "`swerve list spaces` and `swerve list transformations` have all changes"),
    ("motion blur", '"motion-blurs"', ""),
    ("darker", '{ use = "under-expose" }', ""),
)
SAME_ANGLE = '{ use = "same-angle", within = 5.0 }'


def campaign_text(draft: Draft, wanted: Wanted, file: Path) -> str:
    """The campaign file that is to be written to `file`, to whose folder its paths are relative."""
    trust = "".join(f" --trust {name}" for name in wanted.trusted)
    head = [
        f"# {wanted.model} on {wanted.data}, drafted by `swerve init`:",
        "#",
        f"#   swerve check {file}{trust}      the model's own error, and whether this campaign can find anything",
        f"#   swerve run {file} --into runs/{file.stem}{trust}",
        "#",
        "# Lines with ASSUMED are not known: please correct them. Paths are relative to this file.",
    ]
    places = {key: _relative(guess, file.parent) if key in PATHS else guess for key, guess in draft.source.items()}
    system = {key: _relative(guess, file.parent) if key in (*PATHS, "net") else guess for key, guess in draft.system.items()}
    parts = [
        *head,
        *(
            "",
            "seed = 7",
            "inference_batch = 16",
            "",
            "[source]                # the data; `swerve list sources` has all kinds",
        ),
        *_lines(places),
        *("", "[system]                # the model under test; docs/systems.md explains the keys"),
        *_lines(system),
        *(_say(draft.say) if draft.say else ()),
        "",
        *_rules(draft),
        *("[search]", 'use = "sweep"', "per_case = 3            # trials of each rule on each case", ""),
    ]
    return "\n".join(parts)


def _relative(guess: Guess, folder: Path) -> Guess:
    """The guess with its path as seen from the folder of the campaign file; modules of packages stay as they are."""
    path, colon, name = str(guess.value).rpartition(":") if PYTHON_FILE in str(guess.value) else (str(guess.value), "", "")
    if ":" in path or os.path.isabs(path):
        return guess
    return Guess(f"{os.path.relpath(path, folder)}{colon}{name}", guess.why, guess.assumed)


def _lines(table: Guesses) -> Iterator[str]:
    for key, guess in table.items():
        yield from _line(f"{key} = {toml_value(guess.value)}", guess, key, guess.value)


def _line(text: str, guess: Guess, key: str, value: Any) -> Iterator[str]:
    """A key with its comment beside it, or above it if both are too long; a long list takes a line for each item."""
    comment = f"# {ASSUMED if guess.assumed else ''}{guess.why}" if guess.why or guess.assumed else ""
    if comment and len(text) + len(comment) + 2 <= WIDTH and not isinstance(value, list):
        yield f"{text:<24}{comment}" if len(text) < 24 else f"{text}  {comment}"
        return
    if comment:
        yield comment
    if isinstance(value, list) and len(text) > WIDTH // 2:
        yield from (f"{key} = [", *(f"  {toml_value(item)}," for item in value), "]")
    else:
        yield text


def _say(say: Guesses) -> Iterator[str]:
    """The decoder, in one line; what is known of its keys stands above it, of those together that are known alike."""
    whys = dict.fromkeys((guess.assumed, guess.why) for guess in say.values() if guess.why or guess.assumed)
    for assumed, why in whys:
        keys = " and ".join(key for key, guess in say.items() if (guess.assumed, guess.why) == (assumed, why))
        yield f"# {ASSUMED if assumed else ''}{keys}{f': {why}' if why else ''}"
    yield f"say = [{toml_value({key: guess.value for key, guess in say.items()})}]"


def _rules(draft: Draft) -> Iterator[str]:
    kinds = f', kinds = "{draft.kinds}"' if draft.kinds != "same" else ""
    boxes = f'{{ use = "same-boxes", overlap = 0.5, least_score = 0.3{kinds} }}'
    rules, expect, why = (
        (DETECTION_RULES, boxes, "what the system is sure of must stay where it is")
        if draft.task == DETECTION
        else (STEERING_RULES, SAME_ANGLE, "the answer may move by so many degrees of the steering wheel")
    )
    for place, (name, change, about) in enumerate(rules):
        yield from ("[[rule]]", f'name = "{name}"', f"change = {change}{f'    # {about}' if about else ''}")
        yield from (f"expect = {expect}{'' if place else f'    # {why}'}", "")


def assumptions(draft: Draft) -> Sequence[str]:
    """What the file assumes, a line each."""
    tables: Mapping[str, str] = {"say": "system, say"}
    return [
        f"[{tables.get(table, table)}] {key} = {toml_value(guess.value)}{f' ({guess.why})' if guess.why else ''}"
        for table, key, guess in draft.assumed
    ]
