"""A user has one name, whatever the names of logs say."""

from pathlib import Path

import pytest
from tierscope.logs.chunks.users import Users, user_in


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("a_b_train_id7-9_11-1-3-5.darshan", "a_b"),
        ("1002_train_id7-9_11-1-3-5.darshan", ""),
        ("mine.darshan", ""),
        ("alice_cat_id7-9_11-1-3-5.darshan", ""),  # of another program
    ],
)
def test_name_of_a_log_has_that_of_its_user(name, user):
    assert user_in(Path("/logs/2026") / name, "train") == user


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ([], "1002"),
        (["", ""], "1002"),
        (["", "alice"], "alice"),
        (["bob", "alice", "alice"], "alice"),
        (["Copy of alice", "alice"], "alice"),
        (["bob", "amy"], "amy"),
    ],
)
def test_user_has_the_name_of_most_logs_whatever_their_order(names, name):
    for some in (names, names[::-1]):
        users = Users((1002, one) for one in some)
        assert users.name_of(1002) == name
        assert users.name_of(7) == "7"


def test_filter_takes_each_spelling_of_a_user():
    users = Users([(1002, "alice"), (1002, "al"), (7, "bob")])
    job = ("train.py", "2026-01")
    assert users.keeps({}, 7, *job)
    for wanted in ("alice", "al", "1002"):
        assert users.keeps({"user": wanted}, 1002, *job)
        assert not users.keeps({"user": wanted}, 7, *job)
    assert not users.keeps({"user": "al", "month": "2026-02"}, 1002, *job)
