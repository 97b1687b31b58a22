"""Short names of all parts, built in or from installed packages; looking one up imports nothing."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

# Names only, so that a campaign without torch never imports torch.
OURS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "sources": {
            "world": "swerve.world.source:World",
            "lidar-world": "swerve.world.lidar_source:LidarWorld",
            "world-lights": "swerve.world.light_source:LightWorld",
            "regions": "swerve.sources.regions:Regions",
            "windows": "swerve.sources.windows:Windows",
            "some": "swerve.sources.subset:Subset",  # former name of subset, for existing files
            "subset": "swerve.sources.subset:Subset",
            "screened": "swerve.sources.screened:Screened",
            "folder": "swerve.sources.folders:Folder",
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
            "clouds": "swerve.sources.folders:Clouds",
        },
        "systems": {
            "torch": "swerve.systems.torch:Torch",
            "onnx": "swerve.systems.onnx:Onnx",
            "keras": "swerve.systems.keras:Keras",
            "process": "swerve.systems.process:Process",
            "function": "swerve.systems.function:FunctionSystem",
            "ensemble": "swerve.systems.ensemble:Ensemble",
            "light-states": "swerve.zoo.light_states:LightStates",
            "epoch": "swerve.zoo.steering:Epoch",
            "dave-orig": "swerve.zoo.steering:DaveOrig",
            "dave-dropout": "swerve.zoo.steering:DaveDropout",
            "dave-objects": "swerve.zoo.steering:DaveObjects",
            "chauffeur": "swerve.zoo.steering:Chauffeur",
            "rambo": "swerve.zoo.steering:Rambo",
            "lidar": "swerve.zoo.lidar:Lidar",
            "lidar-global": "swerve.zoo.lidar:LidarGlobal",
            "lights-yolox": "swerve.zoo.lights.light_detectors:LightsYolox",
            "lights-yolov5": "swerve.zoo.lights.light_detectors:LightsYolov5",
            "lights-ssd": "swerve.zoo.lights.light_detectors:LightsSsd",
            "lights-rcnn": "swerve.zoo.lights.light_detectors:LightsRcnn",
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
            "steering": "swerve.systems.decoders:SteeringDecoder",
            "signal": "swerve.systems.decoders:SignalDecoder",
            "yolox": "swerve.systems.detections:Yolox",
            "yolov5": "swerve.systems.detections:YoloV5",
            "yolov8": "swerve.systems.detections:YoloV8",
            "ssd": "swerve.systems.detections:Ssd",
            "detections": "swerve.systems.detections:SeparateOutputs",
            "end-to-end": "swerve.systems.detections:EndToEnd",
        },
        "transformations": {
            "rerender": "swerve.transformations.rerender:Rerender",
            "reshade": "swerve.transformations.rerender:Reshade",
            "reswap": "swerve.transformations.reswap:Reswap",
            "pasted-reswap": "swerve.transformations.pasted_reswap:PastedReswap",
            "recolour": "swerve.transformations.reswap:Recolour",
            "remove-objects": "swerve.transformations.reswap:RemoveObjects",
            "add-objects": "swerve.transformations.reswap:AddObjects",
            "paste-objects": "swerve.transformations.replace_objects:PasteObjects",
            "tint-objects": "swerve.transformations.tint_objects:TintObjects",
            "add-cutout": "swerve.transformations.add_cutout:AddCutout",
            "paste-back": "swerve.transformations.replace_objects:PasteBack",
            "relight-state": "swerve.transformations.relight:RelightState",
            "relight-place": "swerve.transformations.relight:RelightPlace",
            "relight-more": "swerve.transformations.relight:RelightMore",
            "relight-turned": "swerve.transformations.relight:RelightTurned",
            "relight-farther": "swerve.transformations.relight:RelightFarther",
            "paste-state": "swerve.transformations.light_paste:PasteState",
            "paste-place": "swerve.transformations.light_paste:PastePlace",
            "paste-more": "swerve.transformations.light_paste:PasteMore",
            "paste-turned": "swerve.transformations.light_paste:PasteTurned",
            "paste-lights": "swerve.transformations.light_paste:PasteLights",
            "unchanged": "swerve.core.transformation:Unchanged",
            "chain": "swerve.core.transformation:Chain",
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
            "enlarge": "swerve.transformations.affine:Enlarge",
            "rotate-about-pixel": "swerve.transformations.affine:RotateAboutPixel",
            "over-expose": "swerve.transformations.exposure:OverExpose",
            "under-expose": "swerve.transformations.exposure:UnderExpose",
            "yaw": "swerve.transformations.sensor_pose:Yaw",
            "shift": "swerve.transformations.sensor_pose:Shift",
            "mirror": "swerve.transformations.sensor_pose:MirrorScene",
            "drop-points": "swerve.transformations.dropout:DropPoints",
            "drop-sector": "swerve.transformations.dropout:DropSector",
            "drop-beams": "swerve.transformations.dropout:DropBeams",
            "jitter": "swerve.transformations.dropout:Jitter",
            "insert-object": "swerve.transformations.insert:InsertObject",
            "add-points": "swerve.transformations.scatter:AddPoints",
            "place-points": "swerve.transformations.scatter:PlacePoints",
            "offer-points": "swerve.transformations.scatter:OfferPoints",
            "style": "swerve.transformations.style:Style",
            "reconstructed": "swerve.transformations.style:Reconstructed",
            "packaged-reconstruction": "swerve.transformations.style:packaged_reconstruction",
            "translate-objects": "swerve.transformations.translate_objects:TranslateObjects",
            "raise-value": "swerve.transformations.exposure:RaiseValue",
            "auto-levels": "swerve.transformations.exposure:AutoLevels",
        },
        "criteria": {
            "nc": "swerve.coverage.neuron:NC",
            "top-k": "swerve.coverage.neuron:TopK",
            "kmnc": "swerve.coverage.profiled:KMNC",
            "nbc": "swerve.coverage.profiled:NBC",
            "snac": "swerve.coverage.profiled:SNAC",
            "meter": "swerve.coverage.meter:Meter",
        },
        "spaces": {
            "one-of": "swerve.core.space:OneOf",
            "in-sequence": "swerve.core.space:Sequenced",
            "table": "swerve.core.space:Table",
            "blurs": "swerve.transformations.blur:blurs",
            "styles": "swerve.transformations.style:Styles",
            "packaged-styles": "swerve.transformations.style:packaged_styles",
            "skies": "swerve.transformations.rerender:skies",
            "weathers": "swerve.transformations.rerender:weathers",
            "swaps": "swerve.transformations.swaps:Swaps",
            "tints": "swerve.transformations.tint_objects:Tints",
            "added-cutouts": "swerve.transformations.add_cutout:AddedCutouts",
            "retouches": "swerve.transformations.retouches:Retouches",
            "translations": "swerve.transformations.translate_objects:Translations",
            "additions": "swerve.transformations.additions:Additions",
            "rendered-conditions": "swerve.transformations.rerender:rendered_conditions",
            "filtered-conditions": "swerve.transformations.weather:filtered_conditions",
            "relights": "swerve.transformations.relights:Relights",
            "motion-blurs": "swerve.transformations.blur:motion_blur",
            "tigaug-weather": "swerve.transformations.weather:tigaug_weather",
            "tigaug-fog": "swerve.transformations.weather:fog",
            "tigaug-rain": "swerve.transformations.weather:rain",
            "tigaug-snow": "swerve.transformations.weather:snow",
            "tigaug-flare": "swerve.transformations.light_changes:flare",
            "tigaug-over-exposure": "swerve.transformations.light_changes:over_exposure",
            "tigaug-under-exposure": "swerve.transformations.light_changes:under_exposure",
            "tigaug-motion-blur": "swerve.transformations.light_changes:blurred",
            "tigaug-colour": "swerve.transformations.light_changes:colour_change",
            "tigaug-move": "swerve.transformations.light_changes:move_lights",
            "tigaug-add": "swerve.transformations.light_changes:add_lights",
            "tigaug-rotate": "swerve.transformations.light_changes:rotate_lights",
            "tigaug-scale": "swerve.transformations.light_changes:scale_canvas",
            "tigaug-paste-back": "swerve.transformations.light_changes:paste_back",
            "tigaug-severities": "swerve.transformations.light_changes:severities",
            "light-pastes": "swerve.transformations.light_pastes:LightPastes",
            "flares": "swerve.transformations.flare:lens_flare",
            "exposures": "swerve.transformations.exposure:exposures",
            "scattered": "swerve.transformations.scatter:scattered",
            "insertions": "swerve.transformations.insert:Insertions",
        },
        "selections": {
            "random-objects": "swerve.transformations.object_choice:RandomObjects",
            "largest-objects": "swerve.transformations.object_choice:LargestObjects",
            "nearest-objects": "swerve.transformations.object_choice:NearestObjects",
            "salient-objects": "swerve.transformations.salient:SalientObjects",
        },
        "explanations": {
            "grad-cam": "swerve.explain.grad_cam:GradCam",
            "occlusion": "swerve.explain.occlusion:Occlusion",
        },
        "relations": {
            "same-angle": "swerve.relations.steering:same_angle",
            "lambda-mse": "swerve.relations.steering:lambda_mse",
            "equivariant": "swerve.core.relation:Equivariant",
            "correct": "swerve.core.relation:Correct",
            "agreement": "swerve.core.relation:Agreement",
            "both": "swerve.core.relation:Both",
            "either": "swerve.core.relation:Either",
            "angle-within": "swerve.relations.steering:AngleWithin",
            "squared-error": "swerve.relations.steering:SquaredError",
            "signal-within": "swerve.relations.steering:SignalWithin",
            "decrease": "swerve.relations.steering:Decrease",
            "same-decision": "swerve.relations.steering:same_decision",
            "unjudged": "swerve.relations.unjudged:Unjudged",
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
            "evolve": "swerve.search.evolve:Evolve",
        },
        "methods": {
            "deeptest": "swerve.methods.deeptest:deeptest",
            "lidar": "swerve.methods.lidar:lidar",
            "iatg": "swerve.methods.iatg:iatg",
            "tigaug": "swerve.methods.tigaug:tigaug",
            "critical-conditions": "swerve.methods.critical_conditions:critical_conditions",
        },
        "gates": {
            "max-fill": "swerve.relations.gates:MaxFill",
            "legible": "swerve.relations.gates:Legible",
            "visible": "swerve.relations.gates:Visible",
            "similar": "swerve.relations.similar:Similar",
            "same-objects": "swerve.relations.gates:SameObjects",
            "label-kept": "swerve.relations.gates:LabelKept",
            "road-kept": "swerve.relations.road_kept:RoadKept",
            "lights-visible": "swerve.relations.light_gates:LightsVisible",
            "snug-boxes": "swerve.relations.light_gates:SnugBoxes",
            "all-of": "swerve.core.gate:AllOf",
            "any-of": "swerve.core.gate:AnyOf",
        },
    }
)
KINDS = tuple(OURS)
# The kinds of parts that a place takes, by the name of the type that it wants.
KINDS_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Source": ("sources",),
        "System": ("systems",),
        "Step": ("steps",),
        "Decoder": ("decoders",),
        "Transformation": ("transformations",),
        "Space": ("transformations", "spaces"),
        "Relation": ("relations",),
        "Comparison": ("relations",),
        "Search": ("searches",),
        "Gate": ("gates",),
        "Criterion": ("criteria",),
    }
)
GIVEN_AS = "__swerve_file__"  # attribute of a module loaded from a file: its path as given by the user
# Parts that this process has encoded by name, so that even a class defined inside a function can be found again.
ENCODED_HERE: dict[str, Any] = {}


@cache
def _entry_points() -> Any:  # SelectableGroups before Python 3.12, EntryPoints since
    """Read once: every reading opens a file of each installed package."""
    return importlib.metadata.entry_points()


@cache
def names(kind: str) -> Mapping[str, str]:
    """Short names and their `module:Name` for one kind; an installed package cannot replace a built-in name."""
    theirs = {point.name: point.value for point in _entry_points().select(group=f"swerve.{kind}")}
    return MappingProxyType({**theirs, **OURS[kind]})


@cache
def all_names() -> Mapping[str, str]:
    """The short names of all kinds; a method, which is chosen by `method = `, does not hide another part of its name."""
    kinds = sorted(KINDS, key=lambda kind: kind != "methods")
    return MappingProxyType({name: target for kind in kinds for name, target in names(kind).items()})


def names_for(wanted: Collection[Any]) -> Collection[str]:
    """The short names of the parts of any of the `wanted` types, or all names."""
    kinds = [kind for one in wanted for kind in KINDS_OF.get(getattr(one, "__name__", ""), ())]
    return {name for kind in kinds for name in names(kind)} or all_names()


@cache
def _targets() -> Mapping[str, str]:
    return MappingProxyType({target: name for name, target in all_names().items()})


def name_of(part: Any) -> str:
    """The short name of a class or function, or its `module:Name`."""
    module = getattr(sys.modules.get(part.__module__), GIVEN_AS, part.__module__)
    target = f"{module}:{part.__qualname__}"
    if target not in _targets() and not module.endswith(".py"):  # code in a file is found by its path, if trusted
        ENCODED_HERE[target] = part
    return _targets().get(target, target)
