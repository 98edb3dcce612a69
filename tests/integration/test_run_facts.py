"""Runs and processes that were not all measured with the same are not joined."""

import json
import re
import subprocess

import pytest
from integration.launches import edit
from tierscope.core.tables import read_table
from tierscope.trace.spool import SPOOL_VERSION

SCENARIO = "tiny-60ost-pinning-posix"
TABLE = "results/tiny/tables/io_time.parquet"
FACTS = "results/tiny/tables/run_facts.parquet"


def change_tracer(project, folder):
    """Give a copy of the native code another tracer; return the folder of libraries."""
    with (folder / "trace" / "trace.c").open("a") as source:
        source.write('const char tierscope_trace_is[] = "another";\n')
    make = ["make", "--silent", "-C", folder]
    subprocess.run(make, env=project.environment, check=True)


def sweep(project, *cache_rates_percent, n_osts=60, **changes):
    """Let the experiment be one scenario with these cache rates."""
    points = {
        "datasets": ["tiny"],
        "n_osts": [n_osts],
        "policies": ["pinning"],
        "loaders": ["posix"],
        "cache_rates_percent": list(cache_rates_percent),
        "exclude": {},
    }
    project.change("config/tiny.yaml", {"sweep": points, **changes})


def libraries_of(project):
    """Return the digests of the tracers that measured the runs, by cache rate."""
    runs = project.path("runs", SCENARIO).glob("cache-*/rep-0/run.json")
    contents = [json.loads(path.read_text()) for path in runs]
    rates = [one["point"]["cache_rate_percent"] for one in contents]
    loaded = [one["libraries"]["tracer"] for one in contents]
    digests = [one["libtierscope_trace.so"] for one in loaded]
    return dict(zip(rates, digests, strict=True))


def test_sweep_with_a_tracer_rebuilt_half_way_is_refused_by_digest(emulated):
    sweep(emulated, 0)
    emulated.snakemake(TABLE)
    sweep(emulated, 0, 50)
    change_tracer(emulated, emulated.folder / "workflow" / "native")
    output = emulated.snakemake(TABLE, expect=1)
    digests = libraries_of(emulated)
    assert digests[0] != digests[50]
    runs = f"results/tiny/runs/{SCENARIO}"
    first, second = (f"{runs}/cache-{rate}/rep-0" for rate in ("000", "050"))
    (line,) = {
        line.partition("MixedRunsError: ")[2]
        for line in output.splitlines()
        if "MixedRunsError: " in line
    }
    assert line == (
        f"{first} and {second}: cannot be joined into one table: library of the "
        f"tracer {digests[0][:12]}, but {digests[50][:12]}. 1 run differs from the "
        "newest one: delete the folders that the log lists to measure these points "
        "again, or set allow_mixed: [libraries]."
    )
    assert f"To measure again: rm -r {first}" in output
    table = read_table(emulated.folder / TABLE, "io_time")
    assert set(table["cache_rate_percent"]) == {0}  # as before

    sweep(emulated, 0, 50, allow_mixed=["libraries"])
    assert "Measuring" not in emulated.snakemake(TABLE)
    table = read_table(emulated.folder / TABLE, "io_time")
    assert set(table["cache_rate_percent"]) == {0, 50}
    facts = read_table(emulated.folder / FACTS, "run_facts").set_index("fact")
    assert list(facts.loc["library of the tracer", "n_runs"]) == [1, 1]

    sweep(emulated, 0, 50, allow_mixed=[])
    emulated.snakemake(TABLE, expect=1)
    for path in (emulated.folder / first).iterdir():
        path.unlink()
    emulated.snakemake(TABLE)
    assert len(set(libraries_of(emulated).values())) == 1


def test_edited_benchmark_is_named_before_it_measures_and_refused_afterwards(plain):
    sweep(plain, 0, n_osts=0)
    assert "measured with modules" not in plain.snakemake(TABLE)
    sweep(plain, 0, 50, n_osts=0)
    edit(plain, "benchmark/driver.py", "import shutil\n", "import shutil  # edited\n")
    output = plain.snakemake(TABLE, expect=1)
    first = "results/tiny/runs/tiny-0ost-pinning-posix/cache-000/rep-0"
    words = r"measured with modules (\w{12}), but new runs are measured with (\w{12}): "
    ((before, now),) = set(re.findall(rf"{first}: was {words}", output))
    assert output.index("was measured with") < output.index("Measuring")
    assert f"modules of the benchmark {before}, but {now}. 1 run differs" in output


def test_runs_of_before_are_joined_with_each_other_only(plain):
    sweep(plain, 0, 50, n_osts=0)
    scenario = "tiny-0ost-pinning-posix"
    plain.snakemake(*plain.audits_of(scenario, 0, 50))
    paths = sorted(plain.path("runs", scenario).rglob("run.json"))
    words = f"tracer builtin unknown, but builtin {SPOOL_VERSION}"
    make_old(paths[0])
    assert words in plain.snakemake(TABLE, expect=1)
    make_old(paths[1])
    assert words not in plain.snakemake(TABLE)
    facts = read_table(plain.folder / FACTS, "run_facts").set_index("fact")
    assert facts.loc["modules of the benchmark", "value"] == "unknown"
    assert facts.loc["modules of the benchmark", "n_runs"] == 2


def make_old(path):
    """Take from a `run.json` what earlier versions did not note."""
    content = json.loads(path.read_text())
    for name in ("libraries", "modules", "machines"):
        del content[name]
    del content["tracer"]["version"]
    path.chmod(0o644)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("project", ["plain", "emulated"])
def test_rank_with_another_tracer_ends_the_launch_with_both_digests(project, request):
    project = request.getfixturevalue(project)
    native = project.folder / "workflow" / "other" / "native"
    native.parent.mkdir()
    subprocess.run(["cp", "-r", project.folder / "workflow" / "native", native])
    change_tracer(project, native)  # into workflow/results
    of_rank_2 = "sed s,results/,workflow/results/,"  # the first library
    edit(
        project,
        "benchmark/preparation.py",
        '    answer("; ".join([*steps,',
        "    other = 'test $PMI_RANK != 2 || LD_PRELOAD=$(echo $LD_PRELOAD | "
        f"{of_rank_2})'\n"
        '    answer("; ".join([*steps, other,',
    )
    (scenario,) = project.path("runs").glob("tiny-*ost-pinning-posix")
    output = project.launch(scenario.name, "cache-000/rep-0").fail()
    name = r"libtierscope_trace\.so \((\w{12})\)"
    words = rf"ConfigError: rank 2 on \S+: has loaded as tracer {name}, but rank 0 on "
    found = re.findall(rf"{words}\S+ {name}; all processes of a launch must", output)
    ((other, first),) = found
    assert other != first
