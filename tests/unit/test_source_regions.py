"""Regions from files and corridors: which case gets which, and what is said about rings that cannot be."""

import json
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from swerve.config.toml import Builder
from swerve.core import region as geometry
from swerve.core.case import Source
from swerve.core.errors import InputError, SpecError, UnreadableCase
from swerve.core.region import area_of, inside
from swerve.core.values import Array, Region
from swerve.sources.folders import Clouds
from swerve.sources.regions import Regions, read
from swerve.sources.rings import polygon
from swerve.sources.windows import Windows
from swerve.testing import FakeSource, SourceContract

SQUARE = [[-10, -4], [50, -4], [50, 4], [-10, 4]]
HOLE = [[5, -1], [8, -1], [8, 1], [5, 1]]


@pytest.fixture
def sweeps(tmp_path: Path) -> Clouds:
    folder = tmp_path / "sweeps"
    folder.mkdir()
    for number in range(3):
        points = np.random.default_rng(number).uniform(-20, 20, (50, 4)).astype(np.float32)
        np.save(folder / f"{number}.npy", np.abs(points) * [1, 1, 1, 0.05])
    return Clouds(folder)


def written(folder: Path, text: object, name: str = "road.toml") -> Path:
    path = folder / name
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


def toml(*polygons: object) -> str:
    return "\n".join(f"[[polygon]]\nouter = {json.dumps(outer)}" for outer in polygons)


def collection(*features: object) -> dict[str, object]:
    return {"type": "FeatureCollection", "features": list(features)}


def feature(coordinates: object, case: str | None = None, kind: str = "Polygon") -> dict[str, object]:
    return {
        "type": "Feature",
        "properties": None if case is None else {"case": case},
        "geometry": {"type": kind, "coordinates": coordinates},
    }


def only(path: Path) -> Region:
    (found,) = read(path).values()
    return found


def holds(region: Region, *points: tuple[float, float]) -> list[bool]:
    return inside(region, np.array(points)).tolist()


class TestCorridor:
    def test_reaches_as_far_as_told(self, sweeps: Clouds) -> None:
        case = Regions(sweeps, ahead=50, behind=10, left=3, right=4)["0.npy"]
        region = case.inputs["region"]
        assert isinstance(region, Region)
        corners = [(50, 3), (50, -4), (-10, 3), (-10, -4)]
        assert holds(region, *corners) == [True] * 4
        assert holds(region, (50.01, 0), (-10.01, 0), (0, 3.01), (0, -4.01)) == [False] * 4

    def test_cases_keep_everything_else(self, sweeps: Clouds) -> None:
        source = Regions(sweeps, ahead=5, left=1)
        assert list(source.keys()) == list(sweeps.keys())
        for key in source.keys():
            assert source[key].inputs["lidar"] == sweeps[key].inputs["lidar"]
            assert (source[key].truth, source[key].group, source[key].facts) == (
                sweeps[key].truth,
                sweeps[key].group,
                sweeps[key].facts,
            )

    @pytest.mark.parametrize("sides", [{}, {"ahead": 9}, {"left": 2, "right": 2}, {"ahead": 0, "left": 0}])
    def test_neither_file_nor_corridor(self, sweeps: Clouds, sides) -> None:
        with pytest.raises(InputError, match="set either 'region' to a file, or a corridor"):
            Regions(sweeps, **sides)

    @pytest.mark.parametrize("metres", [-1, float("nan"), float("inf"), "5", True, None])
    def test_metres_are_checked(self, sweeps: Clouds, metres) -> None:
        with pytest.raises(InputError, match=r"regions: 'left' must be from 0 to below 1,000,000 metres"):
            Regions(sweeps, ahead=5, left=metres)

    def test_not_both(self, sweeps: Clouds, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="not both"):
            Regions(sweeps, written(tmp_path, toml(SQUARE)), ahead=5)


class TestToml:
    def test_polygon_with_holes(self, tmp_path: Path) -> None:
        text = f"[[polygon]]\nouter = {SQUARE}\nholes = [{HOLE}]\n"
        region = only(written(tmp_path, text))
        assert holds(region, (0, 0), (6, 0), (40, 3), (51, 0)) == [True, False, True, False]

    def test_several_are_one_area(self, tmp_path: Path) -> None:
        side = [[20, -40], [26, -40], [26, 40], [20, 40]]
        region = only(written(tmp_path, toml(SQUARE, side[::-1])))
        assert holds(region, (23, 0), (23, 30), (0, 0), (0, 30)) == [True, True, True, False]

    def test_case_by_case(self, sweeps: Clouds, tmp_path: Path) -> None:
        text = f'[[polygon]]\ncase = "1.npy"\nouter = {HOLE}\n[[polygon]]\nouter = {SQUARE}\n'
        source = Regions(sweeps, written(tmp_path, text))
        sizes = [abs(area_of(source[key].inputs["region"].polygons[0])) for key in source.keys()]  # type: ignore[attr-defined]
        assert sizes == [480, 6, 480]

    def test_case_without_a_region_is_left_out(self, sweeps: Clouds, tmp_path: Path) -> None:
        source = Regions(sweeps, written(tmp_path, f'[[polygon]]\ncase = "1.npy"\nouter = {SQUARE}\n'))
        assert source["1.npy"].inputs["region"]
        with pytest.raises(UnreadableCase, match=r"^0\.npy: road\.toml has no region for this case and none for all cases$"):
            source["0.npy"]

    def test_documented_file_reads(self, tmp_path: Path) -> None:
        page = (Path(__file__).parents[2] / "docs/sources.md").read_text()
        (text,) = re.findall(r"```toml\n(\[\[polygon\]\].*?)```", page, re.DOTALL)
        found = read(written(tmp_path, text))
        assert {key: len(region.polygons) for key, region in found.items()} == {"": 2, "000002": 1}
        assert holds(found[""], (0, 0), (32, 0)) == [True, False]

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("", "road.toml: no polygon in the file"),
            ("outer = 3", "unknown key 'outer'"),
            ("[polygon]\nouter = []", r"write \[\[polygon\]\]"),
            ("polygon = [3]", "polygon 1: expected a table"),
            ("[[polygon]]\nholes = []", "polygon 1, outer ring: expected a list of points"),
            (f"[[polygon]]\nouter = {SQUARE}\nhole = []", "unknown key 'hole'; did you mean 'holes'"),
            (f"[[polygon]]\nouter = {SQUARE}\nholes = 3", "'holes' must be a list"),
            (f"[[polygon]]\nouter = {SQUARE}\ncase = 3", "'case' must be the key of a case"),
            ("[[polygon]\n", r"road\.toml: .*line 1"),
            (b"\xff".decode("latin-1"), "road.toml: "),
        ],
    )
    def test_what_is_refused(self, tmp_path: Path, text: str, why: str) -> None:
        with pytest.raises(InputError, match=why):
            read(written(tmp_path, text))


class TestGeojson:
    @pytest.mark.parametrize("name", ["road.geojson", "road.json", "ROAD.GEOJSON"])
    def test_collection_with_holes(self, tmp_path: Path, name: str) -> None:
        closed = [[*SQUARE, SQUARE[0]], [*HOLE, HOLE[0]]]
        region = only(written(tmp_path, collection(feature(closed)), name))
        assert [len(ring) for ring in region.polygons] == [4, 4]
        assert holds(region, (0, 0), (6, 0)) == [True, False]

    def test_bare_polygon_and_feature(self, tmp_path: Path) -> None:
        bare = {"type": "Polygon", "coordinates": [SQUARE]}
        assert only(written(tmp_path, bare, "a.json")) == only(written(tmp_path, feature([SQUARE]), "b.json"))

    def test_multipolygon_is_one_area(self, tmp_path: Path) -> None:
        island = [[60, 0], [70, 0], [70, 9]]
        region = only(written(tmp_path, feature([[SQUARE, HOLE], [island]], kind="MultiPolygon"), "a.json"))
        assert holds(region, (0, 0), (6, 0), (69, 1), (55, 0)) == [True, False, True, False]

    def test_heights_are_ignored(self, tmp_path: Path) -> None:
        raised = [[x, y, 7.5] for x, y in SQUARE]
        assert only(written(tmp_path, feature([raised]), "a.json")) == only(written(tmp_path, feature([SQUARE]), "b.json"))

    def test_case_by_case(self, tmp_path: Path) -> None:
        found = read(written(tmp_path, collection(feature([SQUARE], "a"), feature([HOLE]), feature([HOLE], "a")), "a.json"))
        assert {key: len(region.polygons) for key, region in found.items()} == {"a": 2, "": 1}

    @pytest.mark.parametrize(
        ("data", "why"),
        [
            ([], "expected a Polygon or a MultiPolygon"),
            (None, "expected a Polygon or a MultiPolygon, got None"),
            (collection(), "no polygon in the file"),
            (collection({"type": "Feature", "geometry": None}), "feature 1: expected a Polygon"),
            (collection(feature([SQUARE]), feature([1, 2], kind="Point")), "feature 2: expected a Polygon.*got 'Point'"),
            ({"type": "FeatureCollection", "features": 3}, "'features' must be a list"),
            (feature(3, kind="MultiPolygon"), "'coordinates' must be a list"),
            (feature([[SQUARE], 5], kind="MultiPolygon"), "polygon 2: expected a list of an outer ring"),
            (feature([]), "expected a list of an outer ring"),
            (feature([SQUARE], case=""), "'case' must be the key of a case"),
            ('{"type": "Polygon", "coordinates": [[[NaN, 0]]]}', "line 1, column"),
        ],
    )
    def test_what_is_refused(self, tmp_path: Path, data: object, why: str) -> None:
        with pytest.raises(InputError, match=rf"^road\.geojson.*{why}") as refused:
            read(written(tmp_path, data, "road.geojson"))
        assert not isinstance(refused.value, UnreadableCase)


class TestRings:
    """R51: every fault names its ring."""

    @pytest.mark.parametrize("ring", [SQUARE, SQUARE[::-1]])
    @pytest.mark.parametrize("hole", [HOLE, HOLE[::-1]])
    def test_turned_the_right_way_round(self, ring, hole) -> None:
        made = polygon([ring, hole], "f")
        assert [np.sign(area_of(part)) for part in made] == [1, -1]

    def test_points_given_twice_are_one(self) -> None:
        (made,) = polygon([[SQUARE[0], *SQUARE, SQUARE[-1], SQUARE[0]]], "f")
        assert made.tolist() == SQUARE

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ([[[0, 0], [5, 0]]], "f, outer ring: 2 different points; a ring needs at least 3"),
            ([[[0, 0], [5, 0], [0, 0], [0, 0]]], "f, outer ring: 2 different points|encloses nothing"),
            ([[[1, 1]] * 4], "f, outer ring: 0 different points"),
            ([[]], "f, outer ring: 0 different points"),
            ([[[0, 0], [5, 0], [10, 0]]], "f, outer ring: the enclosed area is zero"),
            ([[[0, 0], [5, 5], [5, 0], [0, 5]]], "f, outer ring: the enclosed area is zero"),  # half turns either way
            (
                [[[0, 0], [6, 6], [5, 0], [0, 5]]],
                r"f, outer ring: the ring crosses itself \(after point 1 and after point 3\)",
            ),
            ([SQUARE, [[5, 0], [8, 1], [8, 0], [5, 2]]], "f, hole 1: the ring crosses itself"),
            ([SQUARE, HOLE, [[7, 0], [9, 0], [9, 2], [7, 2]]], "f, hole 1: the ring crosses hole 2"),
            ([SQUARE, [[45, 0], [55, 0], [55, 1], [45, 1]]], "f, outer ring: the ring crosses hole 1"),
            ([SQUARE, [[60, 0], [65, 0], [65, 1]]], "f, hole 1: a hole must lie inside the outer ring"),
            ([SQUARE, HOLE, HOLE], "f, hole 1: a hole must lie inside the outer ring and outside other holes"),
            ([SQUARE, HOLE, [[6, -0.5], [7, -0.5], [7, 0.5]]], "f, hole [12]: .*outside other holes"),
            ([SQUARE, [[6, -0.5], [7, -0.5], [7, 0.5]], HOLE], "f, hole [12]: .*outside other holes"),
            ([SQUARE, SQUARE, HOLE], "f, hole [12]: .*outside other holes"),
            ([[[0, 0], [1, "x"], [1, 1]]], "f, outer ring, point 2: expected a number, got 'x'"),
            ([[[0, 0], [1, float("inf")], [1, 1]]], "point 2: inf is not a finite number"),
            ([[[0, 0], [1, True], [1, 1]]], "point 2: expected a number, got True"),
            ([[[0, 0], [1], [1, 1]]], r"point 2: expected \[x, y\] in metres, got \[1\]"),
            ([[[0, 0], None, [1, 1]]], "point 2: .*got nothing"),
            (
                [[[0, 0], [1, 0], [4700000, 5600000]]],
                "point 3: the point is 5.6e.06 m away; coordinates must be metres from the LiDAR",
            ),
            ([5], "f, outer ring: expected a list of points"),
            ("ab", "f: expected a list of an outer ring"),
        ],
    )
    def test_what_is_refused(self, given, why: str) -> None:
        with pytest.raises(InputError, match=why):
            polygon(given, "f")

    def test_hole_that_fills_its_polygon(self) -> None:
        whole = Region(polygon([SQUARE, SQUARE], "f"))
        assert holds(whole, (0, 0), (40, 3)) == [False, False]

    def test_touching_is_no_crossing(self) -> None:
        pinched = [[0, 0], [4, 0], [4, 4], [2, 0], [0, 4]]  # one point lies on another edge
        assert len(polygon([pinched], "f")[0]) == 5
        assert len(polygon([SQUARE, [[-10, -1], [0, 0], [0, 1]]], "f")) == 2  # a hole that touches the border

    def test_spiral_is_no_crossing(self) -> None:
        turn = np.linspace(0, 6 * np.pi, 300)
        out = np.column_stack([np.cos(turn), np.sin(turn)]) * (turn + 3)[:, None]
        back = np.column_stack([np.cos(turn), np.sin(turn)]) * (turn + 2)[:, None]
        spiral = np.concatenate([out, back[::-1]]).tolist()
        region = Region(polygon([spiral], "f"))
        assert holds(region, (2.5, 0), (4, 0), (2.5 + 2 * np.pi, 0)) == [True, False, True]

    def test_pairs_in_pieces_find_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ring = np.random.default_rng(0).uniform(0, 9, (40, 2)).tolist()
        with pytest.raises(InputError, match="the ring crosses itself") as whole:
            polygon([ring], "f")
        monkeypatch.setattr(geometry, "_TOGETHER", 7)
        with pytest.raises(InputError, match="the ring crosses itself") as pieces:
            polygon([ring], "f")
        assert str(pieces.value) == str(whole.value)

    @pytest.mark.parametrize("seed", range(20))
    def test_crossings_as_by_every_pair(self, seed: int) -> None:
        """Every pair of edges, asked one after the other."""
        ring = np.random.default_rng(seed).uniform(0, 9, (6, 2))
        wanted = any(
            crosses(ring[a], ring[(a + 1) % 6], ring[b], ring[(b + 1) % 6]) for a in range(6) for b in range(a + 2, 6)
        )
        with pytest.raises(InputError, match="crosses itself") if wanted else nullcontext():
            polygon([ring.tolist()], "f")

    def test_too_many_points(self) -> None:
        turn = np.linspace(0, 2 * np.pi, 10_002)[:-1]
        with pytest.raises(InputError, match="10,001 points; a polygon may have at most 10,000"):
            polygon([np.column_stack([np.cos(turn), np.sin(turn)]).tolist()], "f")


def crosses(a: Array, b: Array, c: Array, d: Array) -> bool:
    """By solving for where the lines meet."""
    matrix = np.column_stack([b - a, c - d])
    if abs(np.linalg.det(matrix)) < 1e-12:
        return False
    share = np.linalg.solve(matrix, c - a)
    return bool(((share > 0) & (share < 1)).all())


class TestSource:
    def test_file_that_does_not_read_stops_everything(self, sweeps: Clouds, tmp_path: Path) -> None:
        source = Regions(sweeps, written(tmp_path, toml([[0, 0], [1, 1]])))
        with pytest.raises(InputError, match=r"^road\.toml, polygon 1, outer ring: 2 different points") as refused:
            source.keys()
        assert not isinstance(refused.value, UnreadableCase)

    @pytest.mark.parametrize(("name", "why"), [("no.toml", "no such file"), ("a.txt", "must be a .toml")])
    def test_files_that_are_none(self, sweeps: Clouds, tmp_path: Path, name: str, why: str) -> None:
        with pytest.raises(InputError, match=why):
            Regions(sweeps, tmp_path / name).keys()

    def test_a_link_out_of_the_folder_is_refused(self, sweeps: Clouds, tmp_path: Path) -> None:
        (tmp_path / "inner").mkdir()
        (tmp_path / "inner/road.toml").symlink_to(written(tmp_path, toml(SQUARE), "secret.toml"))
        with pytest.raises(InputError, match="a link that leads outside"):
            Regions(sweeps, tmp_path / "inner/road.toml").keys()

    def test_cases_without_a_cloud_are_left_out(self) -> None:
        source = Regions(FakeSource(count=1), ahead=5, left=2)
        with pytest.raises(UnreadableCase, match=r"a region needs a point cloud; the inputs are camera"):
            source[source.keys()[0]]

    def test_windows_of_sweeps_have_one_too(self, sweeps: Clouds) -> None:
        source = Regions(Windows(sweeps, 2), ahead=5, left=2)
        key = source.keys()[0]
        assert isinstance(source[key].inputs["region"], Region)
        assert source.holds(key) == ("0.npy", "1.npy")

    def test_fingerprint_follows_region_and_source(self, sweeps: Clouds, tmp_path: Path) -> None:
        path = written(tmp_path, toml(SQUARE))
        before = Regions(sweeps, path).fingerprint()
        assert before == Regions(sweeps, path).fingerprint()
        written(tmp_path, toml(HOLE))
        assert Regions(sweeps, path).fingerprint() != before
        assert Regions(sweeps, ahead=5, left=2).fingerprint() != Regions(sweeps, ahead=5, right=2).fingerprint()
        np.save(sweeps.folder / "9.npy", np.ones((4, 4), np.float32))
        assert Regions(Clouds(sweeps.folder), path).fingerprint() != before

    def test_built_from_a_campaign_file(self, sweeps: Clouds, tmp_path: Path) -> None:
        written(tmp_path, toml(SQUARE))
        inner = {"use": "clouds", "folder": "sweeps"}
        use = "swerve.sources.regions:Regions"
        made = Builder("t:", tmp_path).component({"use": use, "region": "road.toml", "source": inner})
        assert made == Regions(sweeps, tmp_path / "road.toml")
        corridor = Builder("t:", tmp_path).component({"use": use, "ahead": 50, "left": 4, "right": 4.5, "source": inner})
        assert corridor == Regions(sweeps, ahead=50.0, left=4.0, right=4.5)
        with pytest.raises(SpecError, match="expected a number"):
            Builder("t:", tmp_path).component({"use": use, "ahead": "far", "source": inner})


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _sweeps(self, sweeps: Clouds) -> None:
        self.sweeps = sweeps

    def source(self) -> Source:
        return Regions(self.sweeps, ahead=30, behind=5, left=4, right=4)
