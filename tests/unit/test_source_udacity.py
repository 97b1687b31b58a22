import csv
import math
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.config.toml import Builder
from swerve.core.convention import Convention
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.values import Signal, Steering, find
from swerve.sources.udacity import Udacity
from swerve.sources.windows import Windows
from swerve.testing.contracts import SourceContract

TOLD: dict[str, Any] = {"unit": "radians", "positive": "left", "kind": "wheel"}
INTERPOLATED = "index,timestamp,width,height,frame_id,filename,angle,torque,speed,lat,long,alt"
LOG = "center,left,right,steering,throttle,brake,speed"


def draw(folder: Path, name: str, size: tuple[int, int] = (8, 6)) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(folder / name), np.full((*size[::-1], 3), len(name), np.uint8))


def write(folder: Path, table: str, lines: Sequence[str], pictures: Sequence[str] = ()) -> None:
    (folder / table).parent.mkdir(parents=True, exist_ok=True)
    (folder / table).write_text("\n".join(lines) + "\n")
    for name in pictures:
        draw(folder, name)


def challenge(folder: Path, count: int = 4, table: str = "final_example.csv") -> None:
    """The table that Challenge 2 was judged by: 0, 0.1, 0.2 and so on radians."""
    rows = [f"{1000 + index},{index / 10}" for index in range(count)]
    write(folder, table, ["frame_id,steering_angle", *rows], [f"center/{1000 + index}.jpg" for index in range(count)])


def degrees(source: Udacity, key: str) -> float:
    told = find(source[key].truth, "steering")
    assert isinstance(told, Steering)
    return told.degrees


def fault(source: Udacity, key: str) -> str:
    with pytest.raises(UnreadableCase) as caught:
        source[key]
    return str(caught.value)


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _written(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        challenge(tmp_path)

    def source(self) -> Udacity:
        return Udacity(self.folder, block=2)


@pytest.mark.parametrize("table", ["final_example.csv", "CH2_final_evaluation.csv", "labels.csv", "steering.csv"])
def test_challenge_is_read_as_published(tmp_path: Path, table: str) -> None:
    challenge(tmp_path, table=table)
    source = Udacity(tmp_path)
    assert source.keys() == [f"center/{1000 + index}.jpg" for index in range(4)]
    assert [degrees(source, key) for key in source.keys()] == pytest.approx([math.degrees(i / 10) for i in range(4)])
    assert source.convention == Convention("radians", "left", "wheel", None)
    assert {source.group(key) for key in source.keys()} == {"drive"}


def test_ids_find_png_too(tmp_path: Path) -> None:
    write(tmp_path, "final_example.csv", ["frame_id,steering_angle,public", "17,0.5,1"], ["center/17.png"])
    assert Udacity(tmp_path).keys() == ["center/17.png"]
    assert degrees(Udacity(tmp_path), "center/17.png") == pytest.approx(math.degrees(0.5))


def test_export_of_a_rosbag(tmp_path: Path) -> None:
    rows = [
        "0,10,640,480,left_camera,left/10.jpg,9,0,0,0,0,0",
        "1,11,640,480,center_camera,center/11.jpg,0.25,-0.5,12.5,37.5,-122,20",
        "2,12,640,480,right_camera,right/12.jpg,9,0,0,0,0,0",
        "3,13,640,480,center_camera,center/13.jpg,-0.25,0,13,37.5,-122,20",
    ]
    write(
        tmp_path,
        "interpolated.csv",
        [INTERPOLATED, *rows],
        ["left/10.jpg", "center/11.jpg", "right/12.jpg", "center/13.jpg"],
    )
    write(tmp_path, "steering.csv", ["timestamp,angle", "1,2"])  # the raw log lies beside it and is not meant
    source = Udacity(tmp_path, signals=("speed", "torque"))
    assert source.keys() == ["center/11.jpg", "center/13.jpg"]
    assert source["center/11.jpg"].truth == (Steering(math.degrees(0.25)), Signal("speed", 12.5), Signal("torque", -0.5))


def test_table_in_a_folder_of_its_own(tmp_path: Path) -> None:
    rows = [INTERPOLATED, "1,11,640,480,center_camera,center/11.jpg,0.25,0,0,0,0,0"]
    write(tmp_path, "HMB_1/interpolated.csv", rows, ["HMB_1/center/11.jpg", "HMB_2/center/5.jpg"])
    assert Udacity(tmp_path, table="HMB_1/interpolated.csv").keys() == ["HMB_1/center/11.jpg"]


def test_tables_below_are_drives(tmp_path: Path) -> None:
    for drive, angle in (("HMB_2", 0.5), ("HMB_1", 0.25)):
        rows = [INTERPOLATED, f"1,11,640,480,center_camera,center/11.jpg,{angle},0,0,0,0,0"]
        write(tmp_path, f"{drive}/interpolated.csv", rows, [f"{drive}/center/11.jpg"])
        write(tmp_path, f"{drive}/steering.csv", ["timestamp,angle", "1,2"])
    write(tmp_path, "notes/my_labels.csv", ["x", "y"])  # only ends like one
    source = Udacity(tmp_path)
    assert {key: source.group(key) for key in source.keys()} == {
        "HMB_1/center/11.jpg": "HMB_1",
        "HMB_2/center/11.jpg": "HMB_2",
    }
    assert degrees(source, "HMB_2/center/11.jpg") == pytest.approx(math.degrees(0.5))
    assert Udacity(tmp_path, drive="frame_id", block=1).group("HMB_1/center/11.jpg") == "HMB_1/center_camera-0"
    before = source.fingerprint()
    table = tmp_path / "HMB_2/interpolated.csv"
    table.write_text(table.read_text().replace("0.5", "0.6"))
    assert Udacity(tmp_path).fingerprint() != before


def dumped(folder: Path, steering: Sequence[str], camera: Sequence[str]) -> None:
    write(folder, "steering.csv", ["timestamp,angle,torque,speed", *steering])
    pictures = [line.split(",")[-1] for line in camera]
    write(folder, "camera.csv", ["timestamp,width,height,frame_id,filename", *camera], pictures)


def test_dumped_drive_is_joined_by_time(tmp_path: Path) -> None:
    start = 1_479_424_215_877_284_303
    angles = [f"{start + at * 10_000_000},{at / 10},0,{at}" for at in (2, 0, 1)]
    places = {"a": -100_000_000, "b": 4_000_000, "c": 6_000_000, "d": 119_000_000, "e": 121_000_000}
    pictures = [f"{start + at},640,480,center_camera,center/{name}.jpg" for name, at in places.items()]
    dumped(tmp_path, angles, [*pictures, f"{start},640,480,left_camera,left/x.jpg"])
    source = Udacity(tmp_path, signals=("speed",))
    assert source.keys() == [f"center/{name}.jpg" for name in "abcde"]
    found = [degrees(source, f"center/{name}.jpg") for name in "abcd"]
    assert found == pytest.approx([math.degrees(angle) for angle in (0, 0, 0.1, 0.2)])
    assert source["center/c.jpg"].truth[1] == Signal("speed", 1)
    assert fault(source, "center/e.jpg") == "center/e.jpg: angle: expected a number, got nothing"
    before = source.fingerprint()
    (tmp_path / "camera.csv").write_text((tmp_path / "camera.csv").read_text().replace("640", "641"))
    assert Udacity(tmp_path, signals=("speed",)).fingerprint() != before


def test_dump_without_its_times_or_pictures_is_refused(tmp_path: Path) -> None:
    dumped(tmp_path, ["1,0,0,0"], ["x,640,480,center_camera,center/a.jpg"])
    with pytest.raises(InputError, match=rf"^{tmp_path}/camera\.csv: row 1, timestamp: expected a number, got 'x'"):
        Udacity(tmp_path).keys()
    (tmp_path / "camera.csv").unlink()
    with pytest.raises(
        InputError, match=rf"^{tmp_path}/steering\.csv: .*; set 'file' to one .*, or put the drive's camera\.csv beside it;"
    ):
        Udacity(tmp_path).keys()


@pytest.mark.parametrize("separator", [";", "\t", "|", " "])
@pytest.mark.parametrize("header", [True, False])
def test_separator_is_told(tmp_path: Path, separator: str, header: bool) -> None:
    rows = [*([LOG] if header else []), "IMG/center_1.jpg,IMG/left_1.jpg,IMG/right_1.jpg,0.5,0,0,22.1"]
    write(tmp_path, "driving_log.csv", [row.replace(",", separator) for row in rows], ["IMG/center_1.jpg"])
    told: dict[str, Any] = {"unit": "degrees", "positive": "left", "kind": "wheel"}
    with pytest.raises(InputError, match=rf"^{tmp_path}/driving_log\.csv, line 1, .* set separator = ") as caught:
        Udacity(tmp_path, **told).keys()
    advised = tomllib.loads(str(caught.value).partition("set ")[2])
    assert advised == {"separator": separator}
    assert degrees(Udacity(tmp_path, **told, **advised), "IMG/center_1.jpg") == 0.5
    with pytest.raises(InputError, match='\'separator\' must be one of "," ";" '):
        Udacity(tmp_path, separator=";;")


BARE = ["0.jpg 0.5", "1.jpg  -0.25", " 2.jpg\t1e-1 "]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (BARE, {"separator": " "}),
        ([line.replace(" -", ",-").replace(" 0.5", ",0.5").replace("\t", ",") for line in BARE], {}),
        ([f"{line.strip()},2018-07-01 17:09:44:912" for line in BARE], {"separator": " ,"}),
        (["name steer", *BARE], {"separator": " "}),
        (["nan " + " ".join(reversed(line.split())) for line in BARE], {"separator": " ", "file": 3}),
        (["name,steer", "0.jpg,0.5", "1.jpg,-0.25", "2.jpg,.1"], {"file": "name"}),
        (["0,0.5", "1,-.25", "2,.1"], {"images": "."}),
    ],
)
def test_columns_by_number(tmp_path: Path, lines: Sequence[str], told: dict[str, Any]) -> None:
    write(tmp_path, "data.txt", lines, ["0.jpg", "1.jpg", "2.jpg"])
    source = Udacity(tmp_path, table="data.txt", **{"file": 1, "angle": 2, **TOLD, "unit": "degrees", **told})
    assert source.keys() == ["0.jpg", "1.jpg", "2.jpg"]
    assert [degrees(source, key) for key in source.keys()] == [0.5, -0.25, 0.1]


def test_columns_by_number_have_numbers_as_names(tmp_path: Path) -> None:
    write(tmp_path, "data.txt", ["0.jpg 0.5 a 7", "1.jpg 0 b 8"], ["frames/0.jpg", "frames/1.jpg"])
    source = Udacity(
        tmp_path, table="data.txt", separator=" ", images="frames", file=1, angle=2, drive=3, signals=("4",), **TOLD
    )
    assert [source.group(key) for key in source.keys()] == ["a", "b"]
    assert source["frames/1.jpg"].truth[1] == Signal("4", 8)


def test_number_of_a_first_label_that_is_none_is_a_row(tmp_path: Path) -> None:
    write(tmp_path, "data.txt", ["0.jpg nan", "1.jpg 0"], ["0.jpg", "1.jpg"])
    source = Udacity(tmp_path, table="data.txt", separator=" ", file=1, angle=2, **TOLD)
    assert fault(source, "0.jpg") == "0.jpg: 2: expected a number, got 'nan'"


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"angle": 3}, r"data\.txt: no column 3; the table has 2"),
        ({"angle": 0}, "'angle' must be a whole number of at least 1, got 0"),
        ({"file": 1.5}, "'file' must be a whole number"),
        ({"file": "", "angle": ""}, r"'file' to one of .*needs numbers, such as file = 1, angle = 2; they are 0\.jpg, 0\.5"),
    ],
)
def test_wrong_numbers_of_columns(tmp_path: Path, told: dict[str, Any], why: str) -> None:
    write(tmp_path, "data.txt", BARE, ["0.jpg"])
    with pytest.raises(InputError, match=why):
        Udacity(tmp_path, table="data.txt", separator=" ", **{"file": 1, "angle": 2, **TOLD, **told}).keys()


def test_rows_of_a_table_without_a_header_have_one_length(tmp_path: Path) -> None:
    write(tmp_path, "data.txt", [*BARE, "my car.jpg 0.5"], ["0.jpg"])
    with pytest.raises(InputError, match=r"data\.txt, line 4, .* has 3 cells, but the first line 2 columns"):
        Udacity(tmp_path, table="data.txt", separator=" ", file=1, angle=2, **TOLD).keys()


def test_campaign_file_gives_columns_by_number(tmp_path: Path) -> None:
    write(tmp_path, "data.txt", BARE, ["0.jpg"])
    table = tomllib.loads('use = "udacity"\nfolder = "."\ntable = "data.txt"\nseparator = " "\nfile = 1\nangle = 2')
    assert Builder("f", tmp_path).component({**table, **TOLD}).keys() == ["0.jpg", "1.jpg", "2.jpg"]


def test_bad_table_names_its_folder(tmp_path: Path) -> None:
    write(tmp_path, "labels.csv", ["file,angle", "center/1.jpg"])
    with pytest.raises(InputError, match=rf"^{tmp_path}/labels\.csv, line 2"):
        Udacity(tmp_path).keys()
    write(tmp_path, "labels.csv", ["file,angle", "center/1.jpg,0"])
    with pytest.raises(InputError, match=rf"^{tmp_path}/labels\.csv: no column 'sped'"):
        Udacity(tmp_path, signals=("sped",)).keys()


@pytest.mark.parametrize("header", [True, False])
def test_simulator_s_log(tmp_path: Path, header: bool) -> None:
    rows = [
        "IMG/center_1.jpg, IMG/left_1.jpg, IMG/right_1.jpg, 0, 0, 0, 22.1",
        "/home/me/sim/IMG/center_2.jpg, IMG/left_2.jpg, IMG/right_2.jpg, 0.5, 0, 0, 22.2",
        r"C:\Users\me\sim\IMG\center_3.jpg,IMG/left_3.jpg,IMG/right_3.jpg,-1,0,0,22.3",
    ]
    pictures = [f"IMG/center_{index}.jpg" for index in (1, 2, 3)]
    others = [f"IMG/{side}_{index}.jpg" for side in ("left", "right") for index in (1, 2, 3)]
    write(tmp_path, "driving_log.csv", [*([LOG] if header else []), *rows], [*pictures, *others])
    with pytest.raises(InputError, match=r"'steering' must be declared, such as unit = .* positive = .* kind = "):
        Udacity(tmp_path).keys()
    source = Udacity(tmp_path, unit=25.0, positive="right", kind="road", ratio=2.0, signals=("speed",))
    assert source.keys() == pictures
    assert [degrees(source, key) for key in pictures] == [0, -25, 50]
    assert source[pictures[2]].truth[1] == Signal("speed", 22.3)
    draw(tmp_path, "IMG/left_4.jpg")
    assert Udacity(tmp_path, unit=25.0, positive="right", kind="wheel").keys() == [*pictures, "IMG/left_4.jpg"]


def test_mapped_columns(tmp_path: Path) -> None:
    lines = ["frame_id,file,steering_angle_rad,run", "5,center/5.jpg,0.1,a", "6,center/6.jpg,0.2,b"]
    write(tmp_path, "labels.csv", lines, ["center/5.jpg", "center/6.jpg"])
    source = Udacity(tmp_path, file="file", angle="steering_angle_rad", drive="run", **TOLD)
    assert {key: source.group(key) for key in source.keys()} == {"center/5.jpg": "a", "center/6.jpg": "b"}
    by_id = Udacity(tmp_path, file="frame_id", angle="steering_angle_rad", **TOLD)
    assert [degrees(by_id, key) for key in by_id.keys()] == pytest.approx([math.degrees(0.1), math.degrees(0.2)])


@pytest.mark.parametrize("missing", ["unit", "positive", "kind"])
def test_meaning_is_never_guessed(tmp_path: Path, missing: str) -> None:
    challenge(tmp_path)
    told = {name: value for name, value in TOLD.items() if name != missing}
    with pytest.raises(InputError, match=f"'steering_angle' must be declared, such as {missing} = "):
        Udacity(tmp_path, angle="steering_angle", **told)


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ({"unit": "degrees"}, 0.3),
        ({"positive": "right"}, -math.degrees(0.3)),
        ({"kind": "road", "ratio": 15.0}, 15 * math.degrees(0.3)),
        ({"unit": 10.0}, 3.0),
        ({"ratio": 14.8}, math.degrees(0.3)),
    ],
)
def test_meaning_can_be_told(tmp_path: Path, told: dict[str, Any], wanted: float) -> None:
    challenge(tmp_path)
    source = Udacity(tmp_path, **told)
    assert degrees(source, "center/1003.jpg") == pytest.approx(wanted)
    assert source.convention.ratio == told.get("ratio")


def test_nonsense_is_refused(tmp_path: Path) -> None:
    challenge(tmp_path)
    with pytest.raises(InputError, match="'positive' must be 'left' or 'right'"):
        Udacity(tmp_path, positive="up").keys()
    with pytest.raises(InputError, match="'block' must be a whole number of at least 0"):
        Udacity(tmp_path, block=-1)
    with pytest.raises(InputError, match="no column 'steering'; did you mean 'steering_angle'"):
        Udacity(tmp_path, angle="steering", **TOLD).keys()
    with pytest.raises(InputError, match="no column 'sped'"):
        Udacity(tmp_path, signals=("sped",)).keys()


def test_table_must_be_there(tmp_path: Path) -> None:
    draw(tmp_path, "center/1.jpg")
    with pytest.raises(InputError, match=r"no interpolated\.csv, .* or driving_log\.csv; set table"):
        Udacity(tmp_path).keys()
    with pytest.raises(InputError, match=r"gone\.csv: no such file"):
        Udacity(tmp_path, table="gone.csv").keys()
    write(tmp_path, "labels.csv", ["picture,turn"])
    with pytest.raises(InputError, match=r"labels\.csv: the table has no rows"):
        Udacity(tmp_path).keys()
    write(tmp_path, "labels.csv", ["picture,turn", "center/1.jpg,0"])
    with pytest.raises(
        InputError,
        match=r"labels\.csv: no column is known as 'file'; set 'file' to one of the columns; they are picture, turn",
    ):
        Udacity(tmp_path).keys()


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("nan", "steering_angle: expected a number, got 'nan'"),
        ("", "steering_angle: expected a number, got nothing"),
        ("left", "steering_angle: expected a number"),
        ("inf", "steering_angle: expected a number"),
        ("1e999", "steering_angle: .*1e999.* is not a finite number"),
        ("12.5", "steering_angle is 12.5 radians, more than a full turn; is the unit degrees"),
        ("-6.2832", "steering_angle is -6.2832 radians, more than a full turn"),
    ],
)
def test_bad_angle_is_a_skip(tmp_path: Path, cell: str, why: str) -> None:
    challenge(tmp_path, count=1)
    (tmp_path / "final_example.csv").write_text(f"frame_id,steering_angle\n1000,0.1\n2000,{cell}\n")
    draw(tmp_path, "center/2000.jpg")
    source = Udacity(tmp_path)
    assert re.match(f"center/2000.jpg: {why}", fault(source, "center/2000.jpg"))
    assert degrees(source, "center/1000.jpg") == pytest.approx(math.degrees(0.1))


@pytest.mark.parametrize(("cell", "good"), [("6.2831", True), ("6.2832", False)])
def test_full_turn_is_the_limit(tmp_path: Path, cell: str, good: bool) -> None:
    write(tmp_path, "labels.csv", ["frame_id,steering_angle", f"1,{cell}"], ["center/1.jpg"])
    assert bool(Udacity(tmp_path).entries["center/1.jpg"].fault) is not good
    assert not Udacity(tmp_path, unit="degrees").entries["center/1.jpg"].fault


def test_label_without_picture_is_a_skip(tmp_path: Path) -> None:
    challenge(tmp_path)
    (tmp_path / "center/1002.jpg").unlink()
    source = Udacity(tmp_path)
    assert len(source.keys()) == 4
    assert fault(source, "center/1002.jpg") == "center/1002.jpg: no such file"


def test_picture_without_label_is_a_skip(tmp_path: Path) -> None:
    challenge(tmp_path)
    for name in ("center/9.jpg", "left/1000.jpg", "1000.jpg"):
        draw(tmp_path, name)
    source = Udacity(tmp_path)
    assert source.keys()[4:] == ["center/9.jpg"]
    assert fault(source, "center/9.jpg") == (
        "center/9.jpg: no label in final_example.csv; set unlabelled = false to leave such pictures out"
    )
    assert len(Udacity(tmp_path, unlabelled=False).keys()) == 4


@pytest.mark.parametrize("other", ["center/1.jpg", "./center/1.jpg", " center/1.jpg"])
def test_two_labels_are_a_skip(tmp_path: Path, other: str) -> None:
    write(tmp_path, "labels.csv", ["file,angle", "center/1.jpg,0.1", f"{other},0.2", "center/2.jpg,0"])
    for name in ("center/1.jpg", "center/2.jpg"):
        draw(tmp_path, name)
    source = Udacity(tmp_path)
    assert source.keys() == ["center/1.jpg", "center/2.jpg"]
    assert fault(source, "center/1.jpg") == "center/1.jpg: listed twice"


def test_row_without_picture_is_a_skip(tmp_path: Path) -> None:
    write(tmp_path, "labels.csv", ["file,angle", ",0.1", "center/1.jpg,0.1", " ,0.2"], ["center/1.jpg"])
    source = Udacity(tmp_path)
    assert source.keys() == ["labels.csv, row 1", "center/1.jpg", "labels.csv, row 3"]
    assert fault(source, "labels.csv, row 3") == "labels.csv: row 3 has no picture"


@pytest.mark.parametrize(
    "name", ["../secret.jpg", "/etc/passwd.jpg", "~/a.jpg", "file:///a.jpg", "link.jpg", "center/../../secret.jpg"]
)
def test_paths_stay_inside(tmp_path: Path, name: str) -> None:
    draw(tmp_path, "secret.jpg")
    write(tmp_path / "set", "labels.csv", ["file,angle", f"{name},0", "good.jpg,0"], ["good.jpg"])
    (tmp_path / "set/link.jpg").symlink_to(tmp_path / "secret.jpg")
    source = Udacity(tmp_path / "set", unlabelled=False)
    bad, good = source.keys()
    assert "outside the data set's folder" in fault(source, bad)
    assert source[good]
    assert source.fingerprint()


def test_blocks_cut_each_drive(tmp_path: Path) -> None:
    rows = [f"{index},0,{'ab'[index % 2]}" for index in range(10)]
    write(tmp_path, "labels.csv", ["frame_id,angle,run", *rows], [f"center/{index}.jpg" for index in range(10)])
    one = Udacity(tmp_path, block=4)
    assert [one.group(key) for key in one.keys()] == ["drive-0"] * 4 + ["drive-1"] * 4 + ["drive-2"] * 2
    two = Udacity(tmp_path, block=3, drive="run")
    assert [two.group(key) for key in two.keys()] == ["a-0", "b-0"] * 3 + ["a-1", "b-1"] * 2


@pytest.mark.parametrize("odd", ["missing", "size"])
def test_window_names_the_odd_frame(tmp_path: Path, odd: str) -> None:
    challenge(tmp_path)
    if odd == "size":
        draw(tmp_path, "center/1001.jpg", (9, 6))
    else:
        (tmp_path / "center/1001.jpg").unlink()
    windows = Windows(Udacity(tmp_path), 2)
    assert windows["center/1003.jpg"]
    with pytest.raises(UnreadableCase, match=r"center/1001\.jpg") as caught:
        windows["center/1002.jpg"]
    assert odd == "missing" or "center/1002.jpg is 8x6" in str(caught.value)


def test_campaign_file_builds_it(tmp_path: Path) -> None:
    challenge(tmp_path / "data")
    table = {"use": "swerve.sources.udacity:Udacity", "folder": "data", "angle": "steering_angle", "unit": 5, "signals": []}
    with pytest.raises(InputError, match=r"source: the meaning of the angles .* such as positive = "):
        Builder("source", tmp_path).component(table)
    built = Builder("source", tmp_path).component({**table, "positive": "left", "kind": "wheel"})
    assert degrees(built, "center/1003.jpg") == pytest.approx(1.5)


def test_labels_are_in_the_fingerprint(tmp_path: Path) -> None:
    challenge(tmp_path)
    before = Udacity(tmp_path).fingerprint()
    assert Udacity(tmp_path).fingerprint() == before
    assert Udacity(tmp_path, positive="right").fingerprint() != before
    table = tmp_path / "final_example.csv"
    table.write_text(table.read_text().replace("0.3", "0.4"))
    assert Udacity(tmp_path).fingerprint() != before


@settings(max_examples=25, deadline=None)
@given(angles=st.lists(st.floats(-6.28, 6.28), min_size=1, max_size=8), positive=st.sampled_from(["left", "right"]))
def test_any_angle_comes_through(tmp_path_factory: pytest.TempPathFactory, angles: list[float], positive: str) -> None:
    folder = tmp_path_factory.mktemp("drive")
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("frame_id", "angle"), *enumerate(angles)])
    for index in range(len(angles)):
        draw(folder, f"center/{index}.png")
    source = Udacity(folder, positive=positive)
    found = [degrees(source, key) for key in source.keys()]
    sign = 1 if positive == "left" else -1
    assert found == pytest.approx([sign * angle * 180 / math.pi for angle in angles], rel=1e-12, abs=1e-300)
