import pytest
from tierscope.core.columns import OPERATIONS
from tierscope.core.words import changes_words, class_label


@pytest.mark.parametrize(
    ("tier", "interface", "operation", "label"),
    [
        ("gfs", "POSIX", "read", "gfs READ"),
        ("gfs", "POSIX", "meta", "gfs META"),
        ("lfs", "POSIX", "write", "lfs WRITE"),
        ("gfs", "POSIX", "write meta", "gfs META of written files"),
        ("gfs", "POSIX", "read-write meta", "gfs META of files read and written"),
        ("gfs", "STDIO", "read", "gfs STDIO READ"),
        ("scratch", "MPI-IO", "write", "scratch MPI-IO WRITE"),
    ],
)
def test_a_class_is_named_by_tier_interface_and_operation(
    tier, interface, operation, label
):
    assert class_label(tier, interface, operation) == label


def test_each_operation_has_a_label_of_its_own():
    labels = {class_label("gfs", "POSIX", operation) for operation in OPERATIONS}
    assert len(labels) == len(OPERATIONS)


def test_changes_are_listed_in_their_order():
    changes = [("gfs READ", 50), ("gfs META", 25)]
    assert changes_words(changes) == "gfs READ +50 %, gfs META +25 %"
    assert changes_words([]) == "no improvement"
