# SPDX-License-Identifier: Apache-2.0
"""Points far from the origin, which float32 holds once the middle of their range is subtracted."""

from __future__ import annotations

import pickle
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
