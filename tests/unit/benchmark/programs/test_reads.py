from tierscope.benchmark.programs.reads import OpenReads, Read


def read(file_id, pid=1, on_lfs=False, is_late=False):
    """Return a read."""
    return Read(file_id, pid, 0, 0, on_lfs, is_late)


def test_file_is_read_until_the_last_process_has_closed_it():
    reads = OpenReads()
    for one in (read(5), read(5), read(5, pid=2), read(6)):
        reads.begin(one)
    assert reads.end(1, 5, on_lfs=False) == read(5)
    assert reads.end(2, 5, on_lfs=False) == read(5, pid=2)
    assert reads.is_read(5)
    assert reads.end(1, 5, on_lfs=False) == read(5)
    assert not reads.is_read(5)
    assert list(reads.pids) == [1]


def test_close_of_what_a_child_has_inherited_ends_no_read():
    reads = OpenReads()
    reads.begin(read(5))
    assert reads.end(2, 5, on_lfs=False) is None
    assert reads.is_read(5)


def test_close_ends_the_read_of_its_tier():
    reads = OpenReads()
    for one in (read(5, is_late=True), read(5, on_lfs=True)):
        reads.begin(one)
    assert reads.end(1, 5, on_lfs=True) == read(5, on_lfs=True)
    assert reads.end(1, 5, on_lfs=True) is None
    assert reads.end(1, 5, on_lfs=False) == read(5, is_late=True)


def test_reads_of_a_process_that_has_ended_end_with_it():
    reads = OpenReads()
    for one in (read(5), read(5), read(6), read(5, pid=2)):
        reads.begin(one)
    assert sorted(one.file_id for one in reads.end_of([1, 9])) == [5, 5, 6]
    assert reads.is_read(5)
    assert not reads.is_read(6)
    assert list(reads.pids) == [2]
