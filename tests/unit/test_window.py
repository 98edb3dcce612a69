"""What reads over MPI windows ask of MPI and machine, and where files are in them."""

import itertools

import numpy as np
import pytest
from tierscope.local_storage import window_bytes
from tierscope.peers.slots import slot_bytes, slots_of
from tierscope.peers.window import (
    free_memory_bytes,
    why_no_room,
    why_no_windows,
)
from tierscope.policies import AdHoc

MULTIPLE = 3


def test_mpi_that_has_everything_is_taken():
    assert why_no_windows((3, 0), MULTIPLE, MULTIPLE) is None
    assert why_no_windows((5, 0), MULTIPLE, MULTIPLE) is None


@pytest.mark.parametrize(
    ("version", "level", "words"),
    [
        ((2, 2), MULTIPLE, r"of version 2\.2, expected 3\.0 or later"),
        ((3, 1), 1, r"thread level 1, expected 3 \(MPI_THREAD_MULTIPLE\)"),
    ],
)
def test_mpi_that_lacks_something_is_told_what(version, level, words):
    with pytest.raises(ValueError, match=words):
        raise ValueError(why_no_windows(version, level, MULTIPLE))


def test_windows_of_a_machine_share_its_memory():
    assert why_no_room([("a", 40, 100), ("b", 60, 60), ("a", 60, 100)]) is None
    reason = why_no_room([("a", 40, 100), ("b", 60, 60), ("a", 61, 100)])
    assert reason.startswith("the windows on a take 101 bytes of memory, expected at")
    assert "most 100, which are free there" in reason


def test_processes_that_see_less_free_memory_are_believed():
    assert why_no_room([("a", 40, 100), ("a", 40, 79)]) is not None


def test_a_machine_has_some_memory():
    assert free_memory_bytes() > 0


def test_slot_has_room_for_a_file_and_its_number_in_whole_cache_lines():
    assert [slot_bytes(size) for size in (56, 57, 120)] == [64, 128, 128]


def test_window_takes_a_slot_a_file_and_one_for_the_trial():
    assert window_bytes(3, file_size_bytes=120) == 4 * 128


def test_slots_count_each_owners_files_from_1_and_leave_out_the_others():
    staged = np.array([True, True, False, True, True, True])
    owners = np.array([1, 0, 0, 1, 0, 1])
    slots = slots_of(AdHoc(staged, owners, 0), 2)
    assert slots.tolist() == [1, 1, 0, 2, 2, 3]


def test_no_two_files_of_an_owner_share_a_slot():
    rng = np.random.default_rng(1)
    staged, owners = rng.random(500) < 0.7, rng.integers(0, 7, 500)
    slots = slots_of(AdHoc(staged, owners, 3), 7)
    assert ((slots > 0) == staged).all()
    places = list(zip(owners[staged], slots[staged], strict=True))
    assert len(set(places)) == len(places)
    for node, of_node in itertools.groupby(sorted(places), key=lambda place: place[0]):
        numbers = [slot for _, slot in of_node]
        assert numbers == list(range(1, (owners[staged] == node).sum() + 1))
