"""The criteria on numbers written by hand."""

import tracemalloc
import warnings

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.system import Activations, Traced
from swerve.core.values import Array
from swerve.coverage.bits import Bits
from swerve.coverage.criterion import Coverage, Criterion, start
from swerve.coverage.layers import (
    COUNTINGS,
    DEEPTEST_2018,
    DEFAULT,
    Counting,
    CoverageWarning,
    Layer,
    Layout,
    Spanned,
    layout_of,
)
from swerve.coverage.neuron import NC, TopK
from swerve.coverage.profile import Profile, Ranges
from swerve.coverage.profiled import KMNC, NBC, SNAC
from swerve.testing import FakeSource, FakeSystem


def layer(*rows, kind: str = "dense", passes: int = 1) -> Activations:
    mean = np.array(rows, np.float32)
    axes = tuple(range(1, mean.ndim))
    return Activations(kind, mean, mean.min(axis=axes), mean.max(axis=axes), passes)


def traced(*rows, **more: Activations) -> Traced:
    return Traced([], {"dense": layer(*rows)} | more)


def dense(neurons: int) -> Layout:
    return Layout(DEFAULT, (Layer("dense", "dense", neurons),))


def profile(low, high) -> Profile:
    ranges = Ranges(np.array(low, float), np.array(high, float))
    return Profile(dense(len(low)), ranges, 1, "system", "source")


def empty(criterion: Criterion, neurons: int = 3, known: Profile | None = None) -> Coverage:
    return start(criterion, known.layout if known else dense(neurons), known)


def test_threshold_is_strict() -> None:
    assert empty(NC(0.25)).touched(traced([0, 1, 4])).numbers() == [2]
    assert empty(NC(0.2)).touched(traced([0, 1, 5])).numbers() == [2]
    assert empty(NC()).touched(traced([0, 1.01, 5])).numbers() == [1, 2]


def test_scaling_is_per_input() -> None:
    assert empty(NC()).touched(traced([0, 1, 10], [-50, 0, -50])).numbers() == [1, 2]


def test_constant_layer_activates_nothing() -> None:
    assert not empty(NC(0)).touched(traced([0.1, 0.1, 0.1], [0, 0, 0]))


def test_span_of_maps_decides() -> None:
    # Means 1 and 3 of maps whose numbers run from 0 to 10: scaled 0.1 and 0.3.
    maps = Activations("convolution", np.float32([[1, 3]]), np.float32([0]), np.float32([10]))
    assert empty(NC(), 2).touched(Traced([], {"dense": maps})).numbers() == [1]


def test_huge_spans_stay_finite() -> None:
    assert empty(NC()).touched(traced([-3e38, 0, 3e38])).numbers() == [1, 2]
    huge = np.array([[-1.7e308, 1.7e308]])
    batch = Traced([], {"dense": Activations("dense", huge, huge.min(axis=1), huge.max(axis=1))})
    assert empty(NBC(), known=profile([-1, -1], [1, 1])).touched(batch).numbers() == [0, 3]


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8])
def test_integers_are_scaled_too(dtype) -> None:
    def whole(*rows) -> Traced:
        values = np.array(rows, dtype)
        return Traced([], {"dense": Activations("dense", values, values.min(axis=1), values.max(axis=1))})

    assert not empty(NC()).touched(whole([4, 4, 4]))
    assert empty(NC()).touched(whole([0, 1, 4])).numbers() == [1, 2]
    assert empty(NC()).touched(whole([0, 20, 101])).numbers() == [2]  # 20 is not above 20.2
    assert empty(TopK(1)).touched(whole([0, 1, 4])).numbers() == [2]
    assert empty(NBC(), known=profile([1, 0, 0], [9, 9, 3])).touched(whole([0, 1, 4])).numbers() == [0, 5]


def test_later_rows_activate_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # Once few neurons are left only those are looked at; here every row brings one of the last.
    monkeypatch.setattr("swerve.coverage.neuron.CACHED", 1)
    rows = np.zeros((20, 20), np.float32)
    rows[0, 2:], rows[10, 1] = 1, 1
    assert empty(NC(), 20).touched(traced(*rows)).numbers() == list(range(1, 20))


def test_top_neurons_are_kept() -> None:
    assert empty(TopK(1)).touched(traced([3, 2, 1], [1, 0, 5])).numbers() == [0, 2]
    assert empty(TopK(2)).touched(traced([1, 1, 1])).numbers() == [0, 1]
    assert empty(TopK(9)).touched(traced([1, 2, 3])).numbers() == [0, 1, 2]


def test_bounds_themselves_are_inside() -> None:
    known = profile([0, 0, 0], [1, 1, 1])
    batch = traced([0, 1, 0.5], [-0.5, 1.5, 1])
    assert empty(NBC(), known=known).touched(batch).numbers() == [0, 3]  # below for the first, above for the second
    assert empty(SNAC(), known=known).touched(batch).numbers() == [1]


# With 0 and 1000 in the layer its span is 1000, and the slack a millionth of that.
WIDE = profile([0, 0, -5], [1000, 1000, 5])


@pytest.mark.parametrize("nudge", [0.0, 0.0005, 0.00095])
def test_rounding_is_no_corner(nudge: float) -> None:
    batch = traced([0, 1000, 5 + nudge], [0, 1000, -5 - nudge])
    assert not empty(NBC(), known=WIDE).touched(batch)
    assert not empty(SNAC(), known=WIDE).touched(batch)
    assert empty(KMNC(10), known=WIDE).touched(batch).numbers() == [0, 19, 20, 29]


@pytest.mark.parametrize("nudge", [0.00106, 0.1, 100.0])
def test_beyond_rounding_is_a_corner(nudge: float) -> None:
    batch = traced([0, 1000, 5 + nudge], [0, 1000, -5 - nudge])
    assert empty(NBC(), known=WIDE).touched(batch).numbers() == [4, 5]
    assert empty(SNAC(), known=WIDE).touched(batch).numbers() == [2]
    assert empty(KMNC(10), known=WIDE).touched(batch).numbers() == [0, 19]


def test_slack_is_of_the_own_row() -> None:
    # 5.0005 is rounding next to 1000 and a corner next to 5, whichever row is the larger or the first.
    wide, narrow, coverage = [0, 1000, 5.0005], [0, 5, 5.0004], empty(NBC(), known=WIDE)
    assert not coverage.touched(traced(wide))
    for rows in ([narrow], [wide, narrow], [narrow, wide]):
        assert coverage.touched(traced(*rows)).numbers() == [5]


def test_slack_reaches_to_zero() -> None:
    # All outputs between 1000 and 1001: in single precision the next number after 1000 is already 6e-5 away.
    known = profile([1000, 1000], [1001, 1001])
    assert not empty(NBC(), known=known).touched(traced([1000, np.nextafter(np.float32(1001), np.float32(2000))]))
    assert empty(NBC(), known=known).touched(traced([1000, 1001.01])).numbers() == [3]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sections", [7, 10, 1000])
def test_ends_are_never_lost(dtype, sections: int) -> None:
    rng = np.random.default_rng(4)
    one, other = rng.normal(size=2_000) * 10 ** rng.uniform(-12, 0, 2_000), rng.normal(size=2_000)
    low, high = np.minimum(one, other).astype(dtype), np.maximum(one, other).astype(dtype)
    coverage = empty(KMNC(sections), known=profile(low, high))
    for values, section in ((high, sections - 1), (low, 0)):
        batch = Traced([], {"dense": Activations("dense", values[None], values[None].min(axis=1), values[None].max(axis=1))})
        found = coverage.touched(batch).flags().reshape(-1, sections)
        assert found[:, section].all()
        assert found.sum() == len(values)


@pytest.mark.parametrize(("value", "section"), [(-0.5, []), (0, [0]), (0.0005, [0]), (1.0, [999]), (1.5, [])])
def test_sections_match_golden_values(value: float, section: list[int]) -> None:
    assert empty(KMNC(1000), known=profile([0], [1])).touched(traced([value])).numbers() == section


@pytest.mark.parametrize("sections", [3, 7, 10, 1000])
def test_edges_open_their_section(sections: int) -> None:
    edges = np.arange(sections + 1, dtype=np.float32)  # low 0, high `sections`: every edge is exact
    known = profile([0] * (sections + 1), [sections] * (sections + 1))
    found = empty(KMNC(sections), known=known).touched(traced(edges)).flags().reshape(-1, sections)
    np.testing.assert_array_equal(found.argmax(axis=1), [*range(sections), sections - 1])
    assert (found.sum(axis=1) == 1).all()


def test_constant_neurons_are_excluded() -> None:
    coverage = empty(KMNC(10), known=profile([0, 5, 0], [1, 5, 1])).record(traced([0.5, 5, 0.5]))
    assert (coverage.covered, coverage.total) == (2, 20)
    assert coverage.excluded() == [("dense", 1)]
    assert empty(NBC(), known=profile([5], [5])).total == 2


def test_wild_values_cover_nothing() -> None:
    known = profile([0, 0], [1e-30, 1])
    assert not empty(KMNC(), known=known).touched(traced([3e38, -3e38]))


def test_delta_records_nothing() -> None:
    coverage = empty(NC()).record(traced([0, 0, 1]))
    assert coverage.delta(traced([0, 1, 1])).numbers() == [1]
    assert coverage.bits.numbers() == [2]


def test_each_input_stands_alone() -> None:
    each = empty(NC()).each(traced([0, 0, 1], [1, 0, 1]))
    assert [found.numbers() for found in each] == [[2], [0, 2]]


def test_passes_belong_together() -> None:
    frames = layer([0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 0], passes=2)
    each = empty(NC()).each(Traced([], {"dense": frames}))
    assert [found.numbers() for found in each] == [[1, 2], [0]]


TWO = Layout(DEFAULT, (Layer("cnn.conv", "convolution", 2), Layer("cnnx", "dense", 1), Layer("lstm", "recurrent", 3)))


def test_models_are_counted_apart() -> None:
    coverage = start(NC(), TWO) | Bits.of([0, 2, 3], 6)
    assert coverage.count() == (3, 6)
    assert coverage.count("cnn.") == coverage.count("cnn") == (1, 2)
    assert coverage.count("lstm") == (1, 3)
    assert coverage.count("cnn").share == 0.5
    assert TWO.under("cnn").neurons == 2


def test_places_name_the_layer() -> None:
    assert [TWO.place_of(neuron) for neuron in (1, 2, 5)] == [("cnn.conv", 1), ("cnnx", 0), ("lstm", 2)]
    with pytest.raises(InputError, match="there is no neuron 6: the layout has 6 neurons"):
        TWO.place_of(6)


def test_unknown_models_are_refused() -> None:
    with pytest.raises(InputError, match="sub-model 'lst'; did you mean 'lstm'"):
        TWO.under("lst")
    with pytest.raises(InputError, match="sub-model 'lst'; did you mean 'lstm'"):
        start(NC(), TWO).count("lst")


def test_nothing_traced_covers_nothing() -> None:
    coverage = empty(NC())
    assert coverage.record(Traced([], {})) == coverage
    assert coverage.each(Traced([], {})) == []
    with pytest.raises(InputError, match="layer 'dense' is counted but was not traced"):
        coverage.touched(Traced([()], {}))


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("criterion", [NC(), TopK(), NBC(), SNAC(), KMNC(10)], ids=lambda criterion: criterion.short)
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_unsound_inputs_are_ignored(criterion: Criterion, bad: float) -> None:
    coverage = empty(criterion, known=profile([0, 0, 0], [2, 2, 2]))
    with pytest.warns(CoverageWarning, match="the activations of layer 'dense' are not all finite"):
        found = coverage.each(traced([0, 1, 3], [0, bad, 9]))
    assert found == [*coverage.each(traced([0, 1, 3])), Bits.none(found[0].size)]
    assert coverage.touched(traced([0, 1, 3], [0, bad, 9])) == coverage.touched(traced([0, 1, 3]))


def hidden(kind: type[Activations], bad: float, low: float, high: float) -> Traced:
    """A batch of one number that its span may or may not tell of, and a sound input."""
    values = np.float32([[0, bad, 3e38], [0, 1, 3]])
    return Traced([], {"dense": kind("dense", values, np.float32([low, 0]), np.float32([high, 3]))})


@pytest.mark.parametrize(
    "batch",
    [
        hidden(Spanned, NAN, NAN, NAN),
        hidden(Spanned, INF, 0, INF),
        hidden(Spanned, -INF, -INF, 3e38),
        hidden(Spanned, 0, 0, INF),  # of the map, not of its mean
        hidden(Spanned, INF, 0, 3e38),  # the mean of a map of such numbers overflows
        hidden(Activations, NAN, 0, 3),  # a span of unknown make is not relied on
        hidden(Activations, INF, 0, 3),
    ],
)
def test_spans_hide_nothing(batch: Traced) -> None:
    with pytest.warns(CoverageWarning, match="the activations of layer 'dense' are not all finite"):
        assert [len(found) for found in empty(TopK(2)).each(batch)] == [0, 2]


def test_one_layer_spoils_its_input() -> None:
    layout = Layout(DEFAULT, (Layer("dense", "dense", 2), Layer("more", "dense", 2)))
    batch = traced([0, 1], [1, 0], more=layer([NAN, 1], [0, 1]))
    with pytest.warns(CoverageWarning, match="layer 'more'"):
        assert start(NC(), layout).touched(batch).numbers() == [0, 3]


def test_unsound_maps_are_noticed() -> None:
    maps = Activations("convolution", np.float32([[1, 3]]), np.float32([-INF]), np.float32([10]))
    with pytest.warns(CoverageWarning):
        assert not empty(NC(), 2).touched(Traced([], {"dense": maps}))


def test_warning_comes_once() -> None:
    coverage = empty(NC())
    with pytest.warns(CoverageWarning):
        coverage = coverage.record(traced([0, NAN, 1]))
    assert coverage.record(traced([0, NAN, 1])).count() == (0, 3)  # a second warning would be an error


def test_large_finite_numbers_are_sound() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert empty(TopK(1)).touched(traced([3e38, 2e38, 2e38])).numbers() == [0]


def test_batches_may_be_long() -> None:
    rng = np.random.default_rng(3)
    rows = rng.random((60, 50_000), dtype=np.float32)  # more than is handled at a time
    coverage = empty(TopK(1), 50_000).touched(traced(*rows))
    assert coverage.numbers() == sorted(set(rows.argmax(axis=1).tolist()))


def peak_of(coverage: Coverage, inputs: int) -> int:
    batch = Traced([], {"dense": layer(*np.random.default_rng(5).random((inputs, 2_000), dtype=np.float32))})
    tracemalloc.start()
    try:
        coverage.touched(batch)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("criterion", [NC(), NBC(), KMNC(100)], ids=lambda criterion: criterion.short)
def test_memory_ignores_batch_length(criterion: Criterion) -> None:
    coverage = empty(criterion, known=profile([0.25] * 2_000, [0.75] * 2_000))
    assert peak_of(coverage, 3_000) < 1.05 * peak_of(coverage, 1_000)


def test_unlike_coverages_never_merge() -> None:
    with pytest.raises(InputError, match="of the same criterion"):
        empty(NC(0.1)) | empty(NC(0.2))
    with pytest.raises(InputError, match="of the same profile"):
        empty(NBC(), known=profile([0], [1])) | empty(NBC(), known=profile([0], [2]))


def test_profiled_criteria_need_a_profile() -> None:
    with pytest.raises(InputError, match="KMNC needs a profile of the activations: pass the result of measure"):
        start(KMNC(), dense(3))
    with pytest.raises(InputError, match="NBC: the profile was measured with other layers"):
        start(NBC(), dense(3), profile([0], [1]))


def test_layers_must_be_traced() -> None:
    with pytest.raises(InputError, match="layer 'lstm' is counted but was not traced"):
        start(NC(), Layout(DEFAULT, (Layer("lstm", "recurrent", 3),))).touched(traced([1, 2, 3]))


def test_steps_must_stay_equal() -> None:
    with pytest.raises(InputError, match="has 2 neurons instead of 3"):
        empty(NC()).touched(traced([1, 2]))


def test_layers_share_their_inputs() -> None:
    layout = Layout(DEFAULT, (Layer("dense", "dense", 2), Layer("more", "dense", 2)))
    with pytest.raises(InputError, match="same number of inputs, got dense 1, more 2"):
        start(NC(), layout).touched(traced([0, 1], more=layer([0, 1], [0, 1])))


@pytest.mark.parametrize("make", [lambda: NC(1), lambda: NC(-0.1), lambda: NC(NAN), lambda: TopK(0), lambda: KMNC(0)])
def test_senseless_numbers_are_refused(make) -> None:
    with pytest.raises(InputError, match="must be"):
        make()


def test_black_boxes_are_refused() -> None:
    source = FakeSource()
    with pytest.raises(InputError, match="coverage needs activations, but FakeSystem is a black box: use a system with"):
        layout_of(FakeSystem(), source[source.keys()[0]])


class Glass(FakeSystem):
    """A white box with the layers it is given."""

    def __init__(self, **parts: Activations) -> None:
        super().__init__()
        object.__setattr__(self, "parts", parts)

    def layers(self) -> list[str]:
        return list(self.parts)

    def trace(self, cases, layers) -> Traced:
        object.__setattr__(self, "asked", list(layers))
        return Traced(self(cases), {name: part for name, part in self.parts.items() if name in layers and part.mean.size})


def ones(kind: str, *shape: int) -> Activations:
    return Activations(kind, np.ones((1, *shape), np.float32), np.zeros(1), np.ones(1))


CASE = Case("one", FakeSource()["fake-00000"].inputs)


def epoch() -> Glass:
    """The layer list behind DeepTest's count for Epoch (D-5)."""
    blocks = {
        f"{what}{width}": ones(kind, width)
        for width in (32, 64, 128)
        for what, kind in (("conv", "convolution"), ("drop", "dropout"))
    }
    ends = {"dense": ones("dense", 1024), "drop": ones("dropout", 1024), "out": ones("dense", 1)}
    return Glass(**{"(input)": ones("input", 3)}, **blocks, **ends)


def test_epoch_counts_are_reproduced() -> None:
    assert layout_of(epoch(), CASE, counting=DEEPTEST_2018).neurons == 2500
    assert layout_of(epoch(), CASE).neurons == 1248
    assert layout_of(epoch(), CASE, counting=Counting("with output", scalars=True)).neurons == 1249


def test_chauffeur_counts_are_reproduced() -> None:
    chauffeur = Glass(lstm=ones("recurrent", 100, 256), dense=ones("dense", 256), out=ones("dense", 1))
    assert layout_of(chauffeur, CASE, counting=DEEPTEST_2018).neurons == 513
    assert layout_of(chauffeur, CASE, counting=Counting("with output", scalars=True)).neurons == 25_857
    assert layout_of(chauffeur, CASE).neurons == 25_856


def test_mean_over_time_counts() -> None:
    steps: Array = np.float32([[[0, 1], [0, 3], [9, 2]]])  # three steps of two units: means 3 and 2 in a span of 0 to 9
    recurrent = Traced([], {"lstm": Activations("recurrent", steps, np.float32([0]), np.float32([9]))})
    averaged = Layout(DEEPTEST_2018, (Layer("lstm", "recurrent", 2),))
    assert start(NC(0.3), averaged).touched(recurrent).numbers() == [0]
    unrolled = Layout(DEFAULT, (Layer("lstm", "recurrent", 6),))
    assert start(NC(0.3), unrolled).touched(recurrent).numbers() == [3, 4]


def test_nothing_to_count_is_said() -> None:
    with pytest.raises(InputError, match=r"counting 'default' \(convolution, dense, recurrent\) counts no layer of Glass"):
        layout_of(Glass(out=ones("dense", 1)), CASE)


IDLE = ones("dense", 0)  # takes no part in the forward pass


def test_idle_layers_are_left_out() -> None:
    net = Glass(conv=ones("convolution", 4), aux=IDLE, head=ones("dense", 3), spare=IDLE)
    with pytest.warns(CoverageWarning, match="2 of 4 layers did not run in the forward pass of one; .* excludes aux, spare"):
        layout = layout_of(net, CASE)
    assert layout.names == ("conv", "head")


def test_only_the_sub_model_is_traced() -> None:
    net = Glass(**{"cnn.conv": ones("convolution", 4), "aux": IDLE, "cnn.out": ones("dense", 1)})
    assert layout_of(net, CASE, under="cnn").names == ("cnn.conv",)  # the idle layer outside is no warning
    assert net.asked == ["cnn.conv", "cnn.out"]
    with pytest.raises(InputError, match="unknown sub-model 'cn'; did you mean 'cnn'"):
        layout_of(net, CASE, under="cn")
    with pytest.raises(InputError, match=r"counting 'default' .* counts no layer of Glass in cnn\.out"):
        layout_of(net, CASE, under="cnn.out")


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(InputError, match="unknown kind of layer 'conv'"):
        Counting("mine", kinds=("conv",))


def test_countings_have_names() -> None:
    assert COUNTINGS == {"default": DEFAULT, "deeptest-2018": DEEPTEST_2018}
    assert layout_of(epoch(), CASE).fingerprint() != layout_of(epoch(), CASE, counting=DEEPTEST_2018).fingerprint()
