"""Models in one call of Python: a file, a factory or a live module, with the usual steps before it and decoders after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swerve.config.registry import resolve
from swerve.config.trust import PYTHON_FILE, Trust
from swerve.core.errors import InputError
from swerve.core.extras import optional_package
from swerve.systems.decoders import Decoder, SteeringDecoder
from swerve.systems.network import Network
from swerve.systems.preprocessing import Step
from swerve.systems.steps import Bgr, Divide, Float, Grey, Hsv, Multiply, Resize, Yuv

COLOURS: Mapping[str, tuple[Step, ...]] = {"rgb": (), "bgr": (Bgr(),), "grey": (Grey(),), "yuv": (Yuv(),), "hsv": (Hsv(),)}
LAST = ("bgr",)  # colours that come after the size; the others are made of whole pictures


def torch(net: Any, *, output: Decoder | Sequence[Decoder], weights: str | Path | None = None, **how: Any) -> Network:
    """A torch network: a live module, a factory, or one that is named, `nets.py:PilotNet` or `package.nets:PilotNet`.

    A campaign with a live module runs in this process; one with a named factory also in workers, and its findings replay
    from the command line. `size`, `scale`, `colours` and `read` prepare its input (`input_steps`); `how` goes to `Torch`.
    """
    torch_systems = optional_package("swerve.systems.torch", "torch")
    given = {**_steps(how), "say": _decoders(output), **how}
    live = torch_systems.is_module(net)
    if live and weights is not None:
        raise InputError("sw.torch: a live module has its weights already; give the module's class, or leave 'weights' out")
    kind = torch_systems.LiveTorch if live else torch_systems.Torch
    own = {"module": net} if live else {"net": _factory(net), "weights": _path(weights)}
    network: Network = kind(**own, **given)
    return network


def onnx(model: str | Path, *, output: Decoder | Sequence[Decoder], **how: Any) -> Network:
    """An ONNX file; `size`, `scale`, `colours` and `read` prepare its input (`input_steps`), `how` goes to `Onnx`."""
    from swerve.systems.onnx import Onnx

    return Onnx(model=Path(model), **{**_steps(how), "say": _decoders(output), **how})


def keras(model: str | Path, *, output: Decoder | Sequence[Decoder], **how: Any) -> Network:
    """A Keras file; `size`, `scale`, `colours` and `read` prepare its input (`input_steps`), `how` goes to `Keras`."""
    keras_systems = optional_package("swerve.systems.keras", "keras")
    network: Network = keras_systems.Keras(model=Path(model), **{**_steps(how), "say": _decoders(output), **how})
    return network


def steering(unit: str | float, *, positive: str, kind: str, **how: Any) -> SteeringDecoder:
    """An output that is a steering angle: its unit, its positive side (`left`, `right`), and whose it is (`wheel`, `road`).

    `how` is passed on to `SteeringDecoder`: ratio, wheelbase, output, index, activation.
    """
    return SteeringDecoder(unit=unit, positive=positive, kind=kind, **how)


def input_steps(
    size: tuple[int, int] | None = None, scale: float | None = None, colours: str = "rgb", read: Sequence[Step] | None = None
) -> tuple[Step, ...]:
    """The steps from a picture to an input of `size` (width, height) in `colours`, times `scale`; or those of `read`.

    A scale of 1/n divides by n, as training scripts do; the product may differ in the last bit. Without a scale, numbers
    stay as they are, from 0 to 255.
    """
    if read is not None and (size, scale, colours) != (None, None, "rgb"):
        raise InputError("give either 'read', a list of steps, or 'size', 'scale' and 'colours'")
    if colours not in COLOURS:
        raise InputError(f"'colours' must be one of {', '.join(COLOURS)}, got {colours!r}")
    return tuple(read) if read is not None else tuple(_usual_steps(size, scale, colours))


def _usual_steps(size: tuple[int, int] | None, scale: float | None, colours: str) -> Iterator[Step]:
    if colours not in LAST:
        yield from COLOURS[colours]
    if size is not None:
        yield Resize(*size)
    if colours in LAST:
        yield from COLOURS[colours]
    if scale is None:
        yield Float()
    else:
        whole = round(1 / scale) if scale else 0
        yield Divide(float(whole)) if whole and scale == 1 / whole else Multiply(scale)


def _steps(how: dict[str, Any]) -> dict[str, tuple[Step, ...]]:
    """`read` as the arguments in `how` describe it, which are taken out of it."""
    return {"read": input_steps(**{name: how.pop(name) for name in ("size", "scale", "colours", "read") if name in how})}


def _decoders(output: Decoder | Sequence[Decoder]) -> tuple[Decoder, ...]:
    return tuple(output) if isinstance(output, Sequence) else (output,)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def _factory(net: Any) -> Callable[..., Any]:
    """The factory itself, or the one that is named; a file that a program names is the user's own code."""
    if not isinstance(net, str):
        factory: Callable[..., Any] = net
        return factory
    module, _, attribute = net.rpartition(":")
    if not module.endswith(PYTHON_FILE):
        return _resolved(net)
    file = os.path.abspath(module)
    return _resolved(f"{file}:{attribute}", trust=Trust.of([file]))


def _resolved(use: str, **how: Any) -> Callable[..., Any]:
    found: Callable[..., Any] = resolve(use, **how)
    return found
