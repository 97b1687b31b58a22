"""Swerve: metamorphic testing of autonomous-driving perception."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swerve.api import replay, run, test
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
        Both,
        Comparison,
        Correct,
        Either,
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
        Classes,
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
    from swerve.coverage.meter import Meter
    from swerve.coverage.neuron import NC, TopK
    from swerve.coverage.profiled import KMNC, NBC, SNAC
    from swerve.pytest_plugin import metamorphic
    from swerve.relations.boxes import BoxesAlike, PlacedBoxes, right_boxes, same_boxes
    from swerve.relations.gates import LabelKept, Legible, MaxFill
    from swerve.relations.sets import NoFewer, Superset
    from swerve.relations.steering import (
        AngleWithin,
        Decrease,
        SignalWithin,
        SquaredError,
        lambda_mse,
        same_angle,
        same_decision,
    )
    from swerve.relations.unjudged import Unjudged
    from swerve.report.notebook import FinishedRun
    from swerve.search.evolve import Evolve
    from swerve.search.fuzz import Fuzz
    from swerve.search.greedy import Greedy
    from swerve.search.series import Series
    from swerve.search.sweep import Sweep
    from swerve.sources.bdd import Bdd100k
    from swerve.sources.bosch import Bosch
    from swerve.sources.cityscapes import Cityscapes
    from swerve.sources.coco import Coco
    from swerve.sources.folders import Clouds, Folder
    from swerve.sources.kitti import Kitti, KittiRaw
    from swerve.sources.lisa import Lisa
    from swerve.sources.regions import Regions
    from swerve.sources.subset import Subset
    from swerve.sources.udacity import Udacity
    from swerve.sources.video import Video
    from swerve.sources.voc import Voc
    from swerve.sources.windows import Windows
    from swerve.sources.yolo import Yolo
    from swerve.systems.decoders import SignalDecoder, SteeringDecoder
    from swerve.systems.detections import EndToEnd, SeparateOutputs, Ssd, YoloV5, YoloV8, Yolox
    from swerve.systems.ensemble import Ensemble
    from swerve.systems.function import FunctionSystem
    from swerve.systems.keras import Keras
    from swerve.systems.onnx import Onnx
    from swerve.systems.process import Process
    from swerve.systems.shorthand import keras, onnx, steering, torch
    from swerve.systems.steps import Bgr, Crop, CropTo, Divide, Float, Grey, Hsv, Letterbox, Multiply, Normalise, Resize, Yuv
    from swerve.systems.torch import Torch, TorchSystem
    from swerve.transformations.affine import Enlarge, Rotate, RotateAboutPixel, Scale, Shear, Translate, ZoomOut
    from swerve.transformations.blur import AverageBlur, BilateralBlur, GaussianBlur, MedianBlur, MotionBlur
    from swerve.transformations.dropout import DropBeams, DropPoints, DropSector, Jitter
    from swerve.transformations.exposure import OverExpose, RaiseValue, UnderExpose
    from swerve.transformations.flare import LensFlare
    from swerve.transformations.insert import InsertObject
    from swerve.transformations.photometric import Brighten, Contrast
    from swerve.transformations.relight import RelightFarther, RelightMore, RelightPlace, RelightState, RelightTurned
    from swerve.transformations.rerender import Rerender, Reshade
    from swerve.transformations.reswap import AddObjects, Recolour, RemoveObjects, Reswap
    from swerve.transformations.scatter import AddPoints, OfferPoints, PlacePoints
    from swerve.transformations.sensor_pose import MirrorScene, Shift, Yaw
    from swerve.transformations.weather import Fog, Rain, Snow
    from swerve.world.lidar_source import LidarWorld
    from swerve.world.light_source import LightWorld
    from swerve.world.source import World
    from swerve.zoo.lidar import Lidar, LidarGlobal
    from swerve.zoo.steering import Chauffeur, DaveDropout, DaveObjects, DaveOrig, Epoch, Rambo

__version__ = "0.1.0"

# Imported on first use: numpy and torch are slow to import, and pytest loads our plugin in every run.
_HOMES = {
    "swerve.api": "replay run test",
    "swerve.config.toml": "load_campaign",
    "swerve.core.asset": "Asset",
    "swerve.core.campaign": "Campaign Continuation Observation Plan Record Search Session Trial",
    "swerve.core.case": "Case Source",
    "swerve.core.errors": "InputError NotApplicable SwerveError UnmappedError UnreadableCase",
    "swerve.core.gate": "Admission AllOf AnyOf Gate",
    "swerve.core.origin": "Attribution Origin",
    "swerve.core.relation": (
        "Agreement Algebra Both Comparison Correct Either Equivariant OnlyIf Pair Relation Rule Status Verdict"
    ),
    "swerve.core.space": "BatchSpace Choices OneOf Over Range Sequenced Space Table",
    "swerve.core.system": "Activations System Traced WhiteBox",
    "swerve.core.transformation": "Chain Transformation Unchanged param",
    "swerve.core.values": (
        "Boxes2D Boxes3D Calibration Classes Depth Group Image Masks PointCloud Region SceneRef Signal Steering Value"
    ),
    "swerve.coverage.meter": "Meter",
    "swerve.coverage.neuron": "NC TopK",
    "swerve.coverage.profiled": "KMNC NBC SNAC",
    "swerve.pytest_plugin": "metamorphic",
    "swerve.relations.boxes": "BoxesAlike PlacedBoxes right_boxes same_boxes",
    "swerve.relations.gates": "LabelKept Legible MaxFill",
    "swerve.relations.sets": "NoFewer Superset",
    "swerve.relations.steering": "AngleWithin Decrease SignalWithin SquaredError lambda_mse same_angle same_decision",
    "swerve.relations.unjudged": "Unjudged",
    "swerve.report.notebook": "FinishedRun",
    "swerve.search.evolve": "Evolve",
    "swerve.search.fuzz": "Fuzz",
    "swerve.search.greedy": "Greedy",
    "swerve.search.series": "Series",
    "swerve.search.sweep": "Sweep",
    "swerve.sources.bdd": "Bdd100k",
    "swerve.sources.bosch": "Bosch",
    "swerve.sources.cityscapes": "Cityscapes",
    "swerve.sources.coco": "Coco",
    "swerve.sources.folders": "Clouds Folder",
    "swerve.sources.kitti": "Kitti KittiRaw",
    "swerve.sources.lisa": "Lisa",
    "swerve.sources.regions": "Regions",
    "swerve.sources.subset": "Subset",
    "swerve.sources.udacity": "Udacity",
    "swerve.sources.video": "Video",
    "swerve.sources.voc": "Voc",
    "swerve.sources.windows": "Windows",
    "swerve.sources.yolo": "Yolo",
    "swerve.systems.decoders": "SignalDecoder SteeringDecoder",
    "swerve.systems.detections": "EndToEnd SeparateOutputs Ssd YoloV5 YoloV8 Yolox",
    "swerve.systems.ensemble": "Ensemble",
    "swerve.systems.function": "FunctionSystem",
    "swerve.systems.keras": "Keras",
    "swerve.systems.shorthand": "keras onnx steering torch",
    "swerve.systems.onnx": "Onnx",
    "swerve.systems.process": "Process",
    "swerve.systems.steps": "Bgr Crop CropTo Divide Float Grey Hsv Letterbox Multiply Normalise Resize Yuv",
    "swerve.systems.torch": "Torch TorchSystem",
    "swerve.transformations.affine": "Enlarge Rotate RotateAboutPixel Scale Shear Translate ZoomOut",
    "swerve.transformations.blur": "AverageBlur BilateralBlur GaussianBlur MedianBlur MotionBlur",
    "swerve.transformations.dropout": "DropBeams DropPoints DropSector Jitter",
    "swerve.transformations.exposure": "OverExpose RaiseValue UnderExpose",
    "swerve.transformations.flare": "LensFlare",
    "swerve.transformations.insert": "InsertObject",
    "swerve.transformations.photometric": "Brighten Contrast",
    "swerve.transformations.relight": "RelightFarther RelightMore RelightPlace RelightState RelightTurned",
    "swerve.transformations.rerender": "Rerender Reshade",
    "swerve.transformations.reswap": "AddObjects Recolour RemoveObjects Reswap",
    "swerve.transformations.scatter": "AddPoints OfferPoints PlacePoints",
    "swerve.transformations.sensor_pose": "MirrorScene Shift Yaw",
    "swerve.transformations.weather": "Fog Rain Snow",
    "swerve.world.lidar_source": "LidarWorld",
    "swerve.world.light_source": "LightWorld",
    "swerve.world.source": "World",
    "swerve.zoo.lidar": "Lidar LidarGlobal",
    "swerve.zoo.steering": "Chauffeur DaveDropout DaveObjects DaveOrig Epoch Rambo",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name) or _home_of_part(name)
    if home is None:
        raise AttributeError(f"module 'swerve' has no attribute '{name}'")
    try:
        found = globals()[name] = getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        from swerve.core.extras import missing_package

        raise missing_package(error) or error from error
    return found


def _home_of_part(name: str) -> str | None:
    """The module of a part that campaign files can use, which need not be listed here."""
    if name.startswith("_"):
        return None
    from swerve.core.names import OURS

    targets = (target.rpartition(":") for kind in OURS.values() for target in kind.values())
    return next((module for module, _, part in targets if part == name), None)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "KMNC",
    "NBC",
    "NC",
    "SNAC",
    "Activations",
    "AddObjects",
    "AddPoints",
    "Admission",
    "Agreement",
    "Algebra",
    "AllOf",
    "AngleWithin",
    "AnyOf",
    "Asset",
    "Attribution",
    "AverageBlur",
    "BatchSpace",
    "Bdd100k",
    "Bgr",
    "BilateralBlur",
    "Bosch",
    "Both",
    "Boxes2D",
    "Boxes3D",
    "BoxesAlike",
    "Brighten",
    "Calibration",
    "Campaign",
    "Case",
    "Chain",
    "Chauffeur",
    "Choices",
    "Cityscapes",
    "Classes",
    "Clouds",
    "Coco",
    "Comparison",
    "Continuation",
    "Contrast",
    "Correct",
    "Crop",
    "CropTo",
    "DaveDropout",
    "DaveObjects",
    "DaveOrig",
    "Decrease",
    "Depth",
    "Divide",
    "DropBeams",
    "DropPoints",
    "DropSector",
    "Either",
    "EndToEnd",
    "Enlarge",
    "Ensemble",
    "Epoch",
    "Equivariant",
    "Evolve",
    "FinishedRun",
    "Float",
    "Fog",
    "Folder",
    "FunctionSystem",
    "Fuzz",
    "Gate",
    "GaussianBlur",
    "Greedy",
    "Grey",
    "Group",
    "Hsv",
    "Image",
    "InputError",
    "InsertObject",
    "Jitter",
    "Keras",
    "Kitti",
    "KittiRaw",
    "LabelKept",
    "Legible",
    "LensFlare",
    "Letterbox",
    "Lidar",
    "LidarGlobal",
    "LidarWorld",
    "LightWorld",
    "Lisa",
    "Masks",
    "MaxFill",
    "MedianBlur",
    "Meter",
    "MirrorScene",
    "MotionBlur",
    "Multiply",
    "NoFewer",
    "Normalise",
    "NotApplicable",
    "Observation",
    "OfferPoints",
    "OneOf",
    "OnlyIf",
    "Onnx",
    "Origin",
    "Over",
    "OverExpose",
    "Pair",
    "PlacePoints",
    "PlacedBoxes",
    "Plan",
    "PointCloud",
    "Process",
    "Rain",
    "RaiseValue",
    "Rambo",
    "Range",
    "Recolour",
    "Record",
    "Region",
    "Regions",
    "Relation",
    "RelightFarther",
    "RelightMore",
    "RelightPlace",
    "RelightState",
    "RelightTurned",
    "RemoveObjects",
    "Rerender",
    "Reshade",
    "Resize",
    "Reswap",
    "Rotate",
    "RotateAboutPixel",
    "Rule",
    "Scale",
    "SceneRef",
    "Search",
    "SeparateOutputs",
    "Sequenced",
    "Series",
    "Session",
    "Shear",
    "Shift",
    "Signal",
    "SignalDecoder",
    "SignalWithin",
    "Snow",
    "Source",
    "Space",
    "SquaredError",
    "Ssd",
    "Status",
    "Steering",
    "SteeringDecoder",
    "Subset",
    "Superset",
    "Sweep",
    "SwerveError",
    "System",
    "Table",
    "TopK",
    "Torch",
    "TorchSystem",
    "Traced",
    "Transformation",
    "Translate",
    "Trial",
    "Udacity",
    "Unchanged",
    "UnderExpose",
    "Unjudged",
    "UnmappedError",
    "UnreadableCase",
    "Value",
    "Verdict",
    "Video",
    "Voc",
    "WhiteBox",
    "Windows",
    "World",
    "Yaw",
    "Yolo",
    "YoloV5",
    "YoloV8",
    "Yolox",
    "Yuv",
    "ZoomOut",
    "__version__",
    "keras",
    "lambda_mse",
    "load_campaign",
    "metamorphic",
    "onnx",
    "param",
    "replay",
    "right_boxes",
    "run",
    "same_angle",
    "same_boxes",
    "same_decision",
    "steering",
    "test",
    "torch",
]
