"""The libraries that a campaign's parts use, so that an update of any other one leaves its identity as it is.

They are read from the import statements of the parts' modules, followed through Swerve's own modules and the user's package.
What happens to be loaded in this process plays no role: a worker and a replay must find the same libraries.
"""

from __future__ import annotations

import ast
import importlib.metadata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import swerve
from swerve.config.registry import module_file
from swerve.core.campaign import Campaign
from swerve.core.parts import parts_in

# Those that a result may depend on, by the name they are imported as.
LIBRARIES = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "embreex": "embreex",
    "jax": "jax",
    "keras": "keras",
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
    "scipy": "scipy",
    "skimage": "scikit-image",
    "tensorflow": "tensorflow",
    "torch": "torch",
    "torchvision": "torchvision",
}
OURS, INIT = "swerve", "__init__.py"
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # the fields of a node that hold statements
IMPORTERS = ("import_module", "optional_package")  # functions that import the module their first argument names


def libraries_of(campaign: Campaign) -> dict[str, str]:
    """The versions of the libraries that a campaign's parts use, by distribution."""
    waiting = list(_modules_of(campaign))
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            top = _top(module)
            waiting += [name for name in imports_of(module) if _top(name) in (OURS, top) or _top(name) in LIBRARIES]
    used = sorted({LIBRARIES[_top(name)] for name in seen if _top(name) in LIBRARIES})
    return {name: _version(name) for name in used}


def _modules_of(campaign: Campaign) -> Iterator[str]:
    """The modules of all classes and functions that a campaign is made of."""
    for part in parts_in(campaign):
        known = part if hasattr(part, "__qualname__") else type(part)
        yield str(getattr(known, "__module__", ""))


def _top(module: str) -> str:
    return module.partition(".")[0]


@cache
def imports_of(module: str) -> frozenset[str]:
    """The modules that a module of Swerve's or of the user's imports; none for other modules."""
    file = None if _top(module) in LIBRARIES else _source_file(module)
    if file is None:
        return frozenset()
    package = module if file.name == INIT else module.rpartition(".")[0]
    try:
        source = file.read_bytes()
        finder = _ImportFinder(package, calls=any(name.encode() in source for name in IMPORTERS))
        finder.visit(ast.parse(source))
    except (OSError, SyntaxError, ValueError):  # the user's own code, edited this moment
        return frozenset()
    return frozenset(finder.found)


def _source_file(module: str) -> Path | None:
    """The Python file of a module of Swerve's or of the user's; nothing is imported."""
    if _top(module) != OURS:
        file = module_file(module)
        return file if file and file.suffix == ".py" else None
    place = Path(swerve.__file__).parent.joinpath(*module.split(".")[1:])
    return next((file for file in (place / INIT, place.with_suffix(".py")) if file.is_file()), None)


class _ImportFinder(ast.NodeVisitor):
    """Collects what is imported, anywhere in a module, except for type checkers alone.

    Without `calls` of `IMPORTERS`, only statements are visited, in a fraction of the time, as expressions import nothing.
    """

    def __init__(self, package: str, *, calls: bool) -> None:
        self._package, self._calls = package.split("."), calls
        self.found: set[str] = set()

    def generic_visit(self, node: ast.AST) -> None:
        if self._calls:
            super().generic_visit(node)
            return
        for block in BLOCKS:
            for item in getattr(node, block, ()):
                self.visit(item)

    def visit_If(self, node: ast.If) -> None:
        for_types = _last_name(node.test) == "TYPE_CHECKING"
        if self._calls and not for_types:
            self.visit(node.test)
        for item in node.orelse if for_types else [*node.body, *node.orelse]:
            self.visit(item)

    def visit_Import(self, node: ast.Import) -> None:
        self.found.update(alias.name for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        around = self._package[: len(self._package) - node.level + 1] if node.level else []
        module = ".".join([*around, *([node.module] if node.module else [])])
        self.found.update((module, *(f"{module}.{alias.name}" for alias in node.names)))

    def visit_Call(self, node: ast.Call) -> None:
        first = node.args[0] if node.args else None
        if _last_name(node.func) in IMPORTERS and isinstance(first, ast.Constant):
            self.found.add(str(first.value))
        self.generic_visit(node)


def _last_name(node: ast.expr) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
