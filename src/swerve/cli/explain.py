"""`swerve explain`: what a system's steering angle depends on in a frame, as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swerve.cli.options import HELD, add_campaign, add_trust, add_verb

if TYPE_CHECKING:
    from swerve.core.campaign import Campaign
    from swerve.core.case import Case
    from swerve.explain.heat import HeatMap

GRAD_CAM, OCCLUSION = BY = ("grad-cam", "occlusion")
EXAMPLES = """
  swerve explain mine.toml                  the first case, every convolution
  swerve explain mine.toml --case drive/0042 --out 42.png
  swerve explain mine.toml --by occlusion   any system, also a black box
"""


def add_parser(verbs: Any) -> None:
    """Add `explain` to the verbs of the command line."""
    about = "show which parts of a frame the steering angle depends on"
    verb = add_verb(verbs, "explain", explain, about, EXAMPLES)
    add_campaign(verb)
    verb.add_argument("--case", metavar="KEY", help="the case to explain (default: the first)")
    verb.add_argument("--by", choices=BY, default=GRAD_CAM, help="how to find out (default: %(default)s)")
    verb.add_argument("--layer", help="explain by this convolution alone (default: by each of them)")
    verb.add_argument("--out", type=Path, default=Path("explained.png"), help="the picture to write (default: %(default)s)")
    add_trust(verb)


def explain(options: argparse.Namespace) -> int:
    """Write the picture, and print a line for each map."""
    from swerve.config.toml import load_campaign
    from swerve.execution.answers import without_truth
    from swerve.execution.evaluator import read_case
    from swerve.execution.executors.cores import settle_threads
    from swerve.explain.heat import picture_of
    from swerve.report.heat_sheet import heat_sheet
    from swerve.store.files import png_bytes, write_whole

    campaign = load_campaign(options.campaign, options.trust).campaign
    settle_threads()
    case = read_case(campaign, options.case or campaign.source.keys()[0])
    maps = _maps(campaign, without_truth(case), options)
    for name, heat in maps.items():
        print(f"{name}: {' x '.join(map(str, heat.values.shape))}{_remark(heat)}")
    write_whole(options.out, png_bytes(heat_sheet(picture_of(case).pixels, maps)))
    print(options.out)
    return HELD


def _maps(campaign: Campaign, case: Case, options: argparse.Namespace) -> dict[str, HeatMap]:
    from swerve.core.errors import InputError
    from swerve.core.system import Differentiable
    from swerve.explain.grad_cam import GradCam, convolutions
    from swerve.explain.occlusion import Occlusion

    system = campaign.system
    if options.by == OCCLUSION:
        return {OCCLUSION: Occlusion().explain([case], system)[0]}
    if not isinstance(system, Differentiable):
        raise InputError(f"grad-cam needs a network with gradients, not {type(system).__name__}; use --by occlusion")
    layers = [options.layer] if options.layer else convolutions(system, case)
    if not layers:
        raise InputError("grad-cam needs a network with convolutions; use --by occlusion")
    return {layer: GradCam(layer).explain([case], system)[0] for layer in layers}


def _remark(heat: HeatMap) -> str:
    if heat.is_flat:
        return ", flat: nothing speaks for the angle"
    return ", coarse: it cannot tell objects apart" if heat.is_coarse else ""
