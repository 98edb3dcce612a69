"""The main job on a tiny experiment: real MPI, TensorFlow, tracer, devices."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml
from counts import assert_expected_counts
from golden import assert_golden
from integration.conftest import busy_machine
from tierscope.core.tables import read_table
from tierscope.trace.log import read_posix

ROOT = Path(__file__).parents[2]
SCENARIOS = ["tiny-60ost-pinning-posix", "tiny-1ost-pinning-posix"]


def snapshot(project):
    """Return the modification time of every result but logs."""
    return {
        path.relative_to(project.folder): path.stat().st_mtime_ns
        for path in project.path().rglob("*")
        if path.is_file() and "logs" not in path.parts and path.name != ".lock"
    }


def test_every_figure_is_there_in_three_formats(finished):
    names = sorted(path.name for path in finished.path("figures").iterdir())
    stems = [
        "fig1_execution_and_io_time",
        "fig2_breakdown",
        "fig3_improvement",
        "fig4_gfs_meta_lfs_read",
        "fig4_lfs_meta_gfs_read",
        "fig5_cheapest",
        "scorecard",
    ]
    assert names == sorted(
        f"{s}.{kind}" for s in stems for kind in ("svg", "png", "pdf")
    )
    for stem in stems:
        svg = finished.path("figures", f"{stem}.svg").read_text()
        assert "emulated" in svg
        assert "system tiny" in svg


def test_scorecard_says_that_the_papers_scenarios_are_missing(finished):
    claims = read_table(finished.path("tables", "claims.parquet"), "claims")
    claims = claims.set_index("claim")
    assert claims.loc["C23", "status"] == "holds"
    assert claims.loc["C1", "reason"].startswith("no scenario of 128 KiB files")
    page = finished.path("scorecard.html").read_text()
    missing = (claims["status"] == "not measurable here").sum()
    assert missing > 20
    assert f"{missing} of 24 not measurable here (emulated data; " in page


def test_last_lines_say_where_to_look_and_that_the_model_is_left_out(finished):
    *_, without_model, places = finished.first_output.splitlines()
    assert "Figures: results/tiny/figures" in places
    assert without_model.startswith(
        "No estimates by the model, only by the rule: config"
    )


def test_progress_is_shown_per_point_and_logged_per_file_and_epoch(finished):
    output = finished.first_output
    assert output.count("3 points in one launch of 4 processes, started") == 1
    assert "point 2 of 3: cache rate 50 %" in output
    logs = finished.path("logs")
    (log,) = logs.glob("generate_dataset/tiny-60ost.log")
    assert "32 of 32 files" in log.read_text()
    launched = (logs / "run_benchmark" / SCENARIOS[1]).glob("cache-*.log")
    assert any("epoch 2 of 2: " in log.read_text() for log in launched)


def test_log_is_short_and_plain(finished):
    """One line a job or point, no list of files, nothing that only a terminal shows."""
    output = finished.first_output
    lines = output.splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) < 250
    assert "\x1b" not in output
    assert "\r" not in output
    assert "5 of 5 points, 24 of 24 jobs" in output


def test_unknown_target_is_answered_with_all_targets(finished):
    *_, line = finished.snakemake("figg2", expect=1).splitlines()
    assert line.startswith("figg2: is not a target; expected one of accuracy, all, aud")


def test_staging_is_gone_when_all_is_done(finished):
    assert not finished.path("staging").exists()


def test_io_time_has_every_rank_epoch_and_class_of_every_run(finished):
    io_time = read_table(finished.path("tables", "io_time.parquet"), "io_time")
    assert len(io_time) == 5 * 2 * 4 * 4  # runs, epochs, ranks, classes
    assert set(io_time["source"]) == {"emulated"}
    assert set(io_time["system"]) == {"tiny"}
    keys = ["n_osts", "cache_rate_percent", "epoch"]
    sums = io_time.groupby([*keys, "io_class"])[["operations", "bytes"]].sum()
    for (_, cache_rate, _), part in sums.groupby(keys):
        rows = part.droplevel(keys)
        n_lfs = round(32 * cache_rate / 100)
        assert rows.loc["lfs_meta", "operations"] == n_lfs
        assert rows.loc["gfs_meta", "operations"] == 32 - n_lfs
        assert rows.loc["lfs_read", "bytes"] == 4096 * n_lfs
        assert rows["bytes"].sum() == 32 * 4096
    waited = io_time[io_time["operations"] > 0]
    assert (waited["time_s"] > 0).all()


def test_counts_are_those_of_every_scheduler(finished):
    assert_expected_counts(finished.path())


def test_numbers_are_golden(finished):
    # The model's estimates rest on a fit, which no two processors make alike. The facts
    # of runs are those of this machine.
    others = {"estimates_model", "run_facts"}
    tables = finished.path("tables").glob("*.parquet")
    assert_golden("default", [path for path in tables if path.stem not in others])


def test_execution_time_is_above_io_time(finished):
    epochs = read_table(finished.path("tables", "epochs.parquet"), "epochs")
    io_time = read_table(finished.path("tables", "io_time.parquet"), "io_time")
    keys = ["n_osts", "cache_rate_percent", "epoch", "rank"]
    io_s = io_time.groupby(keys)["time_s"].sum()
    execution_s = epochs.set_index(keys)["execution_time_s"]
    assert (execution_s.reindex(io_s.index) > io_s).all()
    assert (epochs.groupby(keys[:3])["samples"].sum() == 32).all()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_run_has_log_settings_and_passed_audit(finished, scenario):
    run = finished.path("runs", scenario, "cache-050", "rep-0")
    log_job, columns, _ = read_posix(run / "log.darshan")
    assert log_job.n_processes == 4
    assert columns["opens"].sum() == 64
    audit = json.loads((run / "audit.json").read_text())
    assert audit["passed"]
    content = json.loads((run / "run.json").read_text())
    assert content["tracer"]["runtime"] == "builtin"
    assert content["versions"]["mpi"].startswith("MPICH")
    assert "tensorflow-cpu" in content["versions"]
    assert content["training"]["seed"] == 1


def test_local_file_systems_are_empty_afterwards(finished):
    assert not (finished.folder / "scratch" / "lfs").exists()


def test_truths_hold_for_the_results(finished):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/results"],
        cwd=ROOT,
        env={**os.environ, "TIERSCOPE_RESULTS": str(finished.path().parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout


def test_other_settings_for_finished_runs_are_refused(finished):
    before = snapshot(finished)
    path = finished.folder / "config" / "tiny.yaml"
    text = path.read_text()
    path.write_text(text.replace("epochs: 2", "epochs: 3"))
    output = finished.snakemake(expect=1)
    path.write_text(text)
    assert "was measured with training.epochs 2 (now 3)" in output
    assert snapshot(finished) == before


def test_second_run_does_nothing(finished):
    before = snapshot(finished)
    assert "Nothing to be done" in finished.snakemake()
    assert snapshot(finished) == before


@pytest.mark.parametrize(
    ("target", "stems", "lose"),
    [
        ("fig2", ["fig2_breakdown"], Path.unlink),
        ("fig4", ["fig4_gfs_meta_lfs_read", "fig4_lfs_meta_gfs_read"], Path.unlink),
        ("fig5", ["fig5_cheapest"], partial(os.truncate, length=9)),
    ],
)
def test_lost_or_torn_figure_is_redrawn_alone(finished, target, stems, lose):
    for path in finished.path("figures").glob(f"{target}_*"):
        lose(path)
    before = snapshot(finished)
    finished.snakemake(target)
    changed = {
        path.name
        for path, time in snapshot(finished).items()
        if before.get(path) != time
    }
    assert changed == {
        f"{stem}.{kind}" for stem in stems for kind in ("svg", "png", "pdf")
    }


@pytest.mark.parametrize(
    ("module", "rerun"),
    [
        ("figures/breakdown.py", ["plot_breakdown"]),
        ("audit/run.py", ["audit_run"]),
        ("benchmark/driver.py", []),  # only measurements use it
    ],
)
def test_edited_module_reruns_just_the_rules_that_use_it(finished, module, rerun):
    path = finished.folder / "workflow" / "scripts" / "tierscope" / module
    os.utime(path)  # as a checkout does
    assert "Nothing to be done" in finished.snakemake("--dry-run")
    text = path.read_text()
    path.write_text(f"{text}# edited\n")
    try:
        plan = finished.snakemake("--dry-run")
    finally:
        path.write_text(text)
    updated = re.findall(r"^(\w+) .*\[Updated input files\]", plan, re.MULTILINE)
    assert sorted({rule.rstrip("_0123456789") for rule in updated}) == rerun
    assert "run_benchmark" not in plan
    assert ("Nothing to be done" in plan) == (rerun == [])


def test_another_run_gives_equal_tables_byte_for_byte_on_a_busy_machine(
    finished, tmp_path
):
    again = finished.copied_to(tmp_path / "another place")
    shutil.rmtree(again.path("runs", SCENARIOS[0]))
    with busy_machine():
        again.snakemake(*again.audits_of(SCENARIOS[0], 0, 50, 100))
    tables = sorted(again.path("runs", SCENARIOS[0]).rglob("*.parquet"))
    assert len(tables) == 3 * 3
    for table in tables:
        first = finished.folder / table.relative_to(again.folder)
        assert first.read_bytes() == table.read_bytes(), table


def test_progress_shows_both_clocks(finished):
    logs = finished.path("logs", "run_benchmark").rglob("*.log")
    text = "".join(path.read_text() for path in logs)
    assert " s of virtual time, " in text
    assert " s of real time" in text


def test_deleted_run_is_redone_with_what_depends_on_it_only(finished):
    before = snapshot(finished)
    deleted = finished.path("runs", SCENARIOS[0], "cache-050", "rep-0")
    for path in deleted.iterdir():
        path.unlink()
    finished.path("tables", "breakdown.parquet").unlink()
    for target in ("tables", "fig2"):  # not from the merged tables of before
        plan = finished.snakemake("-n", target)
        assert "1 point in one launch" in plan
        assert "collect_io_time" in plan
    finished.snakemake("fig2")
    after = snapshot(finished)
    changed = {path for path in after if after[path] != before.get(path)}
    (marker,) = set(after) - set(before)  # of the second launch
    assert marker.name == "2.txt"
    for path in changed:  # the audit of the launch is made again as a whole
        is_audit = path.name in (
            "audit.json",
            "file_records.parquet",
            "io_time.parquet",
        )
        measured = path.parts[2] in ("runs", "datasets") and not is_audit
        assert not measured or deleted.relative_to(finished.folder) in path.parents


def test_grown_sweep_measures_what_is_new_and_keeps_the_rest(finished, tmp_path):
    grown = finished.copied_to(tmp_path / "grown")
    runs = {
        path: path.stat().st_mtime_ns
        for name in ("run.json", "log.darshan")
        for path in grown.path("runs").rglob(name)
    }
    config = yaml.safe_load((grown.folder / "config" / "tiny.yaml").read_text())
    sweep = config["sweep"] | {"cache_rates_percent": [0, 25, 50, 100], "n_osts": [60]}
    grown.change("config/tiny.yaml", {"sweep": sweep | {"exclude": {}}})
    table = "results/tiny/tables/io_time.parquet"
    output = grown.snakemake(table)
    assert "1 point to measure" in output
    assert "point 1 of 1: cache rate 25 %" in output
    assert {path: path.stat().st_mtime_ns for path in runs} == runs
    rates = read_table(grown.folder / table, "io_time")["cache_rate_percent"]
    assert sorted(set(rates)) == [0, 25, 50, 100]
    assert "Nothing to be done" in grown.snakemake(table)


def test_dry_run_writes_nothing(finished, tmp_path):
    lacking = finished.copied_to(tmp_path / "lacking")
    shutil.rmtree(lacking.path("runs", SCENARIOS[0], "cache-050"))
    before = sorted(lacking.path().rglob("*"))
    assert "1 point in one launch" in lacking.snakemake("-n", "fig2")
    assert sorted(lacking.path().rglob("*")) == before
