import pytest
from job_logs import write_job_log
from tierscope.logs.tiers import tiers_of
from tierscope.trace.log import read_any_log
from tierscope.trace.placing import place_names


@pytest.mark.parametrize(
    ("tiers", "path", "expected"),
    [
        ({"gfs": "/data"}, "/data/a", "gfs"),
        ({"gfs": "/data"}, "/data/sub/a", "gfs"),
        ({"gfs": "/data"}, "/data2/a", None),
        ({"gfs": "/data"}, "/data", "gfs"),
        ({"gfs": "/data*"}, "/data2/a", "gfs"),
        ({"gfs": "/data*"}, "/data2", "gfs"),
        ({"gfs": "/x/*/mine"}, "/x/any/mine/a", "gfs"),
        ({"gfs": "/x/*/mine"}, "/x/any/more/mine/a", None),
        ({"root": "/", "gfs": "/data"}, "/data/a", "gfs"),
        ({"gfs": "/data", "root": "/"}, "/data/a", "gfs"),
        ({"root": "/"}, "/a", "root"),
        ({"root": "/"}, "<STDIN>", None),
        ({"a": "/x", "b": "/x/y"}, "/x/y/file", "b"),
        ({"a": "/x.y"}, "/xzy/file", None),
        ({"a": "/x/data.h5"}, "/x/data.h5", "a"),
        ({"a": "/x", "b": "/x/data.h5"}, "/x/data.h5", "b"),
        ({"a": "/x/data.h5", "b": "/x"}, "/x/data.h5", "a"),
        ({"a": "/x/y*", "b": "/*/yz/data.h5"}, "/x/yz/data.h5", "b"),
        ({"a": "/x/long", "b": "/x/*/*"}, "/x/long/data.h5", "a"),
        ({"a": "/*", "root": "/"}, "/x/file", "root"),
        ({"root": "/", "a": "/*"}, "/x/file", "a"),
    ],
)
def test_the_longest_prefix_decides(tmp_path, tiers, path, expected):
    log = write_job_log(tmp_path / "log.darshan", [("POSIX", 0, path, {"opens": 1})])
    listed = tiers_of(tiers)
    prefixes = [tier.prefix for tier in listed]
    (position,) = place_names(read_any_log(log).names, prefixes)
    assert (listed[position].name if position >= 0 else None) == expected
