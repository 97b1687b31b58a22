"""Names to classes: short names of Swerve's own parts and of installed packages, or `module:Name`."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from swerve.errors import SpecError, did_you_mean, printable
from swerve.seeding import digest_of

# Nothing is imported until it is asked for: a campaign without torch never loads torch.
OURS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "sources": {
            "world": "swerve.world.source:World",
            "lidar-world": "swerve.world.lidar_source:LidarWorld",
            "regions": "swerve.sources.regions:Regions",
            "windows": "swerve.sources.windows:Windows",
            "some": "swerve.sources.some:Some",
            "folder": "swerve.sources.folder:Folder",
            "video": "swerve.sources.video:Video",
            "udacity": "swerve.sources.udacity:Udacity",
            "cityscapes": "swerve.sources.cityscapes:Cityscapes",
            "coco": "swerve.sources.coco:Coco",
            "yolo": "swerve.sources.yolo:Yolo",
            "voc": "swerve.sources.voc:Voc",
            "bdd100k": "swerve.sources.bdd:Bdd100k",
            "lisa": "swerve.sources.lisa:Lisa",
            "bosch": "swerve.sources.bosch:Bosch",
            "kitti": "swerve.sources.kitti:Kitti",
            "kitti-raw": "swerve.sources.kitti:KittiRaw",
            "clouds": "swerve.sources.clouds:Clouds",
        },
        "systems": {
            "torch": "swerve.systems.torch:Torch",
            "onnx": "swerve.systems.onnx:Onnx",
            "keras": "swerve.systems.keras:Keras",
            "process": "swerve.systems.process:Process",
            "function": "swerve.systems.function:FunctionSystem",
            "ensemble": "swerve.systems.ensemble:Ensemble",
            "epoch": "swerve.zoo.steering:Epoch",
            "dave-orig": "swerve.zoo.steering:DaveOrig",
            "dave-dropout": "swerve.zoo.steering:DaveDropout",
            "chauffeur": "swerve.zoo.steering:Chauffeur",
            "rambo": "swerve.zoo.steering:Rambo",
            "lidar": "swerve.zoo.lidar:Lidar",
            "lidar-global": "swerve.zoo.lidar:LidarGlobal",
        },
        "steps": {
            "grey": "swerve.systems.steps:Grey",
            "yuv": "swerve.systems.steps:Yuv",
            "hsv": "swerve.systems.steps:Hsv",
            "bgr": "swerve.systems.steps:Bgr",
            "resize": "swerve.systems.steps:Resize",
            "crop": "swerve.systems.steps:Crop",
            "crop-to": "swerve.systems.steps:CropTo",
            "letterbox": "swerve.systems.steps:Letterbox",
            "float": "swerve.systems.steps:Float",
            "multiply": "swerve.systems.steps:Multiply",
            "divide": "swerve.systems.steps:Divide",
            "normalise": "swerve.systems.steps:Normalise",
        },
        "decoders": {
            "steering": "swerve.systems.saying:SaySteering",
            "signal": "swerve.systems.saying:SaySignal",
            "yolox": "swerve.systems.detections:Yolox",
            "yolov5": "swerve.systems.detections:YoloV5",
            "yolov8": "swerve.systems.detections:YoloV8",
            "ssd": "swerve.systems.detections:Ssd",
            "detections": "swerve.systems.detections:Dicts",
            "end-to-end": "swerve.systems.detections:EndToEnd",
        },
        "transformations": {
            "rerender": "swerve.transformations.rerender:Rerender",
            "unchanged": "swerve.transformation:Unchanged",
            "chain": "swerve.transformation:Chain",
            "brighten": "swerve.transformations.photometric:Brighten",
            "contrast": "swerve.transformations.photometric:Contrast",
            "translate": "swerve.transformations.affine:Translate",
            "scale": "swerve.transformations.affine:Scale",
            "shear": "swerve.transformations.affine:Shear",
            "rotate": "swerve.transformations.affine:Rotate",
            "average-blur": "swerve.transformations.blur:AverageBlur",
            "gaussian-blur": "swerve.transformations.blur:GaussianBlur",
            "median-blur": "swerve.transformations.blur:MedianBlur",
            "bilateral-blur": "swerve.transformations.blur:BilateralBlur",
            "motion-blur": "swerve.transformations.blur:MotionBlur",
            "zoom-out": "swerve.transformations.affine:ZoomOut",
            "fog": "swerve.transformations.weather:Fog",
            "rain": "swerve.transformations.weather:Rain",
            "snow": "swerve.transformations.weather:Snow",
            "lens-flare": "swerve.transformations.flare:LensFlare",
            "enlarge": "swerve.transformations.resize:Enlarge",
            "over-expose": "swerve.transformations.exposure:OverExpose",
            "under-expose": "swerve.transformations.exposure:UnderExpose",
            "yaw": "swerve.transformations.lidar:Yaw",
            "shift": "swerve.transformations.lidar:Shift",
            "mirror": "swerve.transformations.lidar:MirrorScene",
            "drop-points": "swerve.transformations.dropout:DropPoints",
            "drop-sector": "swerve.transformations.dropout:DropSector",
            "drop-beams": "swerve.transformations.dropout:DropBeams",
            "jitter": "swerve.transformations.dropout:Jitter",
            "insert-object": "swerve.transformations.insert:InsertObject",
            "add-points": "swerve.transformations.scatter:AddPoints",
            "place-points": "swerve.transformations.scatter:PlacePoints",
            "offer-points": "swerve.transformations.offer:OfferPoints",
            "raise-value": "swerve.transformations.exposure:RaiseValue",
        },
        "criteria": {
            "nc": "swerve.coverage.neuron:NC",
            "top-k": "swerve.coverage.neuron:TopK",
            "kmnc": "swerve.coverage.sections:KMNC",
            "nbc": "swerve.coverage.boundary:NBC",
            "snac": "swerve.coverage.boundary:SNAC",
            "meter": "swerve.coverage.meter:Meter",
        },
        "spaces": {
            "one-of": "swerve.space:OneOf",
            "in-sequence": "swerve.space:Sequenced",
            "table": "swerve.space:Table",
            "blurs": "swerve.transformations.blur:blurs",
            "skies": "swerve.transformations.rerender:skies",
            "motion-blurs": "swerve.transformations.blur:motion_blur",
            "tigaug-weather": "swerve.transformations.weather:tigaug_weather",
            "tigaug-fog": "swerve.transformations.weather:fog",
            "tigaug-rain": "swerve.transformations.weather:rain",
            "tigaug-snow": "swerve.transformations.weather:snow",
            "flares": "swerve.transformations.flare:lens_flare",
            "exposures": "swerve.transformations.exposure:exposures",
            "scattered": "swerve.transformations.scatter:scattered",
            "insertions": "swerve.transformations.insert:Insertions",
        },
        "relations": {
            "same-angle": "swerve.relations.steering:same_angle",
            "lambda-mse": "swerve.relations.steering:lambda_mse",
            "equivariant": "swerve.relation:Equivariant",
            "correct": "swerve.relation:Correct",
            "agreement": "swerve.relation:Agreement",
            "both": "swerve.relation:Both",
            "either": "swerve.relation:Either",
            "angle-within": "swerve.relations.steering:AngleWithin",
            "squared-error": "swerve.relations.steering:SquaredError",
            "signal-within": "swerve.relations.steering:SignalWithin",
            "decrease": "swerve.relations.steering:Decrease",
            "no-fewer": "swerve.relations.sets:NoFewer",
            "superset": "swerve.relations.sets:Superset",
            "boxes-alike": "swerve.relations.boxes:BoxesAlike",
            "same-boxes": "swerve.relations.boxes:same_boxes",
            "right-boxes": "swerve.relations.boxes:right_boxes",
            "placed-boxes": "swerve.relations.boxes:PlacedBoxes",
        },
        "searches": {
            "sweep": "swerve.search.sweep:Sweep",
            "greedy": "swerve.search.greedy:Greedy",
            "series": "swerve.search.series:Series",
            "fuzz": "swerve.search.fuzz:Fuzz",
        },
        "methods": {
            "deeptest": "swerve.methods.deeptest:deeptest",
            "lidar": "swerve.methods.lidar:lidar",
        },
        "gates": {
            "max-fill": "swerve.gates.fill:MaxFill",
            "legible": "swerve.gates.legible:Legible",
        },
    }
)
KINDS = tuple(OURS)
GIVEN_AS = "__swerve_file__"
# What this process has called by name it finds again by that name, even a class made inside a function.
_NAMED: dict[str, Any] = {}


@cache
def names(kind: str) -> Mapping[str, str]:
    """Short name to `module:Name` for one kind; an installed package cannot take a name of ours."""
    theirs = {point.name: point.value for point in importlib.metadata.entry_points(group=f"swerve.{kind}")}
    return MappingProxyType({**theirs, **OURS[kind]})


def all_names() -> dict[str, str]:
    """Every short name of every kind; a method is named by `method = `, never by `use = `, so its name yields to others."""
    kinds = sorted(KINDS, key=lambda kind: kind != "methods")
    return {name: target for kind in kinds for name, target in names(kind).items()}


@cache
def _targets() -> Mapping[str, str]:
    return MappingProxyType({target: name for name, target in all_names().items()})


def name_of(part: Any) -> str:
    """The short name of a class or function, or its `module:Name`."""
    module = getattr(sys.modules.get(part.__module__), GIVEN_AS, part.__module__)
    target = f"{module}:{part.__qualname__}"
    if target not in _targets() and not module.endswith(".py"):  # a file's code is found again through its trust
        _NAMED[target] = part
    return _targets().get(target, target)


def module_file(name: str) -> Path | None:
    """The file of a module that is loaded, by its name or by the path it was given as."""
    given = {getattr(module, GIVEN_AS, None): module for module in list(sys.modules.values())}
    file = getattr(given.get(name) or sys.modules.get(name), "__file__", None)
    return Path(file) if file and Path(file).is_file() else None


def resolve(use: object, base: Path = Path(), *, trusted: Collection[Path] = ()) -> Any:
    """The class or function that `use` names; a `.py` file is looked for under `base` and must be trusted."""
    if not isinstance(use, str) or not use:
        raise SpecError(f"use = {use!r}: expected a name or 'module:Name'")
    if use in _NAMED:
        return _NAMED[use]
    target = all_names().get(use, use)
    module_name, _, attribute = target.rpartition(":")
    if not module_name:
        raise SpecError(f"use = '{use}' is not known; {did_you_mean(use, all_names())}")
    is_file = module_name.endswith(".py")
    module = _file_module(module_name, base, trusted) if is_file else _module(module_name, use)
    found = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None or not callable(found):
        raise SpecError(f"use = '{use}': {module_name} has no class or function '{attribute}'")
    return found


def _module(name: str, use: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        told = f"use = '{use}': there is no module '{error.name}' on the Python path"
        if use.startswith(f"{name}:") and f"{name}.".startswith(f"{error.name}."):
            file = f"{name.replace('.', '/')}.py"
            told += f"; for a file beside the campaign write {file}{use[len(name) :]} and run with --trust {file}"
        raise SpecError(told) from error
    except (Exception, SystemExit) as error:  # the user's own code
        raise SpecError(f"use = '{use}': cannot import {name}: {type(error).__name__}: {printable(str(error))}") from error


def _file_module(given: str, base: Path, trusted: Collection[Path]) -> Any:
    """A Python file as a module, if the user trusts exactly that file (R48)."""
    file = (base / given).resolve()
    if file not in {item.resolve() for item in trusted}:
        raise SpecError(f"{given}: runs only with --trust {file}; a file given by path is code, not data")
    if not file.is_file():
        raise SpecError(f"{file}: there is no such file")
    name = f"swerve_trusted_{digest_of(str(file))[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SpecError(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    setattr(module, GIVEN_AS, given)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's own code
        del sys.modules[name]
        raise SpecError(f"{file}: {type(error).__name__}: {error}") from error
    return module
