"""The shape of the package: imports flow one way, files and functions stay small, methods are functions."""

import ast
import statistics
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "swerve"
FILES = sorted(PACKAGE.rglob("*.py"))

# Downwards only: a room may import its own modules, those of its row and those after it (DESIGN §9).
LAYERS = (
    ("__main__",),
    ("cli",),
    ("api", "__init__", "pytest_plugin", "testing"),
    ("experiments",),
    ("methods",),
    ("drafting", "report", "retrain", "review", "zoo"),
    ("train",),
    ("execution",),
    ("analysis", "search"),
    ("relations", "transformations"),
    ("explain", "similarity", "translation"),
    ("coverage", "sources", "systems", "world"),
    ("store",),
    ("config",),
    ("core",),
)
MOST_AT_THE_TOP = 12
# Module names that several rooms use for the same idea.
SAME_IDEA = {
    "lidar": "LiDAR: its changes, its scanner, its detectors, its method",
    "steering": "steering angles: their relations, their networks",
}
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


@cache
def modules() -> list[tuple[Path, str, ast.Module]]:
    tops = [file.relative_to(PACKAGE).parts[0].removesuffix(".py") for file in FILES]
    return [(file, top, ast.parse(file.read_text())) for file, top in zip(FILES, tops, strict=True)]


@cache
def nodes(tree: ast.Module) -> list[ast.AST]:
    return list(ast.walk(tree))


def rank(top: str) -> int:
    assert top in RANK, f"swerve.{top} has no layer: add it to LAYERS"
    return RANK[top]


def _of_types(test: ast.expr) -> bool:
    named = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(test)}
    return "TYPE_CHECKING" in named


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module imported at run time, wherever the import stands."""
    typing_only = {
        id(inner) for node in nodes(tree) if isinstance(node, ast.If) and _of_types(node.test) for inner in ast.walk(node)
    }
    for node in nodes(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_imports_flow_downwards() -> None:
    wrong = []
    for file, top, tree in modules():
        for name in imported(tree):
            if name.startswith("swerve."):
                target = name.split(".")[1]
                if rank(target) < rank(top):
                    wrong.append(f"{file.relative_to(PACKAGE)} imports {name}")
    assert not wrong


def test_few_modules_lie_at_the_top() -> None:
    assert len([file for file in FILES if file.parent == PACKAGE]) <= MOST_AT_THE_TOP


def test_public_class_names_are_unique() -> None:
    homes: dict[str, list[str]] = {}
    for file, _, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(file.relative_to(PACKAGE)))
    assert not {name: files for name, files in homes.items() if len(files) > 1}


def test_module_names_recur_for_one_idea_only() -> None:
    homes: dict[str, set[str]] = {}
    for file in FILES:
        if file.parent != PACKAGE and not file.name.startswith("__"):
            homes.setdefault(file.stem, set()).add(file.relative_to(PACKAGE).parts[0])
    # A verb of the command line is named as what it runs.
    twice = {name: rooms - {"cli"} for name, rooms in homes.items() if len(rooms - {"cli"}) > 1}
    assert {name for name in twice if name not in SAME_IDEA} == set()


def test_core_uses_numpy_alone() -> None:
    allowed = {*sys.stdlib_module_names, "numpy", "swerve"}
    strangers = {
        (top, name)
        for _, top, tree in modules()
        if top == "core"
        for name in imported(tree)
        if name.split(".")[0] not in allowed
    }
    assert not strangers


def test_methods_define_no_classes() -> None:
    classes = [
        node.name for _, top, tree in modules() if top == "methods" for node in nodes(tree) if isinstance(node, ast.ClassDef)
    ]
    assert not classes


def test_files_stay_small() -> None:
    lengths = sorted(len(file.read_text().splitlines()) for file in FILES)
    assert statistics.median(lengths) <= 200
    assert lengths[int(len(lengths) * 0.95)] <= 400
    assert lengths[-1] <= 600


def functions() -> Iterator[ast.FunctionDef]:
    for _, _, tree in modules():
        yield from (node for node in nodes(tree) if isinstance(node, ast.FunctionDef))


def test_functions_stay_small() -> None:
    lengths = sorted(_code_lines(function) for function in functions())
    assert statistics.median(lengths) <= 8
    assert lengths[int(len(lengths) * 0.95)] <= 40


def _code_lines(function: ast.FunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1


@pytest.mark.parametrize("word", ["Base", "Manager", "Helper", "Util"])
def test_names_say_something(word: str) -> None:
    named = [node.name for _, _, tree in modules() for node in nodes(tree) if isinstance(node, ast.ClassDef)]
    assert not [name for name in named if name.startswith(word) or name.endswith(word)]


def _first(node: ast.expr) -> str:
    """The name that an expression such as `a.b(c).d` begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def test_nothing_dangerous_is_called() -> None:
    called = {
        ast.unparse(node.func): f"{file.name}:{node.lineno}"
        for file, _, tree in modules()
        for node in nodes(tree)
        if isinstance(node, ast.Call) and _first(node.func) in ("eval", "exec", "os", "pickle", "marshal", "shelve")
    }
    banned = ("eval", "exec", "os.system", "os.popen", "pickle.", "marshal.", "shelve.")
    assert not {name: where for name, where in called.items() if name in banned or name.startswith(banned[4:])}
