from tierscope.benchmark.shared_memory import mpi_segments

MAPS = """\
55d0-55d1 r--p 00000000 08:01 131 /usr/bin/python3
7f00-7f01 rw-s 00000000 00:19 77 /dev/shm/mpich_shm_1d26a4bd_0
7f01-7f02 rw-s 00001000 00:19 77 /dev/shm/mpich_shm_1d26a4bd_0
7f02-7f03 rw-s 00000000 00:19 78 /dev/shm/mpich_shm_2e_1 (deleted)
7f03-7f04 rw-s 00000000 00:19 79 /dev/shm/tierscope-0-1-2.state
7f04-7f05 rw-p 00000000 00:00 0
7fff-8000 rw-p 00000000 00:00 0 [stack]
"""


def test_segments_are_those_of_mpich_that_are_still_there():
    assert mpi_segments(MAPS) == {"/dev/shm/mpich_shm_1d26a4bd_0"}
