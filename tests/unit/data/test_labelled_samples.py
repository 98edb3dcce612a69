import numpy as np
import pytest
from sample_ids import read_sample_ids
from tierscope.data.labelled_samples import (
    FILE_SIZE_BYTES,
    RECORD,
    Distribution,
    best_possible_percent,
    decode,
    records_of,
    sample_paths,
    write_samples,
)
from tierscope.data.shuffle import epoch_files
from tierscope.data.tfrecord import DatasetError


@pytest.fixture
def samples():
    """Return features and labels of six samples of three classes."""
    return Distribution(n_classes=3, seed=1).draw(6, "train")


@pytest.fixture
def payloads(samples):
    """Return the payloads of their files."""
    return [record.tobytes() for record in records_of(*samples)]


def test_samples_are_listed_by_class(samples):
    assert samples[1].tolist() == [0, 0, 1, 1, 2, 2]


def test_parts_and_seeds_have_other_samples_of_the_same_or_other_centres():
    drawn = {
        (seed, part): Distribution(3, seed).draw(3000, part)[0]
        for seed in (1, 2)
        for part in ("train", "test")
    }
    mean = {key: features[:1000].mean(axis=0) for key, features in drawn.items()}
    assert (drawn[1, "train"] == drawn[1, "test"]).mean() < 1e-4
    assert abs(mean[1, "train"] - mean[1, "test"]).max() < 0.25
    assert abs(mean[1, "train"] - mean[2, "train"]).max() > 0.5


def test_files_are_of_the_projects_format(tmp_path, samples, payloads):
    write_samples(tmp_path / "train", *samples)
    paths = sample_paths(tmp_path / "train", 6)
    assert read_sample_ids(paths) == [0, 1, 2, 3, 4, 5]
    contents = [open(path, "rb").read() for path in paths]
    assert {len(content) for content in contents} == {FILE_SIZE_BYTES}
    assert [content[12:-4] for content in contents] == payloads
    assert int.from_bytes(contents[0][:8], "little") == RECORD.itemsize


def test_what_is_written_is_read(samples, payloads):
    features, labels = decode(payloads, list("abcdef"))
    assert (features == samples[0]).all()
    assert labels.tolist() == samples[1].tolist()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda it: [it[1], it[0], *it[2:]], "a: got 184 bytes that are not sample 0"),
        (lambda it: [*it[:5], it[5][:-1]], "f: got 183 bytes that are not sample 5"),
        (lambda it: it[:5], "got 5 samples, expected 6"),
    ],
)
def test_other_samples_are_refused(payloads, spoil, message):
    message = message.replace("184", str(RECORD.itemsize))
    message = message.replace("183", str(RECORD.itemsize - 1))
    with pytest.raises(DatasetError, match=message):
        decode(spoil(payloads), list("abcdef"))


def test_most_likely_label_is_that_of_the_largest_density():
    distribution = Distribution(n_classes=4, seed=3)
    features, labels = distribution.draw(400, "test")
    distance = features[:, None, None, :] - distribution._centres
    density = np.exp(-(distance**2).sum(axis=-1) / 2).sum(axis=-1)
    guesses = distribution.most_likely_labels(features)
    assert guesses.tolist() == density.argmax(axis=1).tolist()
    right = 100 * (guesses == labels).mean()
    assert best_possible_percent(4, 400, 3) == pytest.approx(right)
    assert 60 < right < 100


@pytest.mark.parametrize(
    ("shuffle", "least", "most"), [("biased", 1, 2), ("local", 10, 10)]
)
def test_a_biased_partition_gives_a_process_few_classes(shuffle, least, most):
    labels = Distribution(10, 1).draw(5120, "train")[1]
    options = {"shuffle": shuffle, "seed": 1, "repetition": 0, "epoch": 0}
    counts = {
        len(set(labels[epoch_files(5120, rank, 8, **options)])) for rank in range(8)
    }
    assert min(counts) >= least
    assert max(counts) <= most
