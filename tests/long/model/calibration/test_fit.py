"""Calibration on simulated tables and probes, whose parameters are known."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from calibrate_devices import devices_text
from disturbed import io_time_of, probes_of
from tierscope.core.scenario import Point, Scenario
from tierscope.core.tables import check_table
from tierscope.core.validation import ConfigError, check, read_yaml
from tierscope.experiment.config import read_experiment
from tierscope.model.calibration import objective
from tierscope.model.calibration.fit import calibrate, calibrated, read_devices
from tierscope.model.calibration.result import PARAMETERS, Calibration
from tierscope.model.calibration.starting_values import with_values
from tierscope.model.predict import predict
from tierscope.storage.queueing_network import ModelError, network_of

ROOT = Path(__file__).parents[4]
LINK = "gfs.link_bytes_per_s"


@pytest.fixture(scope="module")
def config():
    return read_yaml(ROOT / "config" / "config.yaml")


@pytest.fixture(scope="module")
def experiment(config):
    """Return the default experiment with a quarter of the files and one epoch."""
    small = copy.deepcopy(config)
    small["datasets"]["small"]["n_files"] = 384
    small["training"]["epochs"] = 1
    small["figures"]["epoch"] = 0
    return read_experiment(small, ROOT / "resources")


def describe(experiment, n_osts):
    return experiment.model_description(
        Scenario("small", n_osts, "pinning", "tensorflow")
    )


def scrambled(description):
    """Return the description with other values of everything that can be fitted."""
    other = copy.deepcopy(description)
    for number, name in enumerate(PARAMETERS):
        tier, key = name.split(".")
        other.system.devices[tier][key] *= (0.03, 50)[number % 2]
    return other


def truth_of(description, names):
    devices = description.system.devices
    return np.array([devices[name.split(".")[0]][name.split(".")[1]] for name in names])


@pytest.fixture
def without_neighbours(monkeypatch):
    """Simulate each point once: it is much faster."""
    monkeypatch.setattr(objective, "_READS", 0)


@pytest.mark.usefixtures("without_neighbours")
def test_file_of_the_system_is_no_source_of_fitted_values(experiment):
    description = describe(experiment, 60)
    data = io_time_of(description, noise=0.01), probes_of(description, (60,), 0.01)
    names = ["gfs.open_s", "lfs.request_s"]
    others = [name for name in PARAMETERS if name not in names]
    known = dict(zip(others, truth_of(description, others), strict=True))
    here = calibrate(description, *data, names)
    there = calibrate(with_values(scrambled(description), known), *data, names)
    assert here.values.tolist() == there.values.tolist()


def test_time_of_a_request_is_told_from_the_transfer(experiment):
    names = ["gfs.request_s", "gfs.ost_bandwidth_bytes_per_s", "gfs.read_latency_s"]
    names += ["gfs.open_s", "lfs.request_s"]
    # 60 OSTs are one emulated server: 2 ms a request, and 128 KiB in about 0.6 ms.
    description = with_values(describe(experiment, 60), {"gfs.request_s": 3.2e-4})
    others = [name for name in PARAMETERS if name not in names]
    known = dict(zip(others, truth_of(description, others), strict=True))
    found = calibrate(
        with_values(scrambled(description), known),
        io_time_of(description, noise=0.01),
        probes_of(description, (60, 1), noise=0.01),
        names,
    )
    values = dict(
        zip((one.name for one in found.parameters), found.values, strict=True)
    )
    assert values["gfs.request_s"] == pytest.approx(3.2e-4, rel=0.05)


@pytest.fixture(scope="module")
def said():
    """Return what the fit of all parameters says of its steps."""
    return []


@pytest.fixture(scope="module")
def found(experiment, said):
    """Fit three points and probes on 60 OSTs and on one, every time known to 1 %."""
    description = describe(experiment, 60)
    return calibrate(
        scrambled(description),
        io_time_of(description, noise=0.01),
        probes_of(description, (60, 1), noise=0.01),
        list(PARAMETERS),
        say=said.append,
    )


class TestAllParameters:
    def test_each_step_is_told(self, found, said):
        assert said[0] == "a start that meets the probes"
        assert any(line.startswith("8 parameters, step 1: ") for line in said)
        assert said[-1] == "8 parameters: what the data tell"

    def test_known_parameters_are_recovered_within_their_uncertainty(
        self, experiment, found
    ):
        truth = truth_of(describe(experiment, 60), PARAMETERS)
        assert (np.abs(found.values - truth) < 3.5 * found.standard_errors).all()
        assert (found.standard_errors < 0.03 * truth).all()
        found.check()

    def test_table_keeps_its_contract(self, found):
        table = check_table(found.table("all-osts"), "calibration")
        assert table["parameter"].tolist() == list(PARAMETERS)
        assert set(table["source"]) == {"emulated"}
        assert set(table["status"]) == {"fitted"}
        assert (table["value"] > table["lower_bound"]).all()
        assert table["n_observations"].nunique() == 1

    def test_devices_are_a_section_of_a_system_file(self, found):
        text = devices_text(found.devices(), found.text())
        assert text.startswith("# gfs.open_s")
        section = yaml.safe_load(text)
        assert section["devices"]["origin"] == "calibrated"
        fugaku = read_yaml(ROOT / "resources" / "systems" / "fugaku.yaml")
        check(fugaku | section, "system", "pasted")
        assert section["devices"]["gfs"]["request_bytes"] == 1048576

    def test_models_take_the_fitted_devices(self, experiment, found):
        description = scrambled(describe(experiment, 60))
        fitted = calibrated(description, found.devices())
        truth = network_of(describe(experiment, 60).system, 60)
        network = network_of(fitted.system, 60)
        assert network.gfs.open_s == pytest.approx(truth.gfs.open_s, rel=0.05)
        assert network.lfs.request_s == pytest.approx(truth.lfs.request_s, rel=0.05)
        assert network.lfs.group_size == truth.lfs.group_size


@pytest.mark.usefixtures("without_neighbours")
class TestIdentifiability:
    def refusal(self, found):
        with pytest.raises(ModelError) as error:
            found.check()
        assert "\n" not in str(error.value)
        return str(error.value)

    def test_tables_alone_do_not_tell_open_from_close(self, experiment):
        description = describe(experiment, 60)
        names = ["gfs.open_s", "gfs.close_s"]
        found = calibrate(description, io_time_of(description), None, names)
        refusal = self.refusal(found)
        assert refusal.startswith("gfs.open_s and gfs.close_s: ")
        assert "only the sum" in refusal
        assert "add the probes (probed_n_osts) or fit only one of them" in refusal
        sums = found.values.sum(), truth_of(description, names).sum()
        assert sums[0] == pytest.approx(sums[1], rel=0.05)

    def test_one_of_them_is_told_by_tables_alone(self, experiment):
        description = describe(experiment, 60)
        io_time = io_time_of(description)
        found = calibrate(scrambled_open(description), io_time, None, ["gfs.open_s"])
        found.check()
        assert found.values[0] == pytest.approx(36.25e-6, rel=0.03)

    def test_one_ost_never_fills_the_link(self, experiment):
        description = describe(experiment, 1)
        names = ["gfs.ost_bandwidth_bytes_per_s", "gfs.read_latency_s", LINK]
        data = io_time_of(description), probes_of(description, (1,))
        refusal = self.refusal(calibrate(description, *data, names))
        assert refusal.startswith(f"{LINK}: has a standard error of ")
        assert "add probes on more OSTs" in refusal
        calibrate(description, *data, names[:2]).check()

    def test_osts_and_links_in_series_are_not_told_apart_on_one_ost_count(
        self, experiment
    ):
        description = describe(experiment, 60)
        names = ["gfs.ost_bandwidth_bytes_per_s", LINK]
        data = io_time_of(description), probes_of(description, (60,))
        refusal = self.refusal(calibrate(description, *data, names))
        assert refusal.startswith(f"{' and '.join(names)}: ")
        assert "exchanged; add probes on another OST count" in refusal
        data = data[0], probes_of(description, (60, 1))
        calibrate(description, *data, names).check()

    def test_value_at_a_bound_is_refused(self, experiment):
        one = PARAMETERS["lfs.latency_s"]
        found = Calibration(
            describe(experiment, 60),
            (one,),
            np.array([one.lower * 1.01]),
            np.array([one.lower * 0.01]),
            n_observations=9,
            rms_percent=1.0,
            correlation=np.eye(1),
        )
        assert "lfs.latency_s: got 1.01e-07 s, expected" in self.refusal(found)


@pytest.mark.usefixtures("without_neighbours")
class TestTheDataChoose:
    """Without a list of parameters: 96 files, one epoch, exact data."""

    @pytest.fixture
    def few_files(self, experiment):
        def described(n_osts):
            whole = describe(experiment, n_osts)
            return replace(whole, dataset=replace(whole.dataset, n_files=96))

        return described

    def findings(self, found):
        return dict(zip(PARAMETERS, found.findings, strict=True))

    def error_at(self, found, description, rate):
        """Return the relative error of the predicted I/O time at a cache rate."""
        times = [
            predict(one, [Point(rate, 0)], "simulation")["time_s"].sum()
            for one in (calibrated(description, found.devices()), description)
        ]
        return abs(times[0] / times[1] - 1)

    def test_all_that_the_data_determine_is_fitted(self, few_files):
        description = few_files(60)
        data = io_time_of(description), probes_of(description, (60, 1))
        found = calibrate(scrambled(description), *data)
        assert {one.status for one in found.findings} == {"fitted"}
        truth = truth_of(description, PARAMETERS)
        assert found.values == pytest.approx(truth, rel=0.1)
        assert self.error_at(found, description, 40) < 0.02

    def test_opens_and_closes_are_joined_where_only_their_sum_is_seen(self, few_files):
        description = few_files(60)
        found = calibrate(description, io_time_of(description), None)
        found.check()  # refuses nothing
        joined = self.findings(found)["gfs.close_s"]
        assert joined.status == "joined"
        assert "gfs.open_s" in joined.reason
        assert "common factor" in joined.reason
        table = check_table(found.table("all-osts"), "calibration")
        assert table.set_index("parameter").loc["gfs.close_s", "status"] == "joined"
        assert self.error_at(found, description, 40) < 0.03

    def test_link_that_one_ost_never_fills_is_kept_if_the_data_allow_it(
        self, few_files
    ):
        description = with_values(few_files(1), {LINK: 5e12})
        data = io_time_of(description), probes_of(description, (1,))
        found = calibrate(description, *data)
        link = self.findings(found)[LINK]
        assert link.status == "kept"
        assert "these data tell only that it is at least" in link.reason
        devices = found.devices()
        assert devices["gfs"]["link_bytes_per_s"] == truth_of(description, [LINK])[0]
        assert np.isnan(found.standard_errors[list(PARAMETERS).index(LINK)])
        assert f"kept: {link.reason}" in found.text()

    def test_link_goes_to_its_limit_if_the_file_contradicts_the_data(self, few_files):
        description = with_values(few_files(1), {LINK: 5e12})
        data = io_time_of(description), probes_of(description, (1,))
        found = calibrate(with_values(description, {LINK: 1e8}), *data)
        link = self.findings(found)[LINK]
        assert link.status == "bound"
        assert "at least" in link.reason
        assert "1e+08 contradicts them" in link.reason
        value = found.devices()["gfs"]["link_bytes_per_s"]
        assert 1e9 < value < truth_of(description, [LINK])[0]
        assert f"bound: {link.reason}" in found.text()
        assert self.error_at(found, description, 40) < 0.02

    def test_what_no_process_reads_is_left_as_it_is(self, few_files):
        description = few_files(60)
        found = calibrate(description, io_time_of(description, (0,)), None)
        for name in ("lfs.request_s", "lfs.latency_s"):
            finding = self.findings(found)[name]
            assert finding.status == "kept"
            assert "do not depend on it" in finding.reason

    def test_a_close_that_the_file_calls_free_stays_free(self, few_files):
        description = with_values(few_files(60), {"gfs.close_s": 0.0})
        found = calibrate(description, io_time_of(description), None)
        assert self.findings(found)["gfs.close_s"].status == "kept"
        assert found.devices()["gfs"]["close_s"] == 0
        assert self.error_at(found, description, 40) < 0.05


@pytest.fixture(scope="module")
def repeated(experiment):
    """Return a scenario of 96 files on one OST, and three repetitions that vary."""
    whole = describe(experiment, 1)
    description = replace(whole, dataset=replace(whole.dataset, n_files=96))
    parts = [
        io_time_of(description, noise=0.02, repetition=repetition)
        for repetition in range(3)
    ]
    return description, pd.concat(parts, ignore_index=True)


@pytest.mark.usefixtures("without_neighbours")
class TestLackOfFit:
    def fit(self, description, io_time):
        probes = probes_of(description, (1,), 0.02)
        names = ["gfs.open_s", "gfs.ost_bandwidth_bytes_per_s", "lfs.request_s"]
        return calibrate(description, io_time, probes, names)

    def test_a_right_structure_is_not_reported(self, repeated):
        found = self.fit(*repeated)
        assert not found.lack_of_fit.is_reported
        assert "describes this storage as far as" in found.text()
        deviation = found.uncertainty.sources[-1].deviation
        assert deviation < 0.01

    def test_reads_that_are_fast_while_they_are_few_are_reported(self, repeated):
        """As behind a rate limit whose credit is not used up at 65 %."""
        description, io_time = repeated
        few = (io_time["cache_rate_percent"] == 65) & (
            io_time["io_class"] == "gfs_read"
        )
        times_s = io_time["time_s"].where(~few, io_time["time_s"] / 1.5)
        found = self.fit(description, io_time.assign(time_s=times_s))
        assert found.lack_of_fit.is_reported
        said = found.lack_of_fit.sentence()
        assert "faster when there are few of them: a cache, or a rate limit" in said
        named = {
            (one.what, one.rate_percent, one.ratio < 1)
            for one in found.lack_of_fit.disagreements
        }
        assert {("gfs_read", 0, False), ("gfs_read", 65, True)} <= named
        table = check_table(found.table("all-osts"), "calibration")
        assert table["lack_of_fit_p_value"].iloc[0] < 0.05
        assert "does not describe" in table["lack_of_fit"].iloc[0]
        assert "does not describe" in devices_text({}, found.text())
        assert found.uncertainty.sources[-1].deviation > 0.02


class TestDevicesFile:
    def test_what_was_written_is_read(self, tmp_path):
        devices = {"origin": "calibrated", "gfs": {"open_s": 3e-5}}
        path = tmp_path / "devices.yaml"
        path.write_text(devices_text(devices, "Fitted\nto something"))
        assert read_devices(path) == devices

    @pytest.mark.parametrize("text", ["", "[1]", "devices: 3", "gfs: {}", "a: [", None])
    def test_other_files_are_refused_in_one_line(self, tmp_path, text):
        path = tmp_path / "devices.yaml"
        if text is not None:
            path.write_text(text)
        with pytest.raises(ModelError, match=r"devices\.yaml") as error:
            read_devices(path)
        assert "\n" not in str(error.value)


def scrambled_open(description):
    other = copy.deepcopy(description)
    other.system.devices["gfs"]["open_s"] = 1.0
    return other


class TestBadInput:
    @pytest.fixture
    def description(self, experiment):
        return describe(experiment, 60)

    @pytest.fixture
    def io_time(self, description):
        return io_time_of(description, cache_rates=(0,))

    def refuse(self, match, *arguments):
        with pytest.raises(ModelError, match=match) as error:
            calibrate(*arguments)
        assert "\n" not in str(error.value)

    def test_unknown_parameter(self, description, io_time):
        expected = r"got gfs.stat_s, expected some of gfs.open_s, "
        self.refuse(expected, description, io_time, None, ["gfs.stat_s"])

    def test_table_of_another_scenario(self, experiment, io_time):
        other = describe(experiment, 1)
        self.refuse(r"n_osts \[60\], expected 1", other, io_time, None, ["gfs.open_s"])

    def test_table_of_fewer_processes(self, description, io_time):
        part = io_time[io_time["rank"] < 4]
        self.refuse(r"got 4 .* expected 8 x 1", description, part, None, ["gfs.open_s"])

    def test_epoch_that_took_no_time(self, description, io_time):
        still = io_time.assign(time_s=0.0)
        self.refuse(r"epoch of 0 s", description, still, None, ["gfs.open_s"])

    def test_more_parameters_than_observations(self, description, io_time):
        names = list(PARAMETERS)[:4]
        self.refuse(r"got 4 to fit to 3", description, io_time, None, names)

    def test_probes_of_other_calls(self, description, io_time):
        probes = probes_of(description, (60,)).assign(operations=7)
        match = r"probes of small on 60 OSTs: got other calls"
        self.refuse(match, description, io_time, probes, ["gfs.open_s"])

    def test_probe_that_took_no_time(self, description, io_time):
        probes = probes_of(description, (60,))
        probes.loc[3, "time_s"] = 0.0
        match = r"probe gfs_open_rate on 60 OSTs: got 0.0 s"
        self.refuse(match, description, io_time, probes, ["gfs.open_s"])


class TestConfiguration:
    def read(self, config, system=None, **change):
        config = copy.deepcopy(config)
        config["model"]["calibrations"]["one-ost"] |= change
        return read_experiment(config | (system or {}), ROOT / "resources")

    def test_default_is_three_points_and_both_ends_of_the_osts(self, config):
        taken = self.read(config).calibration("all-osts")
        assert [one.path for one in taken.points] == [
            f"cache-{rate}/rep-0" for rate in ("000", "065", "100")
        ]
        assert taken.probed_n_osts == (60, 1)
        assert taken.parameters is None
        assert self.read(config).calibration("one-ost").probed_n_osts == (1,)

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            (
                {"cache_rates_percent": [0, 64]},
                r"cache_rates_percent: got 64, expected",
            ),
            (
                {"probed_n_osts": [2]},
                r"probed_n_osts: got 2, expected some of \[1, 60\]",
            ),
            (
                {
                    "scenario": {
                        "dataset": "small",
                        "n_osts": 2,
                        "policy": "pinning",
                        "loader": "posix",
                    }
                },
                r"one-ost.scenario: got small-2ost-pinning-posix, expected one of s",
            ),
        ],
    )
    def test_what_the_sweep_does_not_run_is_refused_when_asked_for(
        self, config, change, match
    ):
        experiment = self.read(config, **change)
        experiment.calibration("all-osts")
        with pytest.raises(ConfigError, match=match) as error:
            experiment.calibration("one-ost")
        assert "\n" not in str(error.value)

    def test_machine_without_devices_has_no_calibration(self, config):
        laptop = copy.deepcopy(config) | {"system": "laptop"}
        laptop["sweep"]["n_osts"] = [0]
        laptop["figures"]["scenario"]["n_osts"] = 0
        experiment = read_experiment(laptop, ROOT / "resources")
        with pytest.raises(ConfigError, match=r"system laptop has no devices"):
            experiment.calibration("all-osts")

    def test_simulated_runs_need_none(self, config):
        fugaku = {"system": "fugaku", "simulate": True}
        fugaku["datasets"] = {"small": {"n_files": 6144}, "large": {"n_files": 6144}}
        with pytest.raises(ConfigError, match=r"those of system fugaku"):
            self.read(config, fugaku).calibration("all-osts")

    def test_calibration_in_use_must_be_there(self, config):
        wrong = copy.deepcopy(config)
        wrong["model"]["calibration"] = "every-ost"
        with pytest.raises(ConfigError, match=r"'every-ost', expected null or one of"):
            read_experiment(wrong, ROOT / "resources")
