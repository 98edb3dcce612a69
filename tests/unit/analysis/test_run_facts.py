"""What runs were measured with, and which runs are not joined."""

import pytest
from tierscope.analysis.run_facts import (
    MixedRunsError,
    differing,
    list_facts,
    refuse_mixed_runs,
    run_facts,
    to_measure_again,
)
from tierscope.core.tables import check_table

MACHINE = {
    "nodes": "0",
    "cpu_model": "EPYC",
    "governor": "performance",
    "mounts": {
        "gfs": {"type": "lustre", "source": "mds:/fs", "point": "/g", "options": "rw"},
        "lfs": {"type": "ext4", "source": "/dev/x", "point": "/l", "options": "rw"},
    },
    "affinity": ["0-1", "2-3"],
}


def content(minute, tracer="a", modules="c", **changes):
    """Return a `run.json` that was finished at this minute."""
    own = {
        "point": {},
        "finished": f"2026-11-23T10:{minute:02}:00+00:00",
        "hosts": ["n0"],
        "tracer": {"runtime": "builtin", "library": "/x.so", "version": "1"},
        "libraries": {"tracer": {"x.so": tracer * 64}, "devices": {}},
        "modules": modules * 64,
        "machines": [MACHINE],
        "emulation": None,
        "versions": {"python": "3.11.7"},
    }
    return own | changes


def old(minute):
    """Return a `run.json` of a version that noted less."""
    less = content(minute)
    for name in ("libraries", "modules", "machines"):
        del less[name]
    less["tracer"] = {"runtime": "builtin", "library": "/x.so"}
    return less


def why_refused(*runs, allowed=()):
    """Return why runs called a, b and so on are not joined; None if they are."""
    listed = list_facts(dict(zip("abcdef", runs, strict=False)))
    try:
        refuse_mixed_runs(listed, allowed)
    except MixedRunsError as error:
        return str(error)
    return None


def test_equal_tools_are_joined():
    assert why_refused(content(1), content(2), content(3)) is None


def test_rebuilt_tracer_is_refused_with_both_runs_both_values_and_what_to_do():
    assert why_refused(content(1), content(2), content(3, tracer="b")) == (
        "b and c: cannot be joined into one table: library of the tracer aaaaaaaaaaaa, "
        "but bbbbbbbbbbbb. 2 runs differ from the newest one: delete the folders that "
        "the log lists to measure these points again, or set allow_mixed: [libraries]."
    )


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"tracer": {"runtime": "darshan", "version": "3.5.0"}}, "tracer"),
        ({"tracer": {"runtime": "builtin", "version": "2"}}, "tracer"),
        ({"libraries": {"tracer": {"x.so": "b"}}}, "libraries"),
        ({"modules": "d" * 64}, "modules"),
    ],
)
def test_each_tool_is_compared_and_may_be_allowed(changes, part):
    runs = content(1), content(2) | changes
    assert f"or set allow_mixed: [{part}]." in why_refused(*runs)
    assert why_refused(*runs, allowed=[part]) is None
    others = {"tracer", "libraries", "modules"} - {part}
    assert why_refused(*runs, allowed=others) is not None


def test_all_that_would_have_to_be_allowed_is_named():
    other = content(2, tracer="b", modules="d")
    assert " (other facts that differ: 1). " in why_refused(content(1), other)
    assert "allow_mixed: [libraries, modules]." in why_refused(content(1), other)
    both = why_refused(content(1), other, allowed=["modules"])
    assert "allow_mixed: [libraries, modules]." in both


def test_devices_are_compared_if_tiers_are_emulated():
    runs = [
        content(minute, emulation={}, libraries={"tracer": {"x": "a"}, "devices": one})
        for minute, one in enumerate([{"d": "e"}, {"d": "f"}])
    ]
    assert why_refused(*runs) is None  # not emulated: none was used
    runs = [run | {"emulation": {"devices": []}} for run in runs]
    assert "library of the devices e, but f" in why_refused(*runs)


def test_names_of_library_files_are_not_compared():
    other = content(2, libraries={"tracer": {"y.so": "a" * 64}})
    assert why_refused(content(1), other) is None


def test_runs_of_before_are_equal_to_each_other_and_differ_from_known_ones():
    assert why_refused(old(1), old(2)) is None
    words = why_refused(old(2), content(2))  # within a second
    assert "tracer builtin unknown, but builtin 1 (other facts that differ: 2)" in words
    assert "(unknown: measured by a version of tierscope that did not note it)" in words
    assert "allow_mixed: [tracer, libraries, modules]." in words
    allowed = ["tracer", "libraries", "modules"]
    assert why_refused(old(1), content(2), allowed=allowed) is None


def test_machines_and_versions_may_differ_and_are_listed():
    other = content(
        2,
        hosts=["n1", "n2"],
        machines=[MACHINE | {"governor": "powersave"}, MACHINE],
        versions={"python": "3.12.0"},
    )
    assert why_refused(content(1), other) is None
    facts = run_facts(list_facts({"a": content(1), "b": other}))
    found = differing(check_table(facts, "run_facts"))
    assert list(found.itertuples(index=False, name=None)) == [
        ("machine", "hosts", "n1; n2", 1, "b"),
        ("machine", "hosts", "n0", 1, "a"),
        ("machine", "governor", "powersave; performance", 1, "b"),
        ("machine", "governor", "performance", 1, "a"),
        ("software", "python", "3.12.0", 1, "b"),
        ("software", "python", "3.11.7", 1, "a"),
    ]


def test_facts_of_equal_runs_are_one_row_each_with_the_newest_run():
    facts = run_facts(list_facts({"a": content(1), "b": content(9), "c": content(3)}))
    assert facts["n_runs"].eq(3).all()
    assert facts["run"].eq("b").all()
    assert facts["fact"].is_unique
    values = facts.set_index("fact")["value"]
    assert values["affinity"] == "0-1 and 2-3"
    assert values["mount of the GFS"] == "lustre mds:/fs rw"


def test_runs_that_differ_from_the_newest_are_measured_again():
    runs = {"a": content(1), "b": content(2, modules="d"), "c": content(3)}
    listed = list_facts(runs)
    assert to_measure_again(listed) == ["b"]
    assert to_measure_again(listed, ["modules"]) == []
    newest = list_facts(runs | {"d": content(4, tracer="b")})
    assert to_measure_again(newest) == ["a", "b", "c"]


def test_probes_are_compared_with_runs_by_the_devices_only():
    probes = content(2, modules="p", emulation={"devices": []})
    for name in ("point", "tracer"):
        del probes[name]
    probes["libraries"] = {"tracer": {}, "devices": {"d.so": "e" * 64}}
    libraries = {"tracer": {"x.so": "a"}, "devices": {"d.so": "e" * 64}}
    run = content(1, emulation={"devices": []}, libraries=libraries)
    assert why_refused(run, probes) is None
    other = probes | {"libraries": {"devices": {"d.so": "f"}}}
    assert "library of the devices" in why_refused(run, other)
    assert "modules of the probes" in why_refused(probes, probes | {"modules": "q"})
