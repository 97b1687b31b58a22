"""The networks of MUNIT (Huang et al., ECCV 2018) and UNIT (Liu et al., NIPS 2017), in any width.

Both split a picture into content and the rest. MUNIT describes the rest by a style vector, so that one picture has many
translations; UNIT, on which DeepRoad is built, has one translation of a picture.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from swerve.core.arguments import check_whole
from swerve.translation.blocks import ResidualBlock, StyledBlock, convolution, detail_of, layer_norm, places

MUNIT, UNIT = KINDS = ("munit", "unit")
HALVINGS = 2  # of the sides of a picture, until it is content
STEP = 2**HALVINGS  # sides of pictures are multiples of it
GAIN = 0.3  # of a picture's detail before training


@dataclass(frozen=True)
class Design:
    """The size of a translator.

    Args:
        width: channels of the first convolution; 64 is that of the papers.
        residuals: residual blocks of encoder and decoder; 4 in MUNIT's paper.
        style: numbers of a style, as in the paper; UNIT has none.
        hidden: width of the layers between a style and the decoder; 256 in the authors' code.
        guided: whether a decoder says for every place how much of the picture's own detail is kept, instead of drawing it
            anew, and knows where in the picture a place is. It makes small translators sharp; the papers have neither.
        shared: whether both kinds share the encoder and the decoder's residual blocks, which then learn from twice as many
            pictures; in the papers they share none (MUNIT) or the innermost (UNIT).
    """

    width: int = 16
    residuals: int = 3
    style: int = 8
    hidden: int = 64
    guided: bool = True
    shared: bool = True

    def __post_init__(self) -> None:
        for name in ("width", "residuals", "hidden"):
            check_whole(name, getattr(self, name), 1)
        check_whole("style", self.style, 0)

    @property
    def channels(self) -> int:
        """Channels of a content code."""
        channels: int = self.width * STEP
        return channels


PUBLISHED = Design(width=64, residuals=4, style=8, hidden=256, guided=False, shared=False)


class ContentEncoder(nn.Sequential):
    """From a picture to its content: where things are, without how they look."""

    def __init__(self, design: Design) -> None:
        width = design.width
        parts: list[nn.Module] = [convolution(3, width, 5), nn.InstanceNorm2d(width), nn.ReLU()]
        for _ in range(HALVINGS):
            parts += [convolution(width, 2 * width, 4, 2), nn.InstanceNorm2d(2 * width), nn.ReLU()]
            width *= 2
        super().__init__(*parts, *(ResidualBlock(width) for _ in range(design.residuals)))


class StyleEncoder(nn.Sequential):
    """From a picture to the numbers of its style; without normalisation, which would remove it."""

    def __init__(self, design: Design) -> None:
        width = max(1, design.width // 2)
        parts: list[nn.Module] = [convolution(3, width, 5), nn.ReLU()]
        for _ in range(HALVINGS):
            parts += [convolution(width, 2 * width, 4, 2), nn.ReLU()]
            width *= 2
        parts += [convolution(width, width, 4, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, design.style, 1)]
        super().__init__(*parts, nn.Flatten())


class StyleDecoder(nn.Module):
    """From content, and a style if the design has one, to a picture with levels from -1 to 1, through residual blocks."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self.design, width = design, design.channels
        self.numbers = _numbers(design)
        self.position = nn.Conv2d(4, width, 1) if design.guided else None
        rising: list[nn.Module] = []
        for _ in range(HALVINGS):
            rising += [nn.Upsample(scale_factor=2), convolution(width, width // 2, 3), layer_norm(width // 2), nn.ReLU()]
            width //= 2
        self.rising, self.last = nn.Sequential(*rising), convolution(width, 6 if design.guided else 3, 5)

    def forward(self, content: Tensor, style: Tensor, detail: Tensor, blocks: nn.ModuleList) -> Tensor:
        """The pictures; `detail` is used by guided designs, and may be larger than the content's pictures."""
        codes = content if self.position is None else content + self.position(places(content))
        given = self.numbers(style).chunk(len(blocks), 1)
        for block, numbers in zip(blocks, given, strict=True):
            codes = block(codes, numbers)
        drawn = self.last(self.rising(codes))
        if not self.design.guided:
            return torch.tanh(drawn)
        if drawn.shape[-2:] != detail.shape[-2:]:
            drawn = functional.interpolate(drawn, detail.shape[-2:], mode="bilinear", align_corners=False)
        return torch.tanh(drawn[:, :3] + drawn[:, 3:] * detail)


def _blocks(design: Design) -> nn.ModuleList:
    return nn.ModuleList(StyledBlock(design.channels) for _ in range(design.residuals))


class Constant(nn.Module):
    """The same learnt numbers for every picture, where there is no style."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(count))

    def forward(self, style: Tensor) -> Tensor:
        """A row for each row of `style`."""
        return self.values.expand(len(style), -1)


def _numbers(design: Design) -> nn.Module:
    """What turns a style into the numbers of the decoder's blocks."""
    count = 4 * design.channels * design.residuals
    if not design.style:
        return Constant(count)
    wide = design.hidden
    return nn.Sequential(nn.Linear(design.style, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, count))


class Translator(nn.Module):
    """Translates between two kinds of pictures, 0 and 1, which have one space of content."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self.design = design
        sides = 1 if design.shared else 2
        self.encoders = nn.ModuleList(ContentEncoder(design) for _ in range(sides))
        self.blocks = nn.ModuleList(_blocks(design) for _ in range(sides))
        self.decoders = nn.ModuleList(StyleDecoder(design) for _ in range(2))
        self.styles = nn.ModuleList(StyleEncoder(design) for _ in range(2 if design.style else 0))
        self._start()

    def content(self, pictures: Tensor, side: int) -> Tensor:
        """The content of pictures of one kind."""
        return self.encoders[side % len(self.encoders)](pictures)  # type: ignore[no-any-return]

    def style(self, pictures: Tensor, side: int) -> Tensor:
        """The styles of pictures of one kind, batch x numbers."""
        return self.styles[side](pictures) if self.design.style else pictures.new_zeros(len(pictures), 0)

    def decode(self, content: Tensor, style: Tensor, detail: Tensor, side: int) -> Tensor:
        """Pictures of one kind."""
        blocks = self.blocks[side % len(self.blocks)]
        return self.decoders[side](content, style, detail, blocks)  # type: ignore[no-any-return]

    def _start(self) -> None:
        for part in self.modules():
            if isinstance(part, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(part.weight)
                nn.init.zeros_(part.bias)  # type: ignore[arg-type]
        for decoder in self.decoders:
            _start_decoder(decoder)  # type: ignore[arg-type]
        self.decoders[1].load_state_dict(self.decoders[0].state_dict())


def _start_decoder(decoder: StyleDecoder) -> None:
    """Normalisation that changes little, and a picture whose detail is kept."""
    with torch.no_grad():
        if decoder.position is not None:
            decoder.position.weight.mul_(0.1)
            decoder.last.weight.mul_(0.3)
            decoder.last.bias[3:] = GAIN  # type: ignore[index]
        last = decoder.numbers.values if isinstance(decoder.numbers, Constant) else decoder.numbers[-1].bias  # type: ignore[index]
        if not isinstance(decoder.numbers, Constant):
            decoder.numbers[-1].weight.mul_(0.5)  # type: ignore[index]
        gains = last.reshape(decoder.design.residuals, 4, -1)
        gains[:, [0, 2]] = 1.0


class Critic(nn.Module):
    """Discriminators of one kind of pictures at several scales, with a least-squares loss (LSGAN).

    Args:
        width: channels of the first convolution; 64 in the paper.
        scales: pictures are judged at that many sizes, each half of the one before.
        guided: whether a discriminator knows where in the picture a place is.
    """

    def __init__(self, width: int = 32, scales: int = 2, *, depth: int = 3, guided: bool = True) -> None:
        super().__init__()
        self.guided = guided
        self.scales = nn.ModuleList(_judge(5 if guided else 3, width, depth) for _ in range(scales))
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, a=0.2)
                nn.init.zeros_(part.bias)  # type: ignore[arg-type]

    def forward(self, pictures: Tensor) -> list[Tensor]:
        """For every scale how real each place looks: 1 for real, 0 for translated."""
        found = []
        for judge in self.scales:
            found.append(judge(torch.cat([pictures, places(pictures)[:, :2]], 1) if self.guided else pictures))
            pictures = functional.avg_pool2d(pictures, 3, 2, 1, count_include_pad=False)
        return found


def _judge(into: int, width: int, depth: int) -> nn.Sequential:
    parts: list[nn.Module] = []
    for _ in range(depth):
        parts += [convolution(into, width, 4, 2), nn.LeakyReLU(0.2)]
        into, width = width, 2 * width
    return nn.Sequential(*parts, nn.Conv2d(into, 1, 1))


def pictures_of(pixels: Tensor) -> Tensor:
    """Bytes, batch x rows x columns x RGB, as the networks see them: batch x RGB x rows x columns, from -1 to 1."""
    return pixels.permute(0, 3, 1, 2).float() / 127.5 - 1


def pixels_of(pictures: Tensor) -> Tensor:
    """The bytes of pictures."""
    levels = ((pictures.clamp(-1, 1) + 1) * 127.5).round()
    return levels.to(torch.uint8).permute(0, 2, 3, 1)


def split(net: Translator, pictures: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """Content and detail of pictures of one kind."""
    return net.content(pictures, side), detail_of(pictures)
