"""`swerve init`: a campaign file for a model and data, drafted by looking at both."""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, add_verb
from swerve.core.errors import InputError, printable

if TYPE_CHECKING:
    from swerve.drafting.campaign_draft import Draft
    from swerve.drafting.guess import Guess, Guesses

EXAMPLES = """
  swerve init                                  asks for everything
  swerve init pilot.onnx drives/monday         a folder with a table of angles
  swerve init pilot.pt drives/monday --net nets.py:PilotNet --size 200x66
  swerve init yolo.onnx data/coco --into lights.toml --answer kinds=coco
  swerve init dave-orig holiday.mp4            a network of the zoo, a video
  swerve init pilot.onnx drives/monday --yes --source unit=degrees
"""
EPILOG = """
What the files tell is taken from them: the size of the input, the columns of
a table, the range of its angles. How the numbers of a picture are prepared, and
the unit and sign of the answers, is tried on labelled frames, and the best is
kept. What remains is asked for or, with --yes or without a terminal, assumed
and marked ASSUMED in the file. Next: swerve check FILE.
"""
DEFAULT = "campaign.toml"


def add_parser(verbs: Any) -> None:
    """Add `init` to the verbs of the command line."""
    verb = add_verb(verbs, "init", init, "draft a campaign file for a model and data", EXAMPLES, EPILOG.strip("\n"))
    model = "an .onnx, .keras, .h5, .pt or .safetensors file, nets.py:MyNetwork, or a system of the zoo"
    verb.add_argument("model", nargs="?", metavar="MODEL", help=model)
    verb.add_argument("data", nargs="?", metavar="DATA", help="a folder, a table of angles, COCO's labels, or a video")
    verb.add_argument("--into", metavar="FILE", default=DEFAULT, help="the file to write (default: %(default)s)")
    verb.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    verb.add_argument("--yes", action="store_true", help="ask nothing, and mark what is assumed")
    verb.add_argument(
        "--net", default="", metavar="FILE.py:CLASS", help="the class of a torch network with weights; it is run"
    )
    verb.add_argument(
        "--size", type=_size, metavar="WxH", help="width and height of the input, where the file does not tell"
    )
    for table, about in (("source", "[source]"), ("system", "[system]"), ("answer", "the decoder, such as unit or kinds")):
        help_text = f"a key of {about}; may be repeated"
        verb.add_argument(f"--{table}", action="append", default=[], type=_pair, metavar="KEY=VALUE", help=help_text)


def init(options: argparse.Namespace) -> int:
    """Draft, ask, and write the file, which must build the campaign."""
    asks = sys.stdin.isatty() and not options.yes
    file = Path(options.into)
    _refuse_taken(file, options)
    from swerve.config.toml import Builder
    from swerve.config.trust import Trust
    from swerve.drafting.campaign_draft import Wanted, draft_campaign
    from swerve.drafting.campaign_text import campaign_text
    from swerve.execution.executors.cores import settle_threads
    from swerve.store.files import write_whole

    settle_threads()
    given = {name: _asked(getattr(options, name), what, asks) for name, what in (("model", "model"), ("data", "data"))}
    tables = {name: dict(getattr(options, name)) for name in ("source", "system", "answer")}
    wanted = Wanted(given["model"], Path(given["data"]), options.net, options.size, **tables)
    draft = draft_campaign(wanted, _review) if asks else draft_campaign(wanted)
    text = campaign_text(draft, wanted, file)
    file.parent.mkdir(parents=True, exist_ok=True)
    Builder(f"{file.name}:", file.resolve().parent, Trust.of(wanted.trusted)).campaign(tomllib.loads(text))
    write_whole(file, text.encode())
    _tell(draft, file, wanted.trusted)
    return HELD


def _refuse_taken(file: Path, options: argparse.Namespace) -> None:
    if file.suffix != ".toml":
        raise InputError(f"{file}: a campaign file ends in .toml")
    if file.exists() and not options.overwrite:
        raise InputError(f"{file}: exists already; give another file with --into, or --overwrite")


def _asked(value: str | None, what: str, asks: bool) -> str:
    """A positional argument, or the answer to the question for it."""
    if value:
        return value
    if not asks:
        raise InputError(f"init needs MODEL and DATA; '{what}' is missing (swerve init --help)")
    about = {"model": "Model (.onnx, .keras, .h5, .pt, or a name of the zoo)", "data": "Data (a folder, a table or a video)"}
    return _ask(about[what])


def _ask(question: str, default: str = "") -> str:
    """The user's answer, or the default for an empty one."""
    while True:
        try:
            said = input(f"{question}{f' [{default}]' if default else ''}: ").strip()
        except EOFError as error:
            raise InputError("the input ended before all questions were answered; --yes asks nothing") from error
        if said or default:
            return said or default


def _review(table: str, guesses: Guesses) -> dict[str, Guess]:
    """The guesses with the user's answers where something is assumed."""
    from swerve.config.sample import toml_value
    from swerve.drafting.guess import Guess

    decided = dict(guesses)
    for key, guess in guesses.items():
        if guess.assumed:
            said = _ask(f"[{table}] {key}{f', {guess.why}' if guess.why else ''}", toml_value(guess.value))
            decided[key] = Guess(_value(said), "as answered")
    return decided


def _tell(draft: Draft, file: Path, trusted: list[str]) -> None:
    """Print what was found out, what is assumed, and what to do next."""
    from swerve.drafting.campaign_text import assumptions

    print(f"{file}: {draft.task}, {draft.source['use'].value} data, system {draft.system['use'].value}")
    if draft.right:
        print(f"own answers: {draft.right}")
    if not draft.useful:
        print("This is no better than no model: check the labels, 'read', and crop or size, before a run.")
    for line in assumptions(draft):
        print(f"assumed: {printable(line)}")
    print(f"next: swerve check {file}{''.join(f' --trust {name}' for name in trusted)}")


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)[x×](\d+)", text)
    if not found or not all(map(int, found.groups())):
        raise argparse.ArgumentTypeError(f"must be WIDTHxHEIGHT, such as 200x66, got '{text}'")
    return int(found[1]), int(found[2])


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, such as unit=degrees, got '{text}'")
    return key.strip(), _value(value)


def _value(text: str) -> Any:
    """A value of TOML, or else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
