"""Which logs are found, and in which chunk each is read."""

import os
from dataclasses import replace
from datetime import date

import pytest
from tierscope.core.validation import ConfigError
from tierscope.logs.chunks import listing
from tierscope.logs.chunks.listing import (
    ListedLog,
    day_of,
    find_logs,
    list_logs,
    list_path,
    listed_logs,
)

NOVEMBER_S = 1_793_534_400  # 2026-11-01


def write(folder, *names, changed_s=NOVEMBER_S):
    """Write files that were changed in November 2026."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(os.fsencode(name))
        os.utime(folder / name, (changed_s, changed_s))


def darshan(user, job_id, day, pid=1):
    """Return the name of a log as Darshan writes it."""
    return f"{user}_train_id{job_id}-{pid}_{day}-100-200_1.darshan"


def names_in(found):
    """Return the names of the logs of each chunk."""
    return {
        chunk: [os.path.basename(log.path) for log in logs]
        for chunk, logs in found.chunks.items()
    }


@pytest.mark.parametrize(
    ("name", "day"),
    [
        (darshan("anna", 7, "10-31"), date(2026, 10, 31)),
        (darshan("anna", 7, "11-2"), date(2026, 11, 2)),  # another time zone
        (darshan("anna", 7, "12-30"), date(2025, 12, 30)),
        (f"2019/3/5/{darshan('anna', 7, '3-5')}", date(2019, 3, 5)),
        (f"2019/4/5/{darshan('anna', 7, '3-5')}", date(2026, 3, 5)),
        (darshan("anna", 7, "2-30"), date(2026, 11, 1)),
        ("a.darshan", date(2026, 11, 1)),
    ],
)
def test_the_day_of_a_log_is_in_its_name_else_it_is_that_of_its_change(name, day):
    assert day_of(ListedLog(f"/logs/{name}", 1, NOVEMBER_S * 10**9)) == day


def test_chunks_are_the_longest_times_that_are_small_enough(tmp_path):
    logs = tmp_path / "logs"
    spring = [darshan("anna", one, "3-5") for one in range(2)]
    autumn = [darshan("anna", one, f"10-{one}") for one in range(1, 5)]
    write(logs, *spring, *autumn)
    found = names_in(list_logs([str(logs)], tmp_path / "lists", logs_per_chunk=6))
    assert found == {"2026": sorted(spring + autumn)}
    found = names_in(list_logs([str(logs)], tmp_path / "more", logs_per_chunk=3))
    assert found == {
        "2026-03": spring,
        **{
            f"2026-10-0{one}": [darshan("anna", one, f"10-{one}")]
            for one in range(1, 5)
        },
    }


def test_a_large_day_has_parts_that_divide_no_user_and_else_no_job(tmp_path):
    logs = tmp_path / "logs"
    ben = [darshan("ben", job, "3-5", pid) for job in range(8) for pid in range(4)]
    others = [darshan(f"user{n}", n, "3-5", pid) for n in range(8) for pid in range(4)]
    write(logs, *ben, *others)
    found = names_in(list_logs([str(logs)], tmp_path / "lists", logs_per_chunk=16))
    assert len(found) > 2
    assert all(name.startswith("2026-03-05_") for name in found)
    assert all(name.endswith("of4") for name in found)
    assert sorted(name for names in found.values() for name in names) == sorted(
        ben + others
    )
    for names in found.values():
        for name in names:
            user_and_id, _, _ = name.partition("-")
            assert sum(one.startswith(f"{user_and_id}-") for one in names) == 4
    assert len([names for names in found.values() if set(ben) & set(names)]) > 1


def test_only_lists_that_change_are_written(tmp_path):
    logs, lists = tmp_path / "logs", tmp_path / "lists"
    write(logs, darshan("anna", 1, "3-5"), darshan("anna", 2, "4-5"))
    settings = {"logs_per_chunk": 1}
    first = list_logs([str(logs)], lists, **settings)
    assert first.changed == {"2026-03", "2026-04"}
    assert listed_logs(list_path(lists, "2026-03")) == first.chunks["2026-03"]
    assert not list_logs([str(logs)], lists, **settings).changed
    write(logs, darshan("anna", 3, "5-5"))
    assert list_logs([str(logs)], lists, **settings).changed == {"2026-05"}
    (logs / darshan("anna", 1, "3-5")).write_text("longer than before")
    (logs / darshan("anna", 3, "5-5")).unlink()
    found = list_logs([str(logs)], lists, keep_vanished=False, **settings)
    assert found.changed == {"2026-03"}
    assert sorted(path.stem for path in lists.iterdir()) == ["2026-03", "2026-04"]


def test_listed_logs_stay_in_their_chunks_whatever_comes_later(tmp_path):
    logs, lists = tmp_path / "logs", tmp_path / "lists"
    seen = {}

    def added(*names):
        """Return the chunks of new logs; assert that the lists of others stay."""
        write(logs, *names)
        found = list_logs([str(logs)], lists, logs_per_chunk=4)
        for path, state in seen.items():
            if path.stem not in found.changed:
                assert (path.read_text(), path.stat().st_mtime_ns) == state
        for path in lists.iterdir():
            seen[path] = (path.read_text(), path.stat().st_mtime_ns)
        assert {path.stem for path in seen} == set(found.chunks)  # none has vanished
        chunk_of = {
            name: chunk for chunk, listed in names_in(found).items() for name in listed
        }
        assert found.changed == {chunk_of[name] for name in names}
        return [chunk_of[name] for name in names]

    march = [darshan("anna", day, f"3-{day}") for day in range(1, 9)]
    assert added(*march[:2]) == ["2026"] * 2
    assert added(*march[2:4]) == ["2026"] * 2
    assert added(darshan("anna", 1, "4-1")) == ["2026-04"]  # the year is full
    assert added(march[4]) == ["2026-03-05"]  # and so is March
    large = [darshan(f"user{n}", n, "3-5") for n in range(4)]
    parts = added(*large)
    assert all(name.startswith("2026-03-05_") for name in parts)
    assert {name[-3:] for name in parts} == {"of2"}
    parts = added(*(darshan(f"user{n}", n, "3-5", pid=2) for n in range(4)))
    assert {name[-3:] for name in parts} == {"of4"}
    assert added(march[5]) == ["2026-03-06"]


def test_a_log_that_is_to_be_read_again_changes_the_list_of_its_chunk(tmp_path):
    logs, lists = tmp_path / "logs", tmp_path / "lists"
    write(logs, darshan("anna", 1, "3-5"), darshan("anna", 2, "4-5"))
    path = str(logs / darshan("anna", 1, "3-5"))
    list_logs([path], lists)
    for again, changed, n_tries in (([path], {"2026"}, 1), ([], set(), 1)):
        found = list_logs([path], lists, again=again)
        assert (found.changed, found.chunks["2026"][0].n_tries) == (changed, n_tries)
    os.utime(path)
    found = list_logs([path], lists, again=[path])
    assert [log.n_tries for logs in found.chunks.values() for log in logs] == [0]


def test_a_damaged_chunk_gets_another_list_of_the_same_logs(tmp_path):
    """Snakemake does not see a list that is written again with the same content."""
    logs, lists = tmp_path / "logs", tmp_path / "lists"
    write(logs, darshan("anna", 1, "3-5"))
    list_logs([str(logs)], lists)
    before = listed_logs(list_path(lists, "2026"))
    assert list_logs([str(logs)], lists, damaged=["2026"]).changed == {"2026"}
    after = listed_logs(list_path(lists, "2026"))
    assert before != after
    assert before == [replace(log, n_tries=0) for log in after]


def test_vanished_logs_stay_unless_they_are_not_to_or_nobody_names_them(tmp_path):
    logs, lists = tmp_path / "logs", tmp_path / "lists"
    write(logs, "a.darshan", "b.darshan")
    write(tmp_path / "other", "c.darshan")
    patterns = [str(logs), str(tmp_path / "other")]
    before = list_logs(patterns, lists)
    for name in ("a.darshan", "b.darshan"):
        (logs / name).unlink()
    found = list_logs([str(logs)], lists)
    assert (found.n_vanished, found.changed) == (2, {"2026"})
    assert found.chunks["2026"] == [
        log for log in before.chunks["2026"] if not log.path.endswith("c.darshan")
    ]
    assert list_logs([f"{logs}/a.darshan"], lists).n_vanished == 2
    with pytest.raises(ConfigError, match="which names no log"):
        list_logs([str(logs)], lists, keep_vanished=False)


def test_a_log_that_cannot_be_looked_at_has_not_vanished(tmp_path, monkeypatch):
    logs, lists = tmp_path / "logs", tmp_path / "lists"
    write(logs, "a.darshan", "b.darshan")
    list_logs([str(logs)], lists)
    (logs / "a.darshan").unlink()
    monkeypatch.setattr(listing, "is_gone", lambda path: False)
    assert names_in(list_logs([str(logs)], lists)) == {"2026": ["b.darshan"]}


def test_a_log_that_is_named_and_missing_is_listed(tmp_path):
    (log,) = list_logs([f"{tmp_path}/no.darshan"], tmp_path / "lists").chunks["1970"]
    assert log == ListedLog(f"{tmp_path}/no.darshan", listing.MISSING, 0)


def test_paths_need_not_be_utf_8(tmp_path):
    name = os.fsdecode(b"l\xe9.darshan")
    write(tmp_path / "logs", name)
    found = list_logs([str(tmp_path / "logs")], tmp_path / "lists")
    assert listed_logs(list_path(tmp_path / "lists", "2026")) == found.chunks["2026"]


def test_logs_are_found_by_path_folder_and_pattern(tmp_path):
    for name in ("a.darshan", "sub/b.darshan", "sub/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    both = [f"{tmp_path}/a.darshan", f"{tmp_path}/sub/b.darshan"]
    assert find_logs([str(tmp_path)]) == both
    assert find_logs([f"{tmp_path}/**/*.darshan", both[0]]) == both
    assert find_logs([f"{tmp_path}/sub/c.txt"]) == [f"{tmp_path}/sub/c.txt"]
    assert find_logs([f"{tmp_path}/no.darshan"]) == [f"{tmp_path}/no.darshan"]
    with pytest.raises(ConfigError, match="missing', which does not exist"):
        find_logs([f"{tmp_path}/missing"], may_be_none=True)  # though logs are known
    with pytest.raises(ConfigError, match="which names no log"):
        find_logs([f"{tmp_path}/*.gz"])


def test_patterns_follow_no_links_and_find_no_hidden_files(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("sub/a.darshan", "sub/.b.darshan"):
        (tmp_path / name).touch()
    (tmp_path / "again").symlink_to("sub")
    (tmp_path / "sub" / "loop").symlink_to("..")
    one = [f"{tmp_path}/sub/a.darshan"]
    for pattern in ("**/*.darshan", "**", "sub/*", "**/a.*"):
        assert find_logs([f"{tmp_path}/{pattern}"]) == one
    assert find_logs([f"{tmp_path}/again/*.darshan"]) == [f"{tmp_path}/again/a.darshan"]
    assert find_logs([f"{tmp_path}/sub/.*"]) == [f"{tmp_path}/sub/.b.darshan"]


def test_two_stars_stand_for_any_folders(tmp_path):
    names = [f"{folder}a.darshan" for folder in ("", "x/", "x/y/", "x/y/z/", ".hid/y/")]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for pattern, found in {
        "**/y/*.darshan": ["x/y/"],
        "**/y/**/*.darshan": ["x/y/", "x/y/z/"],
        "x/**/*.darshan": ["x/", "x/y/", "x/y/z/"],
        "?/**/z/*": ["x/y/z/"],
        "**/**/[xz]/*": ["x/", "x/y/z/"],
        "**/.hid/**": [".hid/y/"],
    }.items():
        expected = [f"{tmp_path}/{folder}a.darshan" for folder in found]
        assert find_logs([f"{tmp_path}/{pattern}"]) == expected


def test_patterns_may_be_relative(tmp_path, monkeypatch):
    (tmp_path / "a.darshan").touch()
    monkeypatch.chdir(tmp_path)
    assert find_logs(["*.darshan"]) == find_logs(["./**/*.darshan"]) == ["a.darshan"]


def test_folders_that_cannot_be_looked_into_are_not_forgotten(tmp_path, monkeypatch):
    (tmp_path / "a.darshan").touch()
    closed = PermissionError(13, "Permission denied", f"{tmp_path}/closed")
    walk = os.walk

    def walk_with_error(folder, onerror):
        yield from walk(folder)
        onerror(closed)

    monkeypatch.setattr(os, "walk", walk_with_error)
    expected = [f"{tmp_path}/a.darshan", f"{tmp_path}/closed"]
    assert find_logs([str(tmp_path)]) == expected
    assert find_logs([f"{tmp_path}/**/a.*"]) == expected
    assert find_logs([f"{tmp_path}/a.*"]) == expected[:1]


@pytest.mark.parametrize("pattern", ["/x/a**/*.darshan", "a\0*"])
def test_a_pattern_that_is_none_is_refused(pattern):
    with pytest.raises(ConfigError, match=r"logs: got .* expected paths, folders"):
        find_logs([pattern])
