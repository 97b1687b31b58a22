"""Swerve: metamorphic testing of autonomous-driving perception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from swerve.api import replay, run
from swerve.campaign import Campaign, Observation, Plan, Record, Search, Session, Trial
from swerve.case import Case, Source
from swerve.errors import InputError, NotApplicable, SwerveError, UnmappedError, UnreadableCase
from swerve.relation import (
    Agreement,
    Algebra,
    Comparison,
    Correct,
    Equivariant,
    Gate,
    OnlyIf,
    Pair,
    Relation,
    Rule,
    Status,
    Verdict,
)
from swerve.relations.boxes import BoxesAlike, right_boxes, same_boxes
from swerve.relations.sets import NoFewer, Superset
from swerve.relations.steering import AngleWithin, Decrease, SignalWithin, SquaredError, lambda_mse, same_angle
from swerve.search.sweep import Sweep
from swerve.sources.windows import Windows
from swerve.space import Choices, OneOf, Over, Range, Sequenced, Space, Table
from swerve.spec import load_campaign
from swerve.system import Activations, Differentiable, System, Traced, WhiteBox
from swerve.systems.function import FunctionSystem
from swerve.transformation import Chain, Transformation, Unchanged, param
from swerve.values import (
    Boxes2D,
    Boxes3D,
    Calibration,
    Depth,
    Group,
    Image,
    Masks,
    PointCloud,
    Region,
    SceneRef,
    Signal,
    Steering,
    Value,
)

if TYPE_CHECKING:
    from swerve.systems.torch import TorchSystem

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # torch takes a second to import, and many a command never needs it.
    if name == "TorchSystem":
        from swerve.systems.torch import TorchSystem

        return TorchSystem
    raise AttributeError(f"module 'swerve' has no attribute '{name}'")


__all__ = [
    "Activations",
    "Agreement",
    "Algebra",
    "AngleWithin",
    "Boxes2D",
    "Boxes3D",
    "BoxesAlike",
    "Calibration",
    "Campaign",
    "Case",
    "Chain",
    "Choices",
    "Comparison",
    "Correct",
    "Decrease",
    "Depth",
    "Differentiable",
    "Equivariant",
    "FunctionSystem",
    "Gate",
    "Group",
    "Image",
    "InputError",
    "Masks",
    "NoFewer",
    "NotApplicable",
    "Observation",
    "OneOf",
    "OnlyIf",
    "Over",
    "Pair",
    "Plan",
    "PointCloud",
    "Range",
    "Record",
    "Region",
    "Relation",
    "Rule",
    "SceneRef",
    "Search",
    "Sequenced",
    "Session",
    "Signal",
    "SignalWithin",
    "Source",
    "Space",
    "SquaredError",
    "Status",
    "Steering",
    "Superset",
    "Sweep",
    "SwerveError",
    "System",
    "Table",
    "TorchSystem",
    "Traced",
    "Transformation",
    "Trial",
    "Unchanged",
    "UnmappedError",
    "UnreadableCase",
    "Value",
    "Verdict",
    "WhiteBox",
    "Windows",
    "__version__",
    "lambda_mse",
    "load_campaign",
    "param",
    "replay",
    "right_boxes",
    "run",
    "same_angle",
    "same_boxes",
]
