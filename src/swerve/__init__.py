"""Swerve: metamorphic testing of autonomous-driving perception."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swerve.api import replay, run
    from swerve.campaign import Campaign, Observation, Plan, Record, Search, Session, Trial
    from swerve.case import Case, Source
    from swerve.errors import InputError, NotApplicable, SwerveError, UnmappedError, UnreadableCase
    from swerve.pytest_plugin import metamorphic
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
    from swerve.systems.torch import TorchSystem
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

__version__ = "0.1.0"

# Nothing is imported before it is used: numpy and torch take a while, and pytest loads our plugin in every run.
_HOMES = {
    "swerve.api": "replay run",
    "swerve.campaign": "Campaign Observation Plan Record Search Session Trial",
    "swerve.case": "Case Source",
    "swerve.errors": "InputError NotApplicable SwerveError UnmappedError UnreadableCase",
    "swerve.pytest_plugin": "metamorphic",
    "swerve.relation": "Agreement Algebra Comparison Correct Equivariant Gate OnlyIf Pair Relation Rule Status Verdict",
    "swerve.relations.boxes": "BoxesAlike right_boxes same_boxes",
    "swerve.relations.sets": "NoFewer Superset",
    "swerve.relations.steering": "AngleWithin Decrease SignalWithin SquaredError lambda_mse same_angle",
    "swerve.search.sweep": "Sweep",
    "swerve.sources.windows": "Windows",
    "swerve.space": "Choices OneOf Over Range Sequenced Space Table",
    "swerve.spec": "load_campaign",
    "swerve.system": "Activations Differentiable System Traced WhiteBox",
    "swerve.systems.function": "FunctionSystem",
    "swerve.systems.torch": "TorchSystem",
    "swerve.transformation": "Chain Transformation Unchanged param",
    "swerve.values": "Boxes2D Boxes3D Calibration Depth Group Image Masks PointCloud Region SceneRef Signal Steering Value",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'swerve' has no attribute '{name}'")
    found = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
    "metamorphic",
    "param",
    "replay",
    "right_boxes",
    "run",
    "same_angle",
    "same_boxes",
]
