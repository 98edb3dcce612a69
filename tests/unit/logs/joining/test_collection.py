import gc

import pytest
from tierscope.logs.joining.collection import collection_paused


@pytest.fixture(params=[True, False])
def was_enabled(request):
    """Enable or disable garbage collection, and leave it as it was at the end."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_garbage_is_collected_afterwards_as_before(was_enabled):
    with collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled() == was_enabled


def test_an_error_does_not_stop_the_collection_of_garbage(was_enabled):
    with pytest.raises(KeyError), collection_paused():
        raise KeyError
    assert gc.isenabled() == was_enabled
