"""A real Chromium without a window, and the pages it opens."""

import shutil

import numpy as np
import pandas as pd
import pytest
from sessions import HANG_S
from tierscope.analysis.breakdown import select_epoch, select_scenario
from tierscope.analysis.whatif import estimate, improvement_grid, make_goal
from tierscope.core import columns
from tierscope.core.columns import CLASS_TIMES, CLASSES, IMPROVEMENTS, INTERVAL
from tierscope.core.provenance import Origin
from tierscope.core.tables import check_table
from tierscope.pages.explorer.page import build_explorer
from tierscope.pages.explorer.subjects import Sweep

SCENARIO = {"policy": "pinning", "loader": "tensorflow"}
START = {
    "scenario": {"dataset": "small", "n_osts": 60},
    "epoch": 1,
    "pair": ("gfs_meta", "lfs_read"),
    "max_improvement_percent": 200,
    "step_percent": 10,
    "cost_per_percent": {"gfs_read": 1, "gfs_meta": 2, "lfs_read": 3, "lfs_meta": 4},
}


class Explorer:
    """A page that a browser has opened."""

    def __init__(self, browser):
        self.browser = browser

    def set(self, **changes):
        """Set inputs as a reader does, and draw."""
        self.browser.execute_script("explorer.set(arguments[0])", changes)

    def state(self, name):
        """Return what an input is set to."""
        return self.browser.execute_script("return explorer.state[arguments[0]]", name)

    def answer(self, name):
        """Return something that the page has computed."""
        return self.browser.execute_script("return explorer.answer[arguments[0]]", name)

    def table(self, name, columns):
        """Return some columns of a table that the page has computed."""
        rows = pd.json_normalize(self.answer(name))
        return rows.reindex(columns=list(columns))

    def text(self, name):
        """Return a text of the page."""
        return self.browser.execute_script(
            "return document.getElementById(arguments[0]).textContent", name
        )

    def input(self, name):
        """Return a slider or list."""
        return self.browser.find_element("css selector", f"aside [name={name}]")

    def complaints(self):
        """Return what the browser's console says, apart from hints."""
        entries = self.browser.get_log("browser")
        return [entry for entry in entries if entry["level"] in ("WARNING", "SEVERE")]


@pytest.fixture(scope="session")
def browser():
    """Return Chromium, cut off from every network."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if not all(programs):
        pytest.skip("needs Debian's chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (
        "--headless=new",
        "--no-sandbox",  # refuses to run as root otherwise
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--window-size=1280,900",
    ):
        options.add_argument(argument)
    service = webdriver.ChromeService(programs[1])
    browser = webdriver.Chrome(options=options, service=service)
    browser.set_script_timeout(HANG_S)
    yield browser
    browser.quit()


def io_time_table(scenarios, rates, times_of, n_epochs, n_repetitions=1, **keys):
    """Return an I/O time table; `times_of` gives shape (n_processes, 4) for a run."""
    parts = []
    for dataset, n_osts in scenarios:
        for rate in rates:
            for epoch, repetition in np.ndindex(n_epochs, n_repetitions):
                times_s = times_of(dataset, n_osts, rate)
                part = pd.DataFrame({"time_s": times_s.ravel()}).assign(
                    rank=np.arange(len(times_s)).repeat(len(CLASSES)),
                    io_class=np.tile(CLASSES, len(times_s)),
                    dataset=dataset,
                    n_osts=n_osts,
                    cache_rate_percent=rate,
                    epoch=epoch,
                    repetition=repetition,
                )
                parts.append(part)
    io_time = pd.concat(parts, ignore_index=True)
    return check_table(
        io_time.assign(**SCENARIO, **keys, operations=1, bytes=0), "io_time"
    )


@pytest.fixture(scope="session")
def io_time():
    """Return two repetitions of 40 processes, whose times depend on the cache rate."""
    rng = np.random.default_rng(1)

    def times_of(dataset, n_osts, rate):
        mean_s = np.array([3 / n_osts, 1.0, 0, 0]) * (1 - rate / 100)
        mean_s = mean_s + np.array([0, 0, 0.8, 0.1]) * rate / 100
        return mean_s * rng.lognormal(0, 0.3, (40, 4))

    scenarios = [("small", 60), ("small", 1)]
    rates = [0, 20, 40, 60, 65, 80, 100]
    keys = {"source": "emulated", "system": "scale-model"}
    io_time = io_time_table(scenarios, rates, times_of, 2, 2, **keys)
    # As if one repetition of a point had been left out.
    left_out = (io_time["cache_rate_percent"] == 80) & (io_time["repetition"] == 1)
    return io_time[~left_out].reset_index(drop=True)


@pytest.fixture(scope="session")
def paper_size_io_time():
    """Return 3072 processes, 21 cache rates, 2 epochs and 4 scenarios, simulated.

    Each process's files on the LFS are hypergeometric; the metadata server or the LFS
    keeps the processes waiting, whichever has more to do.
    """
    rng = np.random.default_rng(1)
    n_processes = 3072

    def times_of(dataset, n_osts, rate):
        n_files = 192 if dataset == "small" else 2
        n_lfs = n_processes * n_files * rate // 100
        hits = rng.multivariate_hypergeometric([n_files] * n_processes, n_lfs)
        counts = np.stack([n_files - hits, n_files - hits, hits, hits], axis=1)
        busy_s = np.array([0.4 if n_osts == 60 else 45, 19.5, 11.6, 0.1])
        busy_s = busy_s * [1 - rate / 100, 1 - rate / 100, rate / 100, rate / 100]
        waits = busy_s**4 / (busy_s**4).sum()
        per_file_s = (0.1 + waits) * busy_s / np.maximum(counts.mean(axis=0), 1e-9)
        spread = rng.lognormal(0, 0.3 / np.sqrt(n_files), counts.shape)
        return counts * per_file_s * spread

    scenarios = [("small", 60), ("small", 1), ("large", 60), ("large", 1)]
    keys = {"source": "simulated", "system": "fugaku"}
    return io_time_table(scenarios, range(0, 101, 5), times_of, 2, **keys)


def estimates_by_model(io_time):
    """Return made-up estimates for the map of the scenario and epoch shown first.

    They are those of the rule times a factor that differs from cell to cell and from
    cache rate to cache rate, 1 where nothing is improved.
    """
    shown = select_epoch(select_scenario(io_time, START["scenario"]), START["epoch"])
    estimates = estimate(shown, improvement_grid(START["pair"], 200, 10), [1])
    phase = estimates[IMPROVEMENTS] @ np.array([0, 0.05, 0.03, 0])
    factor = 1 + 0.2 * np.sin(phase) * (1 + estimates["cache_rate_percent"] / 100)
    for column in ("io_time_s", *CLASS_TIMES):
        estimates[column] *= factor
    return estimates.assign(method="model", slowest_rank=-1)


def write_page(
    io_time,
    path,
    estimates=None,
    titles=None,
    provenance="made up",
    goal=None,
    subject=Sweep,
    **changes,
):
    """Write the explorer of a table, with estimates by the model if there are any."""
    start = START | changes
    shown = select_epoch(select_scenario(io_time, start["scenario"]), start["epoch"])
    about = subject(
        io_time=io_time,
        goal=goal or make_goal(shown, percent_of_best=60),
        origin=Origin(provenance),
        estimates=estimates,
        pairs=[] if estimates is None else [START["pair"]],
        model="made up",
        **start,
    )
    titles = titles or {"small": "128 KiB files", "large": "12 MiB files"}
    html = build_explorer(about, "What-if explorer: test", dataset_titles=titles)
    path.write_text(html)
    return path


def stalls_at(io_time, rate, parts_s):
    """Return table `class_stalls` of a cache rate; the scenario is the first."""
    keys = select_scenario(io_time, START["scenario"])[columns.SCENARIO].iloc[0]
    rows = {"part": [*CLASSES, columns.TOGETHER], "stall_s": parts_s}
    times = {"execution_time_s": 20.0, "first_wait_s": 0.0}
    point = {"cache_rate_percent": rate, "epoch": START["epoch"]}
    return pd.DataFrame(rows).assign(**keys, **point, **times)


@pytest.fixture(scope="session")
def page(io_time, tmp_path_factory):
    return write_page(io_time, tmp_path_factory.mktemp("explorer") / "explorer.html")


@pytest.fixture(scope="session")
def paper_size_page(paper_size_io_time, tmp_path_factory):
    path = tmp_path_factory.mktemp("paper-size") / "explorer.html"
    return write_page(paper_size_io_time, path, estimates_by_model(paper_size_io_time))


def open_page(browser, path):
    """Open a page afresh; its scripts draw it before it is loaded."""
    browser.get(path.as_uri())
    return Explorer(browser)


@pytest.fixture
def explorer(browser, page):
    return open_page(browser, page)


@pytest.fixture(scope="session")
def by_model(io_time):
    """Return estimates whose intervals, with an improvement, are 5 % to both sides."""
    estimates = estimates_by_model(io_time)
    factor = np.where((estimates[IMPROVEMENTS] > 0).any(axis=1), 1.05, 1.0)
    ends = [estimates["io_time_s"] / factor, estimates["io_time_s"] * factor]
    return estimates.assign(**dict(zip(INTERVAL, ends, strict=True)))


@pytest.fixture(scope="session")
def page_by_both(io_time, by_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("both") / "explorer.html"
    return write_page(io_time, path, by_model)


@pytest.fixture
def explorer_by_both(browser, page_by_both):
    return open_page(browser, page_by_both)


@pytest.fixture
def paper_size_explorer(browser, paper_size_page):
    return open_page(browser, paper_size_page)


@pytest.fixture
def explorer_with(browser, io_time, tmp_path):
    """Return a function that opens a page that starts in another way."""

    def open_with(**changes):
        page = write_page(io_time, tmp_path / "explorer.html", **changes)
        return open_page(browser, page)

    return open_with
