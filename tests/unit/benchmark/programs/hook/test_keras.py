from types import ModuleType

import pytest
from epoch_hook import keras


@pytest.fixture
def marks(made_loops, marks, monkeypatch):
    """Return the list of marks."""
    monkeypatch.setattr(keras, "LOOPS", made_loops)
    return marks


def callbacks_of(name):
    """Return a module of a list of callbacks, and one that only imports this list."""
    module, other = ModuleType(name), ModuleType("keras.src.callbacks")

    class CallbackList:
        def on_epoch_begin(self, epoch, logs=None):
            return epoch, logs

        def on_test_begin(self, logs=None):
            return logs

        def on_train_end(self, logs=None):
            return logs

        def on_test_end(self, logs=None):
            return logs

    CallbackList.__module__ = name
    module.CallbackList = other.CallbackList = CallbackList
    return module, other


def test_each_begin_of_an_epoch_is_the_next_epoch(marks):
    module, other = callbacks_of("keras.src.callbacks.callback_list")
    keras.wrap(module)
    keras.wrap(other)  # has only the name
    callbacks = module.CallbackList()
    assert callbacks.on_test_begin(7) == 7
    assert callbacks.on_epoch_begin(5, logs={}) == (5, {})  # restarted at epoch 5
    assert callbacks.on_epoch_begin(6) == (6, None)
    assert module.CallbackList().on_epoch_begin(0) == (0, None)  # another `fit`
    assert marks == [0, 1, 2]


def test_ends_are_told_before_the_callbacks_of_a_program(marks, monkeypatch):
    ended = []
    monkeypatch.setattr(
        keras.LOOPS, "end_told", lambda name, **how: ended.append((name, how))
    )
    module, _ = callbacks_of("keras.src.callbacks.callback_list")
    keras.wrap(module)
    callbacks = module.CallbackList()
    assert callbacks.on_test_end(7) == 7
    assert callbacks.on_train_end(8) == 8
    assert ended == [("keras", {"is_evaluation": True}), ("keras", {})]


def test_module_without_a_list_of_callbacks_is_left_alone(marks):
    keras.wrap(ModuleType("keras.callbacks"))
    assert marks == []
