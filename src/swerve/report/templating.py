"""Every page's Jinja environment: text is escaped, control characters are visible, styles and scripts are inline.

A page's content security policy allows its own style and script by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment

PAGE = "report/index.html"  # of a run folder
LONGEST = 300  # characters of a text that a user or a data set gave
# C0 controls cannot be written in HTML, so their Unicode pictures replace them. Newline and tab can, and stay.
CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421}


def render_page(template: str, *, styles: tuple[str, ...], scripts: tuple[str, ...] = (), **context: Any) -> str:
    """The page of `template` with the named styles and scripts of the templates' folders."""
    inline = {"style": _asset(*styles), "script": _asset(*scripts)}
    hashes = {f"{name}_hash": _csp_hash(text) for name, text in inline.items()}
    return _environment().get_template(template).render(**inline, **hashes, **context)


def clip(text: object, longest: int = LONGEST) -> str:
    """`text` cut to at most `longest` characters."""
    whole = str(text)
    return whole if len(whole) <= longest else whole[: longest - 1] + "…"


@cache
def _environment() -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # the terminal needs none of them

    environment = Environment(
        loader=ChoiceLoader([PackageLoader("swerve.report"), PackageLoader("swerve.review")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.filters.update(clip=clip, percent=_percent, count=_count, signed=_signed, share=_share, address=_address)
    return environment


@cache
def _asset(*names: str) -> Markup:
    """Styles or scripts of ours: with the charts, the only text of a page that is not escaped."""
    environment = _environment()
    assert environment.loader is not None
    return Markup("\n").join(Markup(environment.loader.get_source(environment, name)[0].strip()) for name in names)


def _csp_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _visible(item: Any) -> Any:
    return item.translate(CONTROLS) if type(item) is str else item


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _count(number: int) -> str:
    return f"{number:,}"


def _signed(number: float) -> str:
    return f"{number:+,.1f}" if abs(number) >= 10 else f"{number:+#.2g}"


def _share(number: float) -> str:
    return f"{number:,.1f}" if abs(number) >= 10 else f"{number:.2f}"


def _address(path: str) -> str:
    """A file of the run's or experiment's folder, as seen from the page."""
    return f"../{quote(path, errors='backslashreplace')}"
