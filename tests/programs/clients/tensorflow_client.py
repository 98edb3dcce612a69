"""TensorFlow programs that know nothing of tierscope: loops, Keras, endless steps."""

import sys
import time
from pathlib import Path

import tensorflow as tf

KIND, ROOT, EPOCHS = sys.argv[1], sys.argv[2], 3
PAUSE_S = 0.5  # for what else a program does after an epoch


def files(part: str) -> list[str]:
    """Return the paths of a part of the dataset."""
    return sorted(map(str, Path(ROOT, part).rglob("*.bin")))


def data(names: list[str]) -> tf.data.Dataset:
    """Return batches of numbers, one a file."""
    made = tf.data.Dataset.from_tensor_slices(names).shuffle(len(names))
    made = made.map(lambda name: tf.strings.length(tf.io.read_file(name)))
    return made.map(lambda n: ([n / 4096], [1.0])).batch(8).prefetch(2)


def interleaved(names: list[str]) -> tf.data.Dataset:
    """Return batches of lines, of four files at a time."""
    made = tf.data.Dataset.from_tensor_slices(names).shuffle(len(names))
    made = made.interleave(
        tf.data.TextLineDataset, cycle_length=4, num_parallel_calls=2
    )
    return made.batch(8).prefetch(2)


def go_through(dataset: tf.data.Dataset) -> None:
    """Take all batches of a dataset."""
    for _ in dataset:
        pass


train, held = files("train"), files("val")
if KIND in ("keras", "keras-images", "keras-steps"):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    pause = tf.keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: time.sleep(PAUSE_S)
    )
    more = {"callbacks": [pause], "verbose": 0}
    if KIND == "keras-images":
        pictures = tf.keras.utils.image_dataset_from_directory(ROOT, batch_size=8)
        pictures = pictures.map(lambda x, y: (tf.reshape(x, (-1, 256 * 256 * 3)), y))
        model.fit(pictures, epochs=EPOCHS, **more)
    elif KIND == "keras-steps":
        steps = {"epochs": EPOCHS, "steps_per_epoch": len(train) // 8}
        model.fit(data(train).repeat(), **steps, **more)
    else:
        model.fit(data(train), epochs=EPOCHS, validation_data=data(held), **more)
        model.fit(data(train), epochs=1, **more)
elif KIND == "loop":
    both = data(train), data(held)
    for _ in range(EPOCHS):
        for one in both:
            go_through(one)
        time.sleep(PAUSE_S)
elif KIND == "new":
    for _ in range(EPOCHS):
        go_through(data(train))
        go_through(data(held))
elif KIND == "cache":
    made = data(train).cache()
    for _ in range(EPOCHS):
        go_through(made)
elif KIND == "endless":
    steps = iter(data(train).repeat())
    for _ in range(EPOCHS * len(train) // 8):
        next(steps)
elif KIND == "interleave":
    made = interleaved(train)
    for _ in range(EPOCHS):
        go_through(made)
elif KIND == "strategy":
    made = tf.distribute.MirroredStrategy(["CPU:0"])
    made = made.experimental_distribute_dataset(data(train))
    for _ in range(EPOCHS):
        go_through(made)
