"""Parts that all figures share."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from tierscope.figures.style import draw_mean, styled

HALF_S = 4.30265 / np.sqrt(3)  # of an interval of 9, 10 and 11: Student's t, sd 1


@pytest.fixture
def drawn():
    """Return a function: it draws times by cache rate, and returns the axes."""

    @styled
    def draw(**times_s):
        rows = [(int(rate), t) for rate, some in times_s.items() for t in some]
        ax = Figure().subplots()
        points = pd.DataFrame(rows, columns=["cache_rate_percent", "time_s"])
        draw_mean(ax, points, "time_s", color="#444444", marker="o")
        return ax

    return draw


def test_mean_is_a_line_in_the_order_of_the_cache_rates(drawn):
    (line,) = drawn(**{"50": [9, 11], "0": [20, 30], "100": [5]}).lines
    assert list(line.get_xdata()) == [0, 50, 100]
    assert list(line.get_ydata()) == [25, 10, 5]
    assert line.get_color() == "#444444"


def test_band_is_the_interval_of_the_mean(drawn):
    (band,) = drawn(**{"0": [9, 10, 11], "50": [19, 20, 21]}).collections
    (path,) = band.get_paths()
    ends_s = {round(y, 4) for y in path.vertices[:, 1]}
    assert ends_s == {round(m + s * HALF_S, 4) for m in (10, 20) for s in (-1, 1)}


def test_interval_at_a_single_cache_rate_is_a_bar(drawn):
    ax = drawn(**{"50": [9, 10, 11]})
    (bar,) = ax.containers
    ((low, high),) = (
        path.vertices[:, 1] for stems in bar[2] for path in stems.get_paths()
    )
    assert (low, high) == pytest.approx((10 - HALF_S, 10 + HALF_S), rel=1e-5)


def test_single_repetitions_have_no_interval(drawn):
    (band,) = drawn(**{"0": [10], "50": [20]}).collections
    assert not any(len(path.vertices) for path in band.get_paths())
