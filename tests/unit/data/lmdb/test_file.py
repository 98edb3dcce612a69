import os
import shutil
from contextlib import suppress

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("lmdb")

from stops import stopped
from tierscope.data.lmdb.check import check_record, check_size, check_tree
from tierscope.data.lmdb.file import (
    DATA_FILE,
    copy_ranges,
    generate_database,
    is_complete,
    key_of,
    make_hollow,
    map_address,
    n_pieces,
    open_database,
    page_ranges,
    provenance_here,
    read_checksums,
    read_provenance,
    walked_offsets,
)
from tierscope.data.lmdb.layout import Provenance, layout_of
from tierscope.data.lmdb.pages import find_records
from tierscope.data.tfrecord import DatasetError, SampleWriter, generate_files

PAGE = 4096


def test_database_is_whole_or_made_again_wherever_its_writing_stops(tmp_path):
    provenance = provenance_here(9, 600, 4)
    n_complete = 0
    for how, _ in stopped(tmp_path, lambda: generate_database(tmp_path, provenance)):
        n_complete += is_complete(tmp_path, provenance)
        for _ in range(1 + is_complete(tmp_path, provenance)):
            generate_database(tmp_path, provenance)
        check_tree(tmp_path / DATA_FILE, provenance)
        assert len(read_checksums(tmp_path, 9)) == 9, how
        assert len([*tmp_path.glob("[!.]*")]) == 3, how
    assert n_complete == 1


def pread_of(path):
    def read(offset, n_bytes):
        with open(path, "rb") as file:
            return os.pread(file.fileno(), n_bytes, offset)

    return read


def written(folder, n_records, file_size_bytes, records_per_commit):
    provenance = provenance_here(n_records, file_size_bytes, records_per_commit)
    generate_database(folder, provenance)
    return provenance


def written_values(path, values, records_per_commit):
    """Write any values with LMDB itself and return what its cursor says."""
    path.unlink(missing_ok=True)
    with open_database(str(path), 1 << 30) as environment:
        for start in range(0, len(values), records_per_commit):
            with environment.begin(write=True) as transaction:
                for i, value in enumerate(values[start : start + records_per_commit]):
                    transaction.put(key_of(start + i), value, append=True)
    with open(path, "rb") as file, open_database(str(path)) as environment:
        return (
            walked_offsets(environment, map_address(file.fileno())),
            environment.info(),
        )


def test_map_of_another_file_with_the_same_inode_number_is_not_taken(tmp_path):
    path, maps = tmp_path / "a b.mdb", tmp_path / "maps"
    path.touch()
    with open(path, "rb") as file:
        number = os.fstat(file.fileno()).st_ino
        lines = [
            "1000-2000 rw-p 00000000 00:00 0",
            f"3000-4000 r--s 00000000 fe:01 {number}    /elsewhere/a b.mdb",
            f"5000-6000 r--s 00001000 fe:00 {number}    {path}",
        ]
        maps.write_text("\n".join(lines) + "\n")
        with pytest.raises(DatasetError, match=r"a b\.mdb: is not mapped"):
            map_address(file.fileno(), maps)
        lines.append(f"7000-8000 r--s 00000000 fe:00 {number}    {path}")
        maps.write_text("\n".join(lines) + "\n")
        assert map_address(file.fileno(), maps) == 0x7000


@pytest.mark.parametrize(
    ("n_records", "file_size_bytes", "records_per_commit"),
    [
        (1, 64, 1),
        (500, 64, 7),  # in the leaves
        (32, 4096, 5),  # a page each, among which free ones are used again
        (300, 4096, 1),
        (160, 131072, 16),  # the paper's small files, two leaves
        (5, 12582912, 2),  # its large ones
    ],
)
def test_computed_walked_and_parsed_offsets_are_where_pread_finds_the_samples(
    tmp_path, n_records, file_size_bytes, records_per_commit
):
    provenance = written(tmp_path, n_records, file_size_bytes, records_per_commit)
    path = tmp_path / DATA_FILE
    parsed, sizes, tree_pages = find_records(pread_of(path), str(path), 10)
    with open(path, "rb") as file, open_database(str(path)) as environment:
        walked = walked_offsets(environment, map_address(file.fileno()))
    assert walked.tolist() == provenance.layout.offsets.tolist()
    assert walked.tolist() == parsed.tolist()
    assert tree_pages.tolist() == provenance.layout.tree_pages.tolist()
    assert set(sizes) == {file_size_bytes - 16}
    assert path.stat().st_size == provenance.file_bytes
    generate_files(tmp_path, ["7.tfrecord"], [n_records - 1], file_size_bytes)
    assert (
        pread_of(path)(int(parsed[-1]), file_size_bytes - 16)
        == (tmp_path / "7.tfrecord").read_bytes()[12:-4]
    )
    writer, read = SampleWriter(file_size_bytes), pread_of(path)
    checksums = read_checksums(tmp_path, n_records).tolist()
    places = zip(parsed.tolist(), sizes.tolist(), checksums, strict=True)
    for i, (offset, n_bytes, crc) in enumerate(places):
        value = read(offset, n_bytes)
        assert value == writer.payload(i)
        assert crc == google_crc32c.value(value)


def test_a_128_kib_file_takes_32_pages_and_a_large_one_3072():
    layout = layout_of(3, 10, 131072 - 16, 8, PAGE)
    assert layout.offsets.tolist() == [
        3 * PAGE + 16,  # behind two pages of metadata and the leaf
        35 * PAGE + 16,
        67 * PAGE + 16,
    ]
    assert layout.tree_pages.tolist() == [2]
    assert layout.n_pages == 99
    layout = layout_of(2, 10, 12582912 - 16, 2, PAGE)
    assert np.diff(layout.offsets).tolist() == [3072 * PAGE]


@settings(max_examples=60, deadline=None)
@given(
    n_records=st.integers(1, 700),
    value_bytes=st.sampled_from(
        [1, 32, 700, 2017, 2018, 2019, 2020, 2021, 4080, 4081, 8176, 8177, 20000]
    ),
    records_per_commit=st.integers(1, 200),
)
def test_arithmetic_is_what_lmdb_does(
    tmp_path_factory, n_records, value_bytes, records_per_commit
):
    path = tmp_path_factory.getbasetemp() / "any.mdb"
    values = [bytes(value_bytes)] * n_records
    offsets, info = written_values(path, values, records_per_commit)
    layout = layout_of(n_records, 10, value_bytes, records_per_commit, PAGE)
    assert layout.offsets.tolist() == offsets.tolist()
    assert layout.n_pages == info["last_pgno"] + 1
    parsed, _, tree_pages = find_records(pread_of(path), "any.mdb", 10)
    assert parsed.tolist() == offsets.tolist()
    assert tree_pages.tolist() == layout.tree_pages.tolist()


def test_arithmetic_holds_for_a_tree_of_three_levels(tmp_path):
    offsets, info = written_values(tmp_path / "deep.mdb", [bytes(8)] * 31000, 997)
    layout = layout_of(31000, 10, 8, 997, PAGE)
    assert layout.offsets.tolist() == offsets.tolist()
    assert layout.n_pages == info["last_pgno"] + 1
    read = pread_of(tmp_path / "deep.mdb")
    assert find_records(read, "deep.mdb", 10)[2].tolist() == layout.tree_pages.tolist()


def test_the_same_dataset_is_the_same_file(tmp_path):
    for name in "ab":
        written(tmp_path / name, 40, 4096, 6)
        assert sorted(os.listdir(tmp_path / name)) == [
            "data.mdb",
            "provenance.json",
            "records.npy",
        ]
    for name in os.listdir(tmp_path / "a"):
        files = [(tmp_path / folder / name).read_bytes() for folder in "ab"]
        assert files[0] == files[1]


def test_database_is_kept_unless_it_is_another(tmp_path):
    provenance = written(tmp_path, 20, 4096, 6)
    assert read_provenance(tmp_path) == provenance
    before = (tmp_path / DATA_FILE).stat().st_mtime_ns
    written(tmp_path, 20, 4096, 6)
    assert (tmp_path / DATA_FILE).stat().st_mtime_ns == before
    other = written(tmp_path, 20, 4096, 5)
    assert is_complete(tmp_path, other)
    assert not is_complete(tmp_path, provenance)


def test_nothing_half_is_left_where_the_space_does_not_suffice(tmp_path, monkeypatch):
    provenance = provenance_here(10**9, 4096, 10**9)
    monkeypatch.setattr(Provenance, "file_bytes", 10**18)
    with pytest.raises(DatasetError, match=r"needs 10{18} bytes for data.mdb, but"):
        generate_database(tmp_path, provenance)
    assert os.listdir(tmp_path) == []


def test_file_cut_short_is_refused_with_its_first_broken_record(tmp_path):
    provenance = written(tmp_path, 20, 4096 + 16, 6)
    path = tmp_path / DATA_FILE
    check_size(path, path.stat().st_size, provenance)
    end = int(provenance.layout.offsets[12]) + 4096
    first_after = np.flatnonzero(provenance.layout.offsets + 4096 > end - 1)[0]
    with pytest.raises(
        DatasetError, match=rf"data.mdb: is cut short, record {first_after} is not"
    ):
        check_size(path, end - 1, provenance)


def test_flipped_byte_is_refused_with_its_record(tmp_path):
    offset = int(written(tmp_path, 20, 4096, 6).layout.offsets[12])
    checksum = int(read_checksums(tmp_path, 20)[12])
    value = bytearray(pread_of(tmp_path / DATA_FILE)(offset, 4080))
    check_record("data.mdb", 12, bytes(value), checksum)
    value[100] ^= 1
    with pytest.raises(DatasetError, match=r"data.mdb: record 12 is damaged: got"):
        check_record("data.mdb", 12, bytes(value), checksum)


def test_checksums_of_older_databases_are_read(tmp_path):
    older = [("offset", "<i8"), ("bytes", "<i8"), ("crc32c", "<u4")]
    np.save(tmp_path / "records.npy", np.array([(16, 8, 7), (32, 8, 9)], older))
    assert read_checksums(tmp_path, 2).tolist() == [7, 9]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_tree_is_refused_or_read(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "damaged"
    provenance = written(folder, 200, 64, 50)
    content = bytearray((folder / DATA_FILE).read_bytes())
    page = data.draw(st.sampled_from([0, 1, *provenance.layout.tree_pages.tolist()]))
    at = page * PAGE + data.draw(st.integers(0, PAGE - 1))
    content[at] ^= data.draw(st.integers(1, 255))

    def read(offset, n_bytes):
        return bytes(content[offset : offset + n_bytes])

    with suppress(DatasetError):  # and no other error
        offsets, sizes, _ = find_records(read, "data.mdb", 10)
        assert len(offsets) == len(sizes) <= 200  # fewer by the older metadata


def test_copy_holds_the_tree_and_the_first_records_at_the_same_places(tmp_path):
    provenance = written(tmp_path / "gfs", 160, 16384, 16)
    source, target = tmp_path / "gfs" / DATA_FILE, tmp_path / "copy.mdb"
    ranges = page_ranges(provenance, 100)
    make_hollow(target, provenance.file_bytes)
    half = n_pieces(ranges) // 2
    copy_ranges(source, target, ranges, slice(0, half))
    copy_ranges(source, target, ranges, slice(half, None))
    whole, copy = pread_of(source), pread_of(target)
    offsets = provenance.layout.offsets.tolist()
    for offset in offsets[:100]:
        assert copy(offset, 16368) == whole(offset, 16368)
    assert not any(copy(offsets[100], 16368))
    parsed, _, _ = find_records(copy, str(target), 10)
    assert parsed.tolist() == offsets
    taken = 512 * target.stat().st_blocks
    assert taken <= 100 * 16384 + 8 * PAGE < source.stat().st_size
    assert page_ranges(provenance, 0) == []
    covered = sum(end - start for start, end in page_ranges(provenance, 160))
    assert provenance.file_bytes - 20 * PAGE < covered <= provenance.file_bytes
    shutil.rmtree(tmp_path / "gfs")
    with pytest.raises(DatasetError, match="cannot copy to it"):
        copy_ranges(source, target, ranges)
