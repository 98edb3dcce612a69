import numpy as np
from tierscope.core.io_class import total_s


def test_classes_are_added_one_after_the_other():
    """In this order 1 is lost beside 1e16; in another one it is not."""
    times_s = np.array([[1e16, 1.0, -1e16], [1.0, 2.0, 3.0]])
    assert total_s(times_s).tolist() == [0.0, 6.0]
