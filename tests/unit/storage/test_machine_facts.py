import os

import pytest
from tierscope.storage.machine_facts import (
    affinity,
    cpu_model,
    governor,
    mount_facts,
    package_versions,
    range_words,
)

X86 = "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC: 7\nbogomips : 5\n\n"
ARM = """\
processor       : 0
CPU implementer : 0x46
CPU architecture: 8
CPU variant     : 0x1
CPU part        : 0x001
"""
POWER = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800MHz\n"


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        (X86 * 4, "AMD EPYC: 7"),
        (X86 + X86.replace("AMD EPYC: 7", "Other"), "AMD EPYC: 7, Other"),
        (ARM * 2, "CPU implementer 0x46, CPU variant 0x1, CPU part 0x001"),
        (POWER, "POWER9, altivec supported"),
        ("", os.uname().machine),
    ],
)
def test_model_of_the_processor_is_found(cpuinfo, model):
    assert cpu_model(cpuinfo) == model


def test_model_of_this_machine_is_one_line():
    assert cpu_model()
    assert "\n" not in cpu_model()


def test_each_governor_is_named_once(tmp_path):
    assert governor(tmp_path) == "none"
    for number, name in enumerate(("performance", "powersave", "performance")):
        (tmp_path / f"policy{number}").mkdir()
        (tmp_path / f"policy{number}" / "scaling_governor").write_text(f"{name}\n")
    assert governor(tmp_path) == "performance, powersave"


@pytest.mark.parametrize(
    ("numbers", "words"),
    [([], ""), ([3], "3"), ([8, 0, 2, 1], "0-2,8"), ([0, 0, 2], "0,2")],
)
def test_numbers_become_ranges(numbers, words):
    assert range_words(numbers) == words


def test_affinity_is_that_of_this_process():
    before = os.sched_getaffinity(0)
    first = min(before)
    try:
        os.sched_setaffinity(0, {first})
        assert affinity() == str(first)
    finally:
        os.sched_setaffinity(0, before)


def test_mount_that_is_not_found_is_unknown_with_the_reason(monkeypatch):
    assert mount_facts("/proc/1")["type"] == "proc"
    assert mount_facts("/proc/1")["point"] == "/proc"

    def none(path):
        raise ValueError(f"{path}: no mount")

    monkeypatch.setattr("tierscope.storage.machine_facts.mount_of", none)
    assert mount_facts("/x") == {"type": "unknown", "reason": "/x: no mount"}


def test_version_that_a_package_does_not_tell_is_unknown(tmp_path, monkeypatch):
    (tmp_path / "half-1.dist-info").mkdir()
    (tmp_path / "half-1.dist-info" / "METADATA").write_text("Name: half\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = package_versions(["half", "pytest", "not-installed"])
    assert found == {"half": "unknown", "pytest": pytest.__version__}
