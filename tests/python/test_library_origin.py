# SPDX-License-Identifier: Apache-2.0
"""Points far from the origin, which float32 holds once the middle of their range is subtracted."""

from __future__ import annotations

import pickle
import tracemalloc
import warnings
from types import ModuleType

import numpy as np
import pytest

K = 3


@pytest.fixture(autouse=True)
def _no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def x() -> np.ndarray:
    random = np.random.default_rng(4)
    return random.normal(size=(2000, 4)) + 6 * random.integers(0, K, size=(2000, 1))


@pytest.mark.parametrize("far", [1e9, -1e12])
def test_what_is_far_off_has_the_clusters_that_it_has_near(
    package: ModuleType, x: np.ndarray, far: float
) -> None:
    near = package.KMeans(K, random_state=0).fit(x)
    own = package.KMeans(K, random_state=0).fit(x + far)
    assert own.cluster_centers_.dtype == np.float64
    np.testing.assert_array_equal(own.labels_, near.labels_)
    # float64 has steps of 1.2e-4 at 1e12.
    np.testing.assert_allclose(own.cluster_centers_ - far, near.cluster_centers_, atol=3e-4)
    assert own.inertia_ == pytest.approx(near.inertia_, rel=1e-5)
    np.testing.assert_array_equal(own.predict(x + far), own.labels_)
    np.testing.assert_array_equal(own.transform(x + far).argmin(axis=1), own.labels_)
    assert -own.score(x + far) == own.inertia_
    read = pickle.loads(pickle.dumps(own))
    np.testing.assert_array_equal(read.predict(x + far), own.labels_)


def test_what_float32_holds_is_left_where_it_is(package: ModuleType, x: np.ndarray) -> None:
    rounded = x.astype(np.float32)
    own, other = (package.KMeans(K, random_state=0).fit(given) for given in (x, rounded))
    np.testing.assert_array_equal(own.cluster_centers_, other.cluster_centers_)
    other.fit(x + 1e9)
    other.fit(rounded)
    np.testing.assert_array_equal(own.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(other.predict(x), own.labels_)


def test_first_centroids_are_where_the_points_are(package: ModuleType, x: np.ndarray) -> None:
    first = x[[0, 10, 20]]
    near = package.KMeans(K, init=first).fit(x)
    own = package.KMeans(K, init=first + 1e9).fit(x + 1e9)
    np.testing.assert_array_equal(own.labels_, near.labels_)
    weights = np.arange(len(x)) % 3
    weighted = package.KMeans(K, init=first + 1e9).fit(x + 1e9, sample_weight=weights)
    assert weighted.inertia_ == pytest.approx(
        package.KMeans(K, init=first).fit(x, sample_weight=weights).inertia_, rel=1e-5
    )
    with pytest.raises(ValueError, match="does not match the number of clusters 3"):
        package.KMeans(K, init=first[:2] + 1e9).fit(x + 1e9)
    with pytest.raises(ValueError, match="init must have 2 dimensions"):
        package.KMeans(K, init=first[0] + 1e9).fit(x + 1e9)


def test_centroids_that_are_replaced_count(package: ModuleType, x: np.ndarray) -> None:
    own = package.KMeans(K, random_state=0).fit(x + 1e9)
    own.cluster_centers_ = own.cluster_centers_[::-1].copy()
    np.testing.assert_array_equal(own.predict(x + 1e9), K - 1 - own.labels_)


def test_large_integers_are_held_to_the_last_bit(package: ModuleType) -> None:
    wanted = np.arange(300) % 3
    rows = (2**60 + 100 * wanted + np.arange(300) % 7)[:, np.newaxis]
    own = package.KMeans(3, random_state=0).fit(rows)
    assert len(set(zip(own.labels_.tolist(), wanted.tolist(), strict=True))) == 3


def test_weights_do_what_repeated_rows_do(package: ModuleType, x: np.ndarray) -> None:
    weights = np.arange(len(x)) % 4
    first = x[[1, 9, 17]] + 1e9
    repeated = np.repeat(x + 1e9, weights, axis=0)
    far = x + 1e9
    far[weights == 0] = 1e18  # nobody counts these
    own = package.KMeans(K, init=first).fit(far, sample_weight=weights)
    other = package.KMeans(K, init=first).fit(repeated)
    np.testing.assert_array_equal(own.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(np.repeat(own.labels_, weights), other.labels_)


def _counted_twice(package: ModuleType, x: np.ndarray, weights: np.ndarray, k: int) -> object:
    """What is subtracted, once it is known that weights do what repeated rows do."""
    own = package.KMeans(k, random_state=0).fit(x, sample_weight=weights)
    other = package.KMeans(k, random_state=0).fit(np.repeat(x, weights, axis=0))
    assert own.cluster_centers_.tobytes() == other.cluster_centers_.tobytes()
    assert (np.repeat(own.labels_, weights) == other.labels_).all()
    np.testing.assert_array_equal(own._origin, other._origin)
    return own._origin


def test_how_rows_are_counted_does_not_decide_what_is_subtracted(package: ModuleType) -> None:
    warnings.simplefilter("ignore", package.RoundingWarning)
    random = np.random.default_rng(0)
    close = 1e6 + random.integers(0, 10, (10, 1)) * 0.01
    x = np.vstack([random.uniform(0, 2e6, (100, 1)), close])
    weights = np.r_[np.ones(100, int), np.full(10, 1000)]
    assert _counted_twice(package, x, weights, 4) is None
    assert _counted_twice(package, x + 1e9, weights, 4) == (x.min() + x.max()) / 2 + 1e9
    weights[:100] = 0  # and what is left is far from 0
    middle = (close.min() + close.max()) / 2
    assert _counted_twice(package, x, weights, 4) == pytest.approx(middle, abs=1e-9)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_column_that_is_far_off_does_not_spoil_others(
    package: ModuleType, dtype: str, count: int
) -> None:
    """The exact step would not resolve the second column next to the first."""
    random = np.random.default_rng(0)
    seconds = 1.7e9 + random.integers(0, 86400 * 30, 5000)
    x = np.c_[seconds, random.normal(size=5000)].astype(dtype)
    with pytest.raises(ValueError, match="cannot resolve"):
        package.lloyd(x.astype("f4"), x[:5].astype("f4"))
    middle = (x.min(axis=0).astype("f8") + x.max(axis=0)) / 2 * [1, 0]
    own, near = (package.KMeans(5, random_state=0).fit(given) for given in (x, x - middle))
    assert own.inertia_ == near.inertia_
    assert own.labels_.tobytes() == near.labels_.tobytes()
    assert own.cluster_centers_.dtype == dtype
    assert (own.cluster_centers_ == (near.cluster_centers_ + middle).astype(dtype)).all()
    assert (own.predict(x) == own.labels_).all()
    assert -own.score(x) == own.inertia_
    weights = random.integers(0, 2 * count, 5000)
    np.testing.assert_allclose(_counted_twice(package, x, weights, 5), middle, rtol=1e-3)


def test_rows_that_do_not_count_need_not_fit(package: ModuleType, x: np.ndarray) -> None:
    for far in (0.0, 1e9):
        alone = package.KMeans(K, random_state=0).fit(x + far)
        more = np.vstack([x + far, [[1e300, -1e300, 0, 0]]])
        weights = np.r_[np.ones(len(x)), 0]
        own = package.KMeans(K, random_state=0).fit(more, sample_weight=weights)
        assert own.cluster_centers_.tobytes() == alone.cluster_centers_.tobytes()
        assert own.labels_[:-1].tobytes() == alone.labels_.tobytes()
        assert own.inertia_ == alone.inertia_
        with pytest.raises(ValueError, match=r"X\[2000, 0\] is 1e\+300, which float32"):
            package.KMeans(K).fit(more)
        more[-1, :2] = np.inf, 0
        for infinite in (more, more.astype("f4")):
            with pytest.raises(ValueError, match="infinity"):
                package.KMeans(K).fit(infinite, sample_weight=weights)


def test_a_fit_that_fails_changes_nothing(package: ModuleType, x: np.ndarray) -> None:
    def interrupted(X: np.ndarray, k: int, random_state: object) -> None:
        raise KeyboardInterrupt

    def fails(own: object, far: float) -> None:
        given = x + far
        with pytest.raises(ValueError, match="NaN"):
            own.fit(np.full((10, 2), np.nan))
        with pytest.raises(ValueError, match="at least 0"):
            own.fit(given[:, :2], sample_weight=-np.ones(len(x)))
        own.init = interrupted
        with pytest.raises(KeyboardInterrupt):
            own.fit(given[:, :2])
        own.init = "ward"

    for far, other in ((1e9, 0), (0, 1e9)):
        own = package.KMeans(K, random_state=0).fit(x + far)
        before = dict(vars(own))
        fails(own, other)
        assert {*vars(own)} == {*before}
        assert all(vars(own)[name] is value for name, value in before.items())
        np.testing.assert_array_equal(own.predict(x + far), own.labels_)


def test_an_estimator_that_was_never_fitted_here_predicts(
    package: ModuleType, x: np.ndarray
) -> None:
    own = package.KMeans(K)
    own.cluster_centers_ = x[:K]
    assert own.predict(x).tolist() == package.nearest(x, x[:K]).tolist()


def test_what_does_not_fit_is_refused_by_name(package: ModuleType, x: np.ndarray) -> None:
    for init, reason in ((x[:K, :2], "number of features of the data 4"), (3, "init")):
        with pytest.raises((TypeError, ValueError), match=reason):
            package.KMeans(K, init=init).fit(x + 1e9)
    own = package.KMeans(K, random_state=0).fit(x + 1e9)
    own.cluster_centers_ = x[:K, :2]
    with pytest.raises(ValueError, match="columns"):
        own.predict(x + 1e9)


def test_where_that_is_not_enough_a_warning_says_so(package: ModuleType, x: np.ndarray) -> None:
    apart = x.copy()
    apart[:1000] += 1e12
    with pytest.warns(package.RoundingWarning):
        package.KMeans(K, random_state=0).fit(apart)
    # By cosine rows are not moved: directions are from the origin.
    warnings.simplefilter("ignore", pytest.importorskip("sklearn.exceptions").ConvergenceWarning)
    with pytest.warns(package.RoundingWarning):
        package.KMeans(K, random_state=0, metric="cosine").fit(x + 1e9)


def test_a_column_some_ranges_off_loses_its_middle(package: ModuleType) -> None:
    rng = np.random.default_rng(3)
    near = rng.integers(0, 3000, size=(400, 1)).astype("f8")
    x = 1e9 + near + 3.2e7 * (np.arange(400) % 2)[:, np.newaxis]
    # Without a warning: float32 holds what is left.
    found = package.KMeans(2, random_state=0).fit(x).cluster_centers_
    assert np.sort(found[:, 0]) == pytest.approx([x[::2].mean(), x[1::2].mean()], abs=1)


def test_the_ends_of_columns_are_found_without_copies(package: ModuleType) -> None:
    warnings.simplefilter("ignore", pytest.importorskip("sklearn.exceptions").ConvergenceWarning)
    x = np.random.default_rng(3).normal(size=(150, 20000)).astype("f4")
    tracemalloc.start()
    try:
        package.KMeans(2, random_state=0, max_iter=1).fit(x)
        assert tracemalloc.get_traced_memory()[1] < x.nbytes / 4
    finally:
        tracemalloc.stop()
