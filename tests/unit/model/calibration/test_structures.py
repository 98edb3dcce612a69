"""Which structure of a GFS a calibration takes, and what it says of the others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from calibrate_devices import devices_text
from snakemake.utils import update_config
from tierscope.core.columns import POINT
from tierscope.core.description import ProbeDescription
from tierscope.core.scenario import Point, Scenario
from tierscope.core.validation import check, read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.model.calibration import structures
from tierscope.model.calibration.fit import calibrated
from tierscope.model.calibration.probe_times import probe_times
from tierscope.model.calibration.result import (
    BOUND,
    FITTED,
    FURTHER_PARAMETERS,
    JOINED,
    KEPT,
    LIMIT_PARAMETERS,
    PARAMETERS,
    Calibration,
    Finding,
)
from tierscope.model.calibration.starting_values import starting_values, with_values
from tierscope.model.calibration.structures import (
    NOT_TRIED,
    fit_structure,
    with_observed_servers,
    without_structures,
)
from tierscope.storage.queueing_network import ModelError

ROOT = Path(__file__).parents[4]
N_FILES = 240
RUNS = pd.DataFrame(
    [(rate, repetition) for rate in (0, 50, 100) for repetition in range(3)],
    columns=POINT,
)
PROBES = pd.DataFrame({"n_osts": 4, "probe": [f"probe {i}" for i in range(12)]})


@pytest.fixture(scope="module")
def description():
    config = read_yaml(ROOT / "config" / "config.yaml")
    update_config(config, read_yaml(ROOT / "config" / "realfs.yaml"))
    experiment = read_experiment(config, ROOT / "resources")
    scenario = Scenario("small", 4, "pinning", "tensorflow")
    return experiment.model_description(scenario)


@pytest.fixture(scope="module")
def emulated():
    config = read_yaml(ROOT / "config" / "config.yaml")
    experiment = read_experiment(config, ROOT / "resources")
    scenario = Scenario("small", 60, "pinning", "tensorflow")
    return experiment.model_description(scenario)


def manifest(osts):
    """Return a manifest whose rows are not in the order of the files."""
    table = pd.DataFrame({"file_id": np.arange(len(osts)), "ost": osts})
    return table.iloc[::-1]


def placed(description, placement):
    gfs = {**description.system.devices["gfs"], "placement": placement}
    devices = {**description.system.devices, "gfs": gfs}
    return replace(description, system=replace(description.system, devices=devices))


class TestServers:
    def test_observed_ones_are_numbered_from_0(self, description):
        found = with_observed_servers(description, manifest([3, 1, 7, 3]))
        assert found.servers.tolist() == [1, 0, 2, 1]
        assert found == description  # they are no setting
        assert ProbeDescription.of(found).servers is found.servers

    def test_one_file_that_is_not_known_leaves_the_plain_structure(self, description):
        assert with_observed_servers(description, manifest([3, 1, -1])).servers is None

    def test_that_files_lie_in_turn_goes_before_them(self, description):
        stated = placed(description, "modulo")
        assert with_observed_servers(stated, manifest([3, 1])).servers is None

    def test_they_go_before_random_ones(self, description):
        stated = placed(description, "random")
        found = with_observed_servers(stated, manifest([3, 1]))
        assert found.servers.tolist() == [1, 0]

    def test_emulated_ones_are_as_modelled(self, emulated):
        assert with_observed_servers(emulated, manifest([0, 0])).servers is None

    def test_more_than_the_scenario_has_are_refused(self, description):
        words = "manifest of small: got files on 5 OSTs, expected 4 at most"
        with pytest.raises(ModelError, match=words):
            with_observed_servers(description, manifest([0, 1, 2, 3, 4]))

    def test_without_structures_devices_say_that_files_lie_in_turn(self, description):
        observed = with_observed_servers(description, manifest([0, 1, 1, 0]))
        plain = without_structures(observed)
        assert plain.servers is None
        assert plain.system.devices["gfs"]["placement"] == "modulo"
        assert with_observed_servers(plain, manifest([0, 1])).servers is None
        assert without_structures(description) is description


def calibration(description, squares, status=FITTED, of_gfs=FITTED):
    """Return a fit of 100 terms with a sum of squares."""
    known = PARAMETERS | FURTHER_PARAMETERS
    names = ["gfs.open_s", "gfs.request_s"]
    if "limit_bytes_per_s" in description.system.devices["gfs"]:
        names += LIMIT_PARAMETERS
    return Calibration(
        description,
        tuple(known[name] for name in names),
        np.ones(len(names)),
        np.full(len(names), 0.01),
        n_observations=100,
        rms_percent=100 * np.sqrt(squares / 100),
        findings=tuple(
            Finding(status if name in LIMIT_PARAMETERS else of_gfs) for name in names
        ),
    )


def structure_of(description):
    gfs = description.system.devices["gfs"]
    words = ["observed"] if description.servers is not None else []
    words += [gfs["placement"]] if "placement" in gfs else []
    return " ".join([*words, *["limit"] * ("limit_bytes_per_s" in gfs)])


@pytest.fixture
def fits(monkeypatch):
    """Return the sums of squares by structure that fits find, and those asked for."""
    squares, asked, status = {}, [], {"limit": FITTED, "gfs": FITTED}

    def fit(description, io_time, probes, start=None, say=None):
        asked.append(structure_of(description))
        of_all = squares[asked[-1]], status["limit"], status["gfs"]
        return calibration(description, *of_all)

    def left(structure, found, io_time, probes, say):
        assert status["gfs"] == FITTED or structure.parameters
        return squares[structure_of(structure.make(found.description))], {}

    monkeypatch.setattr(structures, "fit_what_data_tell", fit)
    monkeypatch.setattr(structures, "_left", left)
    return squares, asked, status


class TestChoice:
    """100 terms of 21 runs and probes; two parameters are fitted without structures.

    A limit must divide the sum of squares by 1 + 2 / 17 * 6.11 = 1.72, random places by
    1 + 8.29 / 18 = 1.46: the F distribution at a level of 1 %.
    """

    def test_nothing_is_tried_where_the_fit_is_as_good_as_the_data(
        self, fits, description
    ):
        squares, asked, _ = fits
        squares[""] = 100 * 0.0095**2
        found = fit_structure(description, RUNS, PROBES)
        assert asked == [""]
        assert found.left_out == dict.fromkeys(LIMIT_PARAMETERS, NOT_TRIED)
        assert f"Files at random servers: {NOT_TRIED}." in found.note

    def test_emulated_devices_are_not_tried(self, fits, emulated):
        squares, _, _ = fits
        squares[""] = 1.0
        found = fit_structure(emulated, RUNS, PROBES)
        assert not found.left_out
        assert found.note == ""

    def test_little_gain_is_chance(self, fits, description):
        squares, asked, _ = fits
        squares |= {"": 0.04, "random": 0.04 / 1.45, "limit": 0.04 / 1.71}
        found = fit_structure(description, RUNS, PROBES)
        assert asked == [""]
        squares["limit"] = 0.04 / 1.73
        squares["random limit"] = squares["limit"]
        taken = fit_structure(description, RUNS, PROBES)
        assert structure_of(taken.description) == "limit"
        assert "do not tell" in found.left_out["gfs.limit_bytes_per_s"]
        assert "Files at random servers: these data do not tell" in found.note

    def test_large_gain_is_told_and_the_other_structure_tried_on_top(
        self, fits, description
    ):
        squares, asked, _ = fits
        squares |= {"": 0.2, "random": 0.1, "limit": 0.05, "random limit": 0.049}
        found = fit_structure(description, RUNS, PROBES)
        assert asked == ["", "limit"]
        assert structure_of(found.description) == "limit"
        assert not found.left_out
        squares["random limit"] = 0.02
        found = fit_structure(description, RUNS, PROBES)
        assert structure_of(found.description) == "random limit"
        assert found.note == structures._AT_RANDOM.words

    def test_limit_that_the_data_do_not_determine_is_left_out(self, fits, description):
        squares, _, status = fits
        squares |= {"": 0.2, "random": 0.2, "limit": 0.05, "random limit": 0.05}
        status["limit"] = JOINED
        found = fit_structure(description, RUNS, PROBES)
        assert structure_of(found.description) == "limit"
        status["limit"] = BOUND
        found = fit_structure(description, RUNS, PROBES)
        assert structure_of(found.description) == ""
        assert "do not determine" in found.left_out["gfs.limit_bytes_per_s"]

    @pytest.mark.parametrize("osts", [None, [0, 1, 1, 0]])
    def test_places_are_not_tried_where_the_data_tell_nothing_of_the_gfs(
        self, fits, description, osts
    ):
        squares, asked, status = fits
        status["gfs"] = KEPT
        if osts:
            description = with_observed_servers(description, manifest(osts))
        squares[structure_of(description)] = 0.2
        squares[structure_of(structures._limited(description))] = 0.2
        found = fit_structure(description, RUNS, PROBES)
        assert len(asked) == 1
        assert found.description is description
        assert ("Files at random servers: these data do" in found.note) == (not osts)

    def test_observed_servers_hold_unless_files_in_turn_fit_clearly_better(
        self, fits, description
    ):
        squares, _, _ = fits
        observed = with_observed_servers(description, manifest([0, 1, 1, 0]))
        squares |= {"observed": 0.05, "modulo": 0.049, "observed limit": 0.05}
        found = fit_structure(observed, RUNS, PROBES)
        assert structure_of(found.description) == "observed"
        assert "Files lie on the servers on which they were observed." in found.text()
        fitted = calibrated(description, found.devices())
        assert fitted.system.devices["gfs"]["placement"] == "random"
        again = with_observed_servers(fitted, manifest([0, 1, 1, 0]))
        assert again.servers.tolist() == [0, 1, 1, 0]
        squares |= {"modulo": 0.02, "modulo limit": 0.02}
        found = fit_structure(observed, RUNS, PROBES)
        assert structure_of(found.description) == "modulo"
        assert "The data fit clearly better with file i on server i" in found.text()
        assert found.devices()["gfs"]["placement"] == "modulo"


def test_the_devices_are_those_of_a_system_file(description, emulated):
    for one in (description, emulated):
        text = devices_text(calibration(one, 0.04).devices(), "fitted")
        check(yaml.safe_load(text), "system", "devices.yaml", "devices")


def test_parameters_of_what_is_left_out_stand_in_table_and_text(description):
    found = calibration(description, 0.04)
    found = replace(found, left_out={"gfs.limit_bytes_per_s": "not tried, as it fits"})
    row = found.table("all").set_index("parameter").loc["gfs.limit_bytes_per_s"]
    assert (row["status"], row["reason"]) == ("left out", "not tried, as it fits")
    assert np.isnan(row["value"])
    assert np.isnan(row["standard_error"])
    assert "gfs.limit_bytes_per_s  left out: not tried" in found.text()
    assert "limit_bytes_per_s" not in found.devices()["gfs"]


def test_limit_begins_at_the_slowest_epoch_of_the_most_reads(description):
    # 15 files an epoch on each of 4 servers.
    small = replace(description, dataset=replace(description.dataset, n_files=60))
    size = small.dataset.file_size_bytes
    measured = {
        Point(0, 0): np.array([[1.0, 1, 1, 1, 2], [1, 1, 1, 1, 5], [1, 1, 1, 1, 5]]),
        Point(50, 0): np.ones((3, 5)),
    }
    found = starting_values(small, measured, {})
    assert found["gfs.limit_bytes_per_s"] == pytest.approx(15 * size / 5)
    assert found["gfs.limit_credit_bytes"] == pytest.approx(15 * size * (1 - 2 / 5))


def test_repeats_of_a_probe_use_up_the_credit(description):
    probed = ProbeDescription.of(description)
    plain = probe_times(probed, 4)
    rate = {"gfs.limit_bytes_per_s": 1e6}
    within = with_values(description, rate | {"gfs.limit_credit_bytes": 1e9})
    assert probe_times(ProbeDescription.of(within), 4) == plain
    beyond = with_values(description, rate | {"gfs.limit_credit_bytes": 1e6})
    found = probe_times(ProbeDescription.of(beyond), 4)
    # A server reads 4 MiB. A credit of a second comes back during the other probes.
    assert found["gfs_read_rate"] == pytest.approx(32 * 0.131072 - 1, rel=0.01)
    scarce = with_values(description, rate | {"gfs.limit_credit_bytes": 1e4})
    found = probe_times(ProbeDescription.of(scarce), 4)
    assert found["gfs_read_rate"] == pytest.approx(32 * 0.131072, rel=0.01)
    assert found["gfs_open_rate"] == plain["gfs_open_rate"]
    assert found["lfs_read_rate"] == plain["lfs_read_rate"]


def test_files_on_one_server_are_probed_one_after_the_other(description):
    plain = probe_times(ProbeDescription.of(description), 4)
    together = replace(description, servers=np.zeros(N_FILES, int))
    found = probe_times(ProbeDescription.of(together), 4)
    assert found["gfs_read_rate"] == pytest.approx(4 * plain["gfs_read_rate"], rel=0.05)
    assert found["gfs_file_read_latency"] == plain["gfs_file_read_latency"]
    # Another OST count is another dataset, whose places are not known.
    assert probe_times(ProbeDescription.of(together), 2) == probe_times(
        ProbeDescription.of(description), 2
    )
