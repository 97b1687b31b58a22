"""Swerve: metamorphic testing of autonomous-driving perception."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swerve.api import replay, run
    from swerve.config.toml import load_campaign
    from swerve.core.asset import Asset
    from swerve.core.campaign import Campaign, Continuation, Observation, Plan, Record, Search, Session, Trial
    from swerve.core.case import Case, Source
    from swerve.core.errors import InputError, NotApplicable, SwerveError, UnmappedError, UnreadableCase
    from swerve.core.gate import Admission, AllOf, AnyOf, Gate
    from swerve.core.origin import Attribution, Origin
    from swerve.core.relation import (
        Agreement,
        Algebra,
        Comparison,
        Correct,
        Equivariant,
        OnlyIf,
        Pair,
        Relation,
        Rule,
        Status,
        Verdict,
    )
    from swerve.core.space import BatchSpace, Choices, OneOf, Over, Range, Sequenced, Space, Table
    from swerve.core.system import Activations, System, Traced, WhiteBox
    from swerve.core.transformation import Chain, Transformation, Unchanged, param
    from swerve.core.values import (
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
    from swerve.pytest_plugin import metamorphic
    from swerve.relations.boxes import BoxesAlike, right_boxes, same_boxes
    from swerve.relations.sets import NoFewer, Superset
    from swerve.relations.steering import AngleWithin, Decrease, SignalWithin, SquaredError, lambda_mse, same_angle
    from swerve.search.sweep import Sweep
    from swerve.sources.windows import Windows
    from swerve.systems.function import FunctionSystem
    from swerve.systems.torch import TorchSystem

__version__ = "0.1.0"

# Imported on first use: numpy and torch are slow to import, and pytest loads our plugin in every run.
_HOMES = {
    "swerve.api": "replay run",
    "swerve.core.asset": "Asset",
    "swerve.core.campaign": "Campaign Continuation Observation Plan Record Search Session Trial",
    "swerve.core.case": "Case Source",
    "swerve.core.errors": "InputError NotApplicable SwerveError UnmappedError UnreadableCase",
    "swerve.core.gate": "Admission AllOf AnyOf Gate",
    "swerve.core.origin": "Attribution Origin",
    "swerve.pytest_plugin": "metamorphic",
    "swerve.core.relation": "Agreement Algebra Comparison Correct Equivariant OnlyIf Pair Relation Rule Status Verdict",
    "swerve.relations.boxes": "BoxesAlike right_boxes same_boxes",
    "swerve.relations.sets": "NoFewer Superset",
    "swerve.relations.steering": "AngleWithin Decrease SignalWithin SquaredError lambda_mse same_angle",
    "swerve.search.sweep": "Sweep",
    "swerve.sources.windows": "Windows",
    "swerve.core.space": "BatchSpace Choices OneOf Over Range Sequenced Space Table",
    "swerve.config.toml": "load_campaign",
    "swerve.core.system": "Activations System Traced WhiteBox",
    "swerve.systems.function": "FunctionSystem",
    "swerve.systems.torch": "TorchSystem",
    "swerve.core.transformation": "Chain Transformation Unchanged param",
    "swerve.core.values": (
        "Boxes2D Boxes3D Calibration Depth Group Image Masks PointCloud Region SceneRef Signal Steering Value"
    ),
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
    "Admission",
    "Agreement",
    "Algebra",
    "AllOf",
    "AngleWithin",
    "AnyOf",
    "Asset",
    "Attribution",
    "BatchSpace",
    "Boxes2D",
    "Boxes3D",
    "BoxesAlike",
    "Calibration",
    "Campaign",
    "Case",
    "Chain",
    "Choices",
    "Comparison",
    "Continuation",
    "Correct",
    "Decrease",
    "Depth",
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
    "Origin",
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
