"""Batches with random changes follow from their seed, and are what the formulas say."""

import re
from typing import Any

import numpy as np
import pytest

from traingraph import augment

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (50, 3, 6, 5), dtype=np.uint8)
LABELS = np.arange(50)


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_uint8_images_are_scaled() -> None:
    found = augment.scale()(IMAGES, rng())
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, IMAGES / 255.0, rtol=1e-6)
    found = augment.scale(2 / 255, offset=-1.0)(IMAGES, rng())
    np.testing.assert_allclose(found, IMAGES / 127.5 - 1, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [-1, 2])
def test_flips_turn_some_samples_around(axis: int) -> None:
    found = augment.flip(axis=axis)(IMAGES, rng())
    turned = [not np.array_equal(a, b) for a, b in zip(found, IMAGES, strict=True)]
    assert 15 < sum(turned) < 35
    for one, image, is_turned in zip(found, IMAGES, turned, strict=True):
        np.testing.assert_array_equal(one, np.flip(image, axis - IMAGES.ndim if axis > 0 else axis)
                                      if is_turned else image)  # fmt: skip
    np.testing.assert_array_equal(augment.flip(1.0)(IMAGES, rng()), IMAGES[..., ::-1])
    np.testing.assert_array_equal(augment.flip(0.0)(IMAGES, rng()), IMAGES)


def test_shifts_move_each_image_and_bring_zeros() -> None:
    found = augment.shift(2)(IMAGES, rng())
    assert found.shape == IMAGES.shape
    seen = set()
    for one, image in zip(found, IMAGES, strict=True):
        padded = np.pad(image, [(0, 0), (2, 2), (2, 2)])
        fits = [(y, x) for y in range(5) for x in range(5)
                if np.array_equal(one, padded[:, y : y + 6, x : x + 5])]  # fmt: skip
        assert len(fits) == 1
        seen.add(fits[0])
    assert len(seen) > 15
    np.testing.assert_array_equal(augment.shift(0)(IMAGES, rng()), IMAGES)


def test_noise_has_its_deviation() -> None:
    zeros = np.zeros((100, 1000), np.float32)
    found = augment.noise(0.3)(zeros, rng())
    assert found.dtype == np.float32
    assert found.std() == pytest.approx(0.3, rel=0.02)
    assert abs(found.mean()) < 0.01


def batches(**given: Any) -> augment.Batches:
    transforms = [augment.scale(), augment.flip(), augment.shift(1), augment.noise(0.1)]
    settings = {"batch_size": 16, "seed": 3, "transforms": transforms}
    return augment.Batches(IMAGES, LABELS, **(settings | given))


def test_batches_follow_from_seed_and_epoch() -> None:
    one, other = batches(), batches()
    assert len(one) == 4
    first, second = list(one), list(one)
    assert [len(labels) for _, labels in first] == [16, 16, 16, 2]
    other.set_epoch(2)
    for expected, found in zip(second, other, strict=True):
        np.testing.assert_array_equal(expected[0], found[0])
        np.testing.assert_array_equal(expected[1], found[1])
    orders = [np.concatenate([labels for _, labels in epoch]) for epoch in (first, second)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(LABELS)
    assert not np.array_equal(*orders)
    assert not np.array_equal(next(iter(batches(seed=4)))[1], first[0][1])
    kept = np.concatenate([labels for _, labels in batches(shuffle=False)])
    np.testing.assert_array_equal(kept, LABELS)


def test_arrays_may_have_names_and_weights() -> None:
    given = augment.Batches({"image": IMAGES, "row": LABELS}, {"y": LABELS}, batch_size=10,
                            transforms={"image": [augment.scale()]},
                            label_weights=LABELS / 50)  # fmt: skip
    for inputs, labels, weights in given:
        np.testing.assert_array_equal(inputs["image"], IMAGES[labels["y"]] * np.float32(1 / 255))
        np.testing.assert_array_equal(inputs["row"], labels["y"])
        np.testing.assert_array_equal(weights, labels["y"] / 50)


@pytest.mark.parametrize(("call", "text"), [
    (lambda: augment.flip(1.5), "[augment.flip] expected probability from 0 to 1 but got 1.5"),
    (lambda: augment.flip(axis=0), "expected an axis behind that of the samples but got 0"),
    (lambda: augment.shift(-1), "[augment.shift] expected most of at least 0 but got -1"),
    (lambda: augment.shift(1)(LABELS, rng()), "expected images (N, ..., H, W) but got (50,)"),
    (lambda: augment.noise(-1), "expected deviation of at least 0 but got -1"),
    (lambda: augment.scale(np.nan), "[augment.scale] expected finite numbers but got (nan, 0.0)"),
    (lambda: augment.Batches(IMAGES, LABELS[:9], batch_size=4),
     "[augment.Batches] expected one number of samples but got [9, 50]"),
    (lambda: batches(batch_size=0), "expected batch_size of at least 1 but got 0"),
    (lambda: batches(seed=-1), "expected seed of at least 0 but got -1"),
    (lambda: batches(transforms={"x": []}), "expected a list of transforms but got some by name"),
    (lambda: augment.Batches({"x": IMAGES}, LABELS, batch_size=4, transforms=[augment.flip()]),
     "expected transforms by the names of inputs but got a list of them"),
    (lambda: augment.Batches({"x": IMAGES}, LABELS, batch_size=4, transforms={"y": []}),
     "expected transforms of x but got y"),
    (lambda: augment.noise(np.inf), "[augment.noise] expected a finite deviation but got inf"),
    (lambda: augment.Batches({}, LABELS, batch_size=4), "expected inputs with an array but got no"),
    (lambda: augment.flip(axis=2)(IMAGES[:, 0, 0], rng()),
     "[augment.flip] expected samples with an axis 2, behind the batch but got (50, 5)"),
    (lambda: augment.flip(axis=-2)(IMAGES[:, 0, 0], rng()), "samples with an axis -2, behind the"),
    (lambda: list(batches(transforms=[lambda x, _: None])),
     "[augment.Batches] expected an array of 16 samples from <lambda> but got 'NoneType'"),
    (lambda: list(batches(transforms=[lambda x, _: x[1:]])),
     "expected an array of 16 samples from <lambda> but got an array (15, 3, 6, 5)"),
], ids=range(18))  # fmt: skip
def test_mistakes_are_told(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        call()


@pytest.mark.parametrize(("call", "text"), [
    (lambda: augment.flip(True), "[augment.flip] expected probability: float but got 'bool'"),
    (lambda: augment.flip(0.5, 1.5), "[augment.flip] expected axis: int but got 'float'"),
    (lambda: augment.flip("a"), "[augment.flip] expected probability: float but got 'str'"),
    (lambda: augment.flip(np.array([0.5])), "expected probability: float but got 'ndarray'"),
    (lambda: augment.shift(1.5), "[augment.shift] expected most: int but got 'float'"),
    (lambda: augment.shift(True), "[augment.shift] expected most: int but got 'bool'"),
    (lambda: augment.scale(None), "[augment.scale] expected factor: float but got 'NoneType'"),
    (lambda: augment.scale(1, "a"), "[augment.scale] expected offset: float but got 'str'"),
    (lambda: augment.noise("a"), "[augment.noise] expected deviation: float but got 'str'"),
    (lambda: batches(batch_size=1.5), "[augment.Batches] expected batch_size: int but got 'float'"),
    (lambda: batches(batch_size=True), "expected batch_size: int but got 'bool'"),
    (lambda: batches(seed=1.5), "expected seed: int but got 'float'"),
    (lambda: batches(shuffle=3), "expected shuffle: bool but got 'int'"),
    (lambda: batches(transforms=[3]),
     "expected transforms[0]: a function of an array and a Generator but got 'int'"),
    (lambda: batches(transforms=[augment.scale(), augment.flip]),
     "expected transforms[1]: a function of an array and a Generator but got the function flip; "
     "did you mean flip()?"),
    (lambda: batches(transforms=augment.flip()), "expected transforms: a list of functions but"),
    (lambda: batches(transforms="flip"), "expected transforms: a list of functions but got 'str'"),
    (lambda: augment.Batches({"x": IMAGES}, LABELS, batch_size=4, transforms={"x": [3]}),
     "expected transforms['x'][0]: a function of an array and a Generator but got 'int'"),
    (lambda: augment.Batches(3, LABELS, batch_size=4),
     "expected inputs: an array with samples on axis 0 but got 'int'"),
    (lambda: augment.Batches(IMAGES, {"y": 3}, batch_size=4), "expected labels['y']: an array"),
    (lambda: batches(label_weights=3.0), "expected label_weights: an array with samples on"),
], ids=range(21))  # fmt: skip
def test_arguments_of_other_types_are_told(call: Any, text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        call()


@pytest.mark.parametrize("of", [list, np.ndarray.tolist, tuple])
def test_lists_are_samples(of: Any) -> None:
    found = augment.Batches(of(IMAGES), of(LABELS), batch_size=20, seed=3)
    for one, expected in zip(
        found, augment.Batches(IMAGES, LABELS, batch_size=20, seed=3), strict=True
    ):
        for array, other in zip(one, expected, strict=True):
            np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize(("samples", "got"), [
    ([[1, 2], [3]], "lists of several lengths"),
    ([np.zeros(2), np.zeros(3)], "arrays (2,), (3,)"),
])  # fmt: skip
def test_samples_of_several_shapes_are_no_array(samples: Any, got: str) -> None:
    text = f"[augment.Batches] expected inputs: samples of one shape but got {got}"
    with pytest.raises(ValueError, match=re.escape(text)):
        augment.Batches(samples, [0, 1], batch_size=2)


def test_numbers_of_numpy_are_numbers() -> None:
    augment.flip(np.float32(0.5), axis=np.int64(-1))
    augment.shift(np.int32(2))
    augment.noise(np.float64(0.5))
    assert len(batches(batch_size=np.int64(25), shuffle=np.bool_(False))) == 2
