"""A data set's folder: what lies in it is read, nothing else is, and nothing in it can make a reader wait (R33, R39)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from swerve.core.errors import InputError, UnreadableCase
from swerve.sources.images import read_image
from swerve.sources.root import LONGEST, Root

SECRET = b"what nobody may read"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A folder `data` with a file in it, beside a folder with a secret."""
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "sub" / "a.txt").write_bytes(b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(SECRET)
    return Root(tmp_path / "data")


def refused(root: Root, name: str) -> str:
    with pytest.raises(UnreadableCase) as error:
        root.bytes(name)
    said = str(error.value)
    assert len(said) <= 300
    return said


def test_files_below_are_read(root: Root) -> None:
    assert root.bytes("sub/a.txt") == b"inside"
    assert root.bytes("./sub//a.txt") == b"inside"
    assert root.has("sub/a.txt")
    assert not root.has("sub")
    assert not root.has("sub/b.txt")


def test_link_that_stays_inside_is_followed(root: Root) -> None:
    (root.folder / "link").symlink_to("sub/a.txt")
    (root.folder / "folder").symlink_to("sub")
    assert root.bytes("link") == b"inside"
    assert root.bytes("folder/a.txt") == b"inside"


def test_names_are_sorted_and_any_case(root: Root) -> None:
    for name in ("b.PNG", "a.png", "sub/c.Png", ".hidden.png", "d.jpg"):
        (root.folder / name).write_bytes(b"x")
    assert root.names(".png") == ["a.png", "b.PNG", "sub/c.Png"]
    assert root.names(".png", under="sub") == ["sub/c.Png"]
    assert root.names(".png", under="nowhere") == []
    assert root.names(".png", under=".") == root.names(".png")


def test_no_names_outside(root: Root) -> None:
    (root.folder / "link").symlink_to(root.folder.parent / "outside")
    assert root.names("secret") == []
    for under in ("..", "../outside", "link", "/", "sub/../.."):
        with pytest.raises(UnreadableCase, match="outside the data set's folder"):
            root.names("secret", under=under)


def test_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="not a folder"):
        Root(tmp_path / "file")
    with pytest.raises(InputError, match="no such folder"):
        Root(tmp_path / "nowhere")


def test_size_limit_is_exact(root: Root) -> None:
    assert root.bytes("sub/a.txt", most=6) == b"inside"
    with pytest.raises(UnreadableCase, match="6 bytes, at most 5 are read"):
        root.bytes("sub/a.txt", most=5)


def test_file_that_grows_meanwhile(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Root.open

    def growing(self: Root, name: str, **options: int) -> object:
        file = opened(self, name, **options)
        status = os.fstat(file.fileno())
        (root.folder / name).write_bytes(b"longer than before")
        monkeypatch.setattr(os, "fstat", lambda handle: status)
        return file

    monkeypatch.setattr(Root, "open", growing)
    assert "changed while it was being read" in refused(root, "sub/a.txt")


# R39: 200 ways out


def ways_out(folder: Path) -> list[str]:
    """Names that lead, or could lead, out of `folder`; links are made where one is needed."""
    secret = folder.parent / "outside" / "secret"
    up = [f"{'../' * depth}{rest}" for depth in range(1, 9) for rest in ("outside/secret", "etc/passwd", "", ".")]
    inside_first = [f"{start}{name}" for start in ("sub/../", "./", "sub/./../", "sub//", "nowhere/../") for name in up[:14]]
    spelt = [
        f"{word}outside{slash}secret" for word in ("..\\", "..%2f", "%2e%2e/", "..;/", "．．/", "..\0/") for slash in "/\\"
    ]
    absolute = [
        str(secret),
        f"/{secret}",
        f"//{secret}",
        "/etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
        "/",
        "//",
        "///etc",
    ]
    home = ["~", "~/x", "~root/.bashrc", "$HOME/x", "${HOME}", "%USERPROFILE%"]
    schemes = [
        f"{scheme}://{rest}" for scheme in ("file", "http", "ftp", "smb", "data") for rest in ("etc/passwd", "/etc/passwd")
    ]
    shares = ["\\\\server\\share", "//server/share", "C:\\x", "C:/x", "\\\\?\\C:\\x", "\\etc", "sub\\..\\..\\outside"]
    odd = [
        "",
        ".",
        "./",
        " ",
        "\0",
        "sub/a.txt\0.png",
        "\0/etc/passwd",
        "a" * (LONGEST + 1),
        "a/" * 3000,
        "a" * 300,
        "\ud800",
    ]
    cut = [f"sub/{'x' * length}/../../../outside/secret" for length in range(1, 40)]
    return [*up, *inside_first, *spelt, *absolute, *home, *schemes, *shares, *odd, *cut, *links_out(folder, secret)]


def links_out(folder: Path, secret: Path) -> list[str]:
    (folder / "file").symlink_to(secret)
    (folder / "relative").symlink_to("../outside/secret")
    (folder / "folder").symlink_to(secret.parent)
    (folder / "whole").symlink_to("/")
    (folder / "chain").symlink_to("file")
    (folder / "sub" / "up").symlink_to("../..")
    (folder / "loop").symlink_to("loop")
    (folder / "self").symlink_to(".")
    os.link(secret, folder / "hard")
    through = (
        "folder/secret",
        "whole/etc/passwd",
        f"whole{secret}",
        "sub/up/outside/secret",
        "self/file",
        "self/self/relative",
    )
    return ["file", "relative", "folder", "whole", "chain", "loop", "self", "hard", *through]


HOOK = """
import os, pathlib, sys
from swerve.core.errors import UnreadableCase
from swerve.sources.root import Root
root, folder, seen = Root(pathlib.Path(sys.argv[1])), os.path.realpath(sys.argv[1]), []
names = [bytes.fromhex(word).decode("utf-8", "surrogatepass") for word in sys.stdin.read().split("\\n")]
sys.addaudithook(lambda event, args: seen.append(args[0]) if event == "open" else None)
read = 0
for name in names:
    try:
        root.bytes(name)
        read += 1
    except UnreadableCase:
        pass
paths = [os.fsdecode(path) for path in seen if not isinstance(path, int)]
print(read, len(paths), sep="\\n")
print(*sorted({path for path in paths if path != folder}), sep="\\n")
"""


def test_no_way_leads_out(root: Root) -> None:
    ways = ways_out(root.folder)
    assert len(set(ways)) >= 200
    for way in ways:
        refused(root, way)


def test_nothing_outside_is_even_opened(root: Root) -> None:
    """Python tells of every file that is opened: the folder itself, then one name after the other, none with a slash."""
    ways = ways_out(root.folder)
    spelt = "\n".join(way.encode("utf-8", "surrogatepass").hex() for way in [*ways, "sub/a.txt"])
    done = subprocess.run([sys.executable, "-c", HOOK, root.folder], input=spelt, capture_output=True, text=True, check=True)
    read, opened, *others = done.stdout.split("\n")
    assert int(read) == 1  # the honest name: the hook is alive
    assert int(opened) >= 3
    assert {"sub", "a.txt"} <= set(others)
    assert not [name for name in others if "/" in name or name == ".." or "secret" in name]


def test_hook_would_see_a_way_out(root: Root) -> None:
    """The planted fault: a reader that just opens what it is told."""
    naive = HOOK.replace("root.bytes(", "open(folder + '/' + ").replace(
        "except UnreadableCase", "except (OSError, ValueError)"
    )
    spelt = "\n".join(way.encode("utf-8", "surrogatepass").hex() for way in ways_out(root.folder))
    done = subprocess.run(
        [sys.executable, "-c", naive, root.folder], input=spelt, capture_output=True, text=True, check=True
    )
    assert "../outside/secret" in done.stdout


# R33: things that are no files


def fifo(path: Path) -> None:
    os.mkfifo(path)


def zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # the name of a socket may be 100 characters long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(here)
    os.close(here)


def folder(path: Path) -> None:
    path.mkdir()


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def longer_loop(path: Path) -> None:
    path.symlink_to("other.png")
    path.with_name("other.png").symlink_to(path.name)


def dangling(path: Path) -> None:
    path.symlink_to("nowhere.png")


def text(path: Path) -> None:
    path.write_text("hello")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def secretive(path: Path) -> None:
    path.symlink_to("/proc/self/mem")


ODD: tuple[tuple[Callable[[Path], None], str], ...] = (
    (fifo, "not a regular file"),
    (zero, "outside"),
    (listening, "not a regular file"),
    (folder, "not a regular file"),
    (loop, "not a regular file"),
    (longer_loop, "not a regular file"),
    (dangling, "no such file"),
    (text, "not a supported picture"),
    (empty, "empty"),
    (secretive, "outside"),
)


@pytest.mark.parametrize(("make", "words"), ODD, ids=[make.__name__ for make, _ in ODD])
def test_what_is_no_picture_file(root: Root, make: Callable[[Path], None], words: str) -> None:
    make(root.folder / "odd.png")
    begin = time.process_time()
    with pytest.raises(UnreadableCase, match=f"^odd.png: .*{words}"):
        read_image(root, "odd.png")
    assert time.process_time() - begin < 1  # and what waits for a pipe waits for ever


def test_handles_are_given_back(root: Root) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for way in ways_out(root.folder):
        refused(root, way)
    root.bytes("sub/a.txt")
    assert len(os.listdir("/proc/self/fd")) == before
