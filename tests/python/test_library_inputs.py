# SPDX-License-Identifier: Apache-2.0
"""kmeans_exact where it is given what it cannot take, or cannot take as it is."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

POINTS = np.array([[0.0, 1], [1, 0], [10, 11], [11, 10], [5, 5]])


def _paths(package) -> dict[str, Callable[[object], object]]:
    """Every way of rows into the library."""
    paths = {
        "lloyd": lambda x: package.lloyd(x, POINTS[:2]),
        "init": lambda x: package.lloyd(POINTS, x),
        "kmeans_plusplus": lambda x: package.kmeans_plusplus(x, 1),
        "ward_start": lambda x: package.ward_start(x, 1),
        "nearest": lambda x: package.nearest(x, POINTS[:2]),
        "centroids": lambda x: package.nearest(POINTS, x),
    }
    try:
        fitted = package.KMeans(2, random_state=0).fit(POINTS)
    except AttributeError:  # without scikit-learn
        return paths
    return paths | {
        "fit": lambda x: package.KMeans(2, random_state=0).fit(x),
        "first": lambda x: package.KMeans(2, init=x).fit(POINTS),
        "predict": fitted.predict,
        "transform": fitted.transform,
        "score": fitted.score,
    }


def _sparse() -> object:
    return pytest.importorskip("scipy.sparse").csr_matrix(POINTS[:2])


REFUSED = {
    "masked": (lambda: np.ma.masked_greater(POINTS[:2], 0.5), "is masked in 2 places"),
    "rows masked": (lambda: list(np.ma.masked_greater(POINTS[:2], 0.5)), "is masked in 1 places"),
    "sparse": (_sparse, r"is sparse \(csr_matrix\); dense rows are needed, as \w+\.toarray"),
    "complex": (lambda: POINTS[:2].astype("c8"), "is complex64. Complex data not supported"),
    "text": (lambda: POINTS[:2].astype(str), "is of dtype <U32; real numbers are needed"),
    "in lists masked": (lambda: [[1.0, np.ma.masked], [2.0, 3.0]], "is masked in 1 places"),
    "dates as objects": (
        lambda: np.array([[np.datetime64("2020-01-01"), 1.0]] * 2, dtype=object),
        r"\[0, 0\] is .*datetime64",
    ),
    "spans in lists": (lambda: [[0.0, np.timedelta64(3, "s")]] * 2, r"\[0, 1\] is .*timedelta64"),
    "dates": (lambda: POINTS[:2].astype("M8[s]"), "is of dtype datetime64"),
    "text as objects": (lambda: np.array([[1, "1.5"]] * 2, dtype=object), r"\[0, 1\] is '1.5'"),
    "nothing": (lambda: np.array([[1, 2], [None, 0]], dtype=object), r"\[1, 0\] is None"),
    "no table": (
        lambda: None,
        "is None; a table of numbers is needed|init must be 'ward', 'k-means",
    ),
    "ragged": (lambda: [[1.0, 2], [3]], "inhomogeneous"),
    "one dimension": (lambda: POINTS[0], "2 dimensions|2D array|2-dim"),
    "three dimensions": (lambda: POINTS[None], "2 dimensions|dim 3"),
    "no rows": (lambda: POINTS[:0], r"is 0 x 2; at least one row|0 sample"),
    "no columns": (lambda: POINTS[:2, :0], r"is 2 x 0; at least one row|0 feature"),
    "not finite": (lambda: np.array([[0, np.nan], [1, 1]]), "coordinate 1 is nan|contains NaN"),
    "infinite": (lambda: np.array([[0, -np.inf], [1, 1]]), "coordinate 1 is -inf|infinity"),
    "beyond float32": (
        lambda: np.array([[0, 1e300], [1, 1]]),
        r"\[0, 1\] is 1e\+300, which float32",
    ),
    "beyond float64": (lambda: [[0, 10**400], [1, 1]], "int too large|is too large|no float64"),
    "other columns": (lambda: [[0.0, 1, 2], [1, 0, 2]], r"columns|2 features|must be 2 x 2"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_every_path_refuses_by_name(package, kind: str) -> None:
    make, reason = REFUSED[kind]
    for name, call in _paths(package).items():
        if kind == "other columns" and name in ("kmeans_plusplus", "ward_start", "fit"):
            continue  # which have nothing to compare with
        with pytest.raises((TypeError, ValueError, OverflowError), match=reason):
            pytest.fail(f"{name} took what is {kind}: {call(make())}")


def test_masks_in_lists_of_any_depth_are_refused(package) -> None:
    rows = [np.ma.array([1.0, 999], mask=[0, 1]), [2, 3]]
    with pytest.raises(ValueError, match="x is masked in 1 places"):
        package.ward_start_batch([rows], 1)
    with pytest.raises(ValueError, match="init is masked in 1 places"):
        package.lloyd_batch([POINTS], [(tuple(rows))])


def test_errors_are_of_the_kinds_that_scikit_learn_has(package) -> None:
    """Its InvalidParameterError is a ValueError and a TypeError."""
    pytest.importorskip("sklearn")
    wrong = [{"n_clusters": "8"}, {"n_clusters": 3.0}, {"n_init": "x"}, {"tol": "x"}, {"tol": -1}]
    wrong += [{"max_iter": 0}, {"init": "x"}, {"algorithm": "x"}, {"copy_x": 1}, {"verbose": -1}]
    for kind in (ValueError, TypeError):
        for what in wrong:
            with pytest.raises(kind):
                package.KMeans(**{"n_clusters": 2, **what}).fit(POINTS)
        for x in (None, [[None, 1.0], [0, 1]], [["a", "b"]] * 2):
            with pytest.raises(kind):
                package.KMeans(1).fit(x)


def test_what_loses_nothing_is_taken(package) -> None:
    right = package.lloyd(POINTS, POINTS[:2]).labels
    unmasked = np.ma.masked_greater(POINTS, 100)
    taken = [unmasked, POINTS.astype(object), POINTS.astype("f2"), POINTS.astype(np.longdouble)]
    taken += [POINTS.tolist(), POINTS.astype("u1"), np.asfortranarray(POINTS), POINTS.astype(">f8")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for points in taken:
            assert (package.lloyd(points, POINTS[:2]).labels == right).all()
        assert (
            package.lloyd(POINTS > 2, [[False, False], [True, True]]).labels == [0, 0, 1, 1, 1]
        ).all()


SECONDS = 1700000000 + np.array([[0], [1], [40], [41]])


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f8", "O"])
def test_rounding_that_merges_groups_is_a_warning_on_every_path(package, dtype: str) -> None:
    def rounds(call: Callable[[], object]) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        (warning,) = (one for one in caught if one.category is package.RoundingWarning)
        assert re.search("rounded from .* to float32, which m", str(warning.message))
        assert warning.filename == __file__

    points = SECONDS.astype(dtype)
    rounds(lambda: package.lloyd(points, points[:2].astype("f4")))
    rounds(lambda: package.kmeans_plusplus(points, 2))
    rounds(lambda: package.nearest(points, points[:2].astype("f4")))
    # The estimator subtracts the middle only of what is far from 0.
    points = np.append(SECONDS, [[0]], axis=0).astype(dtype)
    ConvergenceWarning = pytest.importorskip("sklearn.exceptions").ConvergenceWarning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", package.RoundingWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = package.KMeans(2, random_state=0).fit(points)
    rounds(lambda: package.KMeans(2, random_state=0).fit(points))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # next to centroids so far apart it is no matter
        for call in (model.predict, model.transform, model.score):
            call(points)
    model = package.KMeans(2)
    model.cluster_centers_ = np.array([[1.7e9], [1.7e9 + 128]])
    for call in (model.predict, model.transform, model.score):
        rounds(lambda call=call: call(points[:4]))


@pytest.mark.parametrize(
    ("points", "rounds"),
    [
        (SECONDS - SECONDS[0], False),
        (np.arange(2**24 - 500, 2**24, dtype="i8")[:, None], False),
        (np.arange(2**25, 2**25 + 500, dtype="i8")[:, None], True),
        (np.random.default_rng(1).normal(size=(5000, 3)), False),
        (np.random.default_rng(1).normal(1000, 1, size=(5000, 3)), False),
        (np.random.default_rng(1).normal(1000, 0.01, size=(5000, 3)), True),
        (np.random.default_rng(1).normal(1e8, 1000, size=(20, 3)), True),
        (np.append(np.random.default_rng(1).normal(size=(500, 1)), [[1e9 / 7]], axis=0), False),
        (np.full((9, 2), 0.1), False),
    ],
)
def test_rounding_that_changes_nobody_is_no_warning(package, points, rounds: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        package.nearest(points, points[:2].astype("f4"))
    assert [one.category for one in caught] == [package.RoundingWarning] * rounds


def test_few_rows_are_judged_beside_others(package) -> None:
    x = np.random.default_rng(5).normal(size=(300, 3))
    few = np.array([[0.3, 0, 0], [0.3 + 1e-12, 1, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        package.lloyd(x, few)
        package.Points(x).lloyd(few)
        package.nearest(few, x[:5])
        package.distances(few, x[:5])
        package.inertia(few, x[:5])
        package.nearest(x, few)
        package.lloyd(
            [[0.3, 0], [0.1 + 0.2, 1]], [[0, 0], [1, 1]]
        )  # equal but for float64's rounding
    with pytest.warns(package.RoundingWarning, match="subtract .* rows and centroids have"):
        package.Points(few.astype("f4")).nearest(few)
    pytest.importorskip("sklearn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = package.KMeans(2, init=few).fit(x)
        for call in (model.predict, model.transform, model.score):
            call(few)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ({"iterations": 2.7}, "iterations is 2.7; it must be an integer, from 1"),
        ({"iterations": True}, "iterations is True; it must be an integer"),
        ({"iterations": 0}, "iterations is 0; it must be from 1"),
        ({"threads": 4097}, "threads is 4097; it must be from 0 to 4096"),
        ({"threads": -1}, "threads is -1; it must be from 0 to 4096"),
        ({"threads": "2"}, "threads is '2'; it must be an integer"),
        ({"device": 0}, "device must be 'cpu', 'gpu' or 'any', not 0"),
        ({"stop": True}, "stop must be None or 'labels', not True"),
        ({"stop": np.ones(2)}, "stop must be None or 'labels', not array"),
    ],
)
def test_arguments_of_lloyd_are_refused_by_name(package, what: dict, reason: str) -> None:
    with pytest.raises((TypeError, ValueError), match=reason):
        package.lloyd(POINTS, POINTS[:2], **what)


def test_arguments_of_functions_are_refused_by_name(package) -> None:
    with pytest.raises(
        TypeError, match=r"init is 3; it must be the first centroids.*_plusplus\(x, 3"
    ):
        package.lloyd(POINTS, 3)
    with pytest.raises(ValueError, match="k is 6; it must be from 1 to 5; there are 5 points"):
        package.kmeans_plusplus(POINTS, 6)
    with pytest.raises(ValueError, match=r"k is 10{18}; it must be from 1 to 5"):
        package.kmeans_plusplus(POINTS, 10**18)
    with pytest.raises(TypeError, match=r"k is 2\.0; it must be an integer"):
        package.kmeans_plusplus(POINTS, 2.0)
    with pytest.raises(ValueError, match="seed is -1; it must be from 0 to 18446744073709551615"):
        package.kmeans_plusplus(POINTS, 2, -1)
    assert package.kmeans_plusplus(POINTS, np.int8(2), 2**64 - 1).shape == (2, 2)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ({"init": POINTS[:3]}, r"\(3, 2\) does not match the number of clusters 2; .* be 2 x 2"),
        ({"init": POINTS[:2, :1]}, r"\(2, 1\) does not match the number of features of the data 2"),
        (
            {"init": lambda X, k, random_state: X[:3]},
            r"init: .* \(3, 2\) does not match the number",
        ),
        ({"init": 2}, "init is 2; it must be the first centroids"),
        ({"init": "forgy"}, "init must be 'ward', .*, an array or a callable, not 'forgy'"),
        ({"init": None}, "init must be 'ward', .*, an array or a callable, not None"),
        ({"init": "random", "random_state": 2**32}, "random_state|Seed must be between 0 and 2"),
        ({"algorithm": "full"}, "algorithm must be 'lloyd' or 'elkan', not 'full'"),
        ({"copy_x": 1}, "copy_x is 1; it must be True or False"),
        ({"verbose": -1}, "verbose is -1; it must be at least 0"),
        ({"tol": -1e-4}, "tol is -0.0001; it must be a number, at least 0"),
        ({"n_clusters": 3.5}, "n_clusters is 3.5; it must be an integer"),
        ({"n_clusters": POINTS}, r"n_clusters is array\(\["),
        ({"n_clusters": 0}, "n_clusters is 0; it must be at least 1"),
        ({"n_clusters": 10**18}, "n_samples=5 should be >= n_clusters=10{18}"),
        ({"max_iter": 2.7}, "max_iter is 2.7; it must be an integer"),
        ({"n_init": "always"}, "n_init is 'always'; it must be an integer, at least 1, or 'auto'"),
        ({"n_init": 0}, "n_init is 0; it must be at least 1"),
        ({"random_state": -1}, "random_state is -1; it must be from 0"),
        ({"random_state": 1.5}, "random_state: 1.5 cannot be used to seed"),
        ({"n_threads": 10**6}, "n_threads is 1000000; it must be from 0 to 4096"),
        ({"device": "cuda"}, "device must be 'cpu', 'gpu' or 'any', not 'cuda'"),
    ],
)
def test_arguments_of_the_estimator_are_refused_by_name(package, what: dict, reason: str) -> None:
    pytest.importorskip("sklearn")
    with pytest.raises((TypeError, ValueError), match=reason):
        package.KMeans(**{"n_clusters": 2, **what}).fit(POINTS)


def test_nearest_gives_the_lowest_of_float64_distances(package) -> None:
    random = np.random.default_rng(3)
    points = random.integers(-4, 5, size=(4000, 3)).astype("f4")  # many ties
    centroids = random.integers(-4, 5, size=(40, 3)).astype("f4")
    distances = ((points[:, None].astype("f8") - centroids) ** 2).sum(axis=2)
    for threads in (1, 3):
        found = package.nearest(points, centroids, threads=threads)
        assert found.dtype == np.int32
        assert (found == distances.argmin(axis=1)).all()
    assert (package.nearest(points[:3], centroids) == distances[:3].argmin(axis=1)).all()
    # Whatever else is in the batch, which lloyd() refuses to add up.
    batch = np.append(points, [[1e30, 0, 0], [-3e38, 3e38, 0]], axis=0).astype("f4")
    assert (package.nearest(batch, centroids)[:-2] == distances.argmin(axis=1)).all()
    with pytest.raises(ValueError, match="cannot resolve these points"):
        package.lloyd(batch, centroids)


def test_predict_does_not_depend_on_the_batch(package) -> None:
    pytest.importorskip("sklearn")
    model = package.KMeans(2, random_state=0).fit([[0.0], [1], [10], [11]])
    alone = [model.predict([[value]])[0] for value in (0.3, 10.7, 1e14)]
    assert (model.predict([[0.3], [10.7], [1e14]]) == alone).all()


def test_the_estimator_in_scikit_learns_company(package) -> None:
    pytest.importorskip("sklearn")
    points = np.random.default_rng(5).normal(1000, 1, size=(3000, 4))
    model = package.KMeans(7, random_state=1).fit(points)
    assert (model.transform(points).argmin(axis=1) == model.predict(points)).all()
    assert model.transform(points.astype("f4")).dtype == np.float32
    assert model.score(points) == pytest.approx(-model.inertia_)
    assert model.get_feature_names_out().tolist() == [f"kmeans{j}" for j in range(7)]
    assert model.cluster_centers_.dtype == np.float64
    assert package.KMeans(7).fit(points.astype("f4")).cluster_centers_.dtype == np.float32


def test_random_rows_are_those_of_scikit_learn(package) -> None:
    """By where one iteration leads from them."""
    cluster = pytest.importorskip("sklearn.cluster")
    points = np.random.default_rng(5).normal(size=(300, 4))
    for seed in (0, 7):
        how = {"init": "random", "random_state": seed, "n_init": 1, "max_iter": 1, "tol": 0}
        ours = package.KMeans(9, **how).fit(points)
        theirs = cluster.KMeans(9, **how).fit(points)
        assert np.allclose(ours.cluster_centers_, theirs.cluster_centers_, atol=1e-6)


def test_runs_of_several_seeds_follow_one_random_state(package) -> None:
    pytest.importorskip("sklearn")
    points = np.random.default_rng(5).normal(size=(300, 4)).astype("f4")
    seen = []

    def init(X, k, random_state):
        seen.append(random_state.choice(len(X), size=k, replace=False))
        rows = X[seen[-1]]
        X[:] = 7  # as with scikit-learn it may; here no run sees it
        return rows

    before = points.tobytes()
    model = package.KMeans(5, init=init, random_state=3).fit(points)
    assert len(seen) == 10
    assert points.tobytes() == before
    right = np.random.RandomState(3)
    assert all((rows == right.choice(300, size=5, replace=False)).all() for rows in seen)
    single = [
        package.inertia(points, package.lloyd(points, points[rows], tol=1e-4)[0]) for rows in seen
    ]
    assert model.inertia_ == min(single)
    for random_state in (np.random.RandomState(3), np.int64(3), None):
        package.KMeans(5, random_state=random_state).fit(points)


def test_the_estimator_says_what_its_runs_did(package, capsys) -> None:
    pytest.importorskip("sklearn")
    points = np.random.default_rng(5).normal(size=(300, 4))
    model = package.KMeans(4, random_state=0, verbose=1, tol=None).fit(points)
    said = capsys.readouterr().out
    assert f"Iteration {model.n_iter_ - 1}, inertia {model.inertia_}." in said
    assert "strict convergence" in said
    package.KMeans(4, random_state=0, verbose=1, tol=1e-1).fit(points)
    assert "center shift is within tolerance 0.1" in capsys.readouterr().out
    package.KMeans(4, random_state=0, verbose=1, max_iter=1).fit(points)
    assert "Converged" not in capsys.readouterr().out


def test_distances_are_roots_of_the_exact_steps_squares(package) -> None:
    random = np.random.default_rng(3)
    points = (random.normal(size=(900, 7)) * 3).astype("f4")
    for k in (1, 5, 40, 1200):
        centroids = (random.normal(size=(k, 7)) * 3).astype("f4")
        squares = np.zeros((900, k))
        for t in range(7):  # ascending, each operation rounded
            difference = points[:, t, None].astype("f8") - centroids[:, t].astype("f8")
            squares += difference * difference
        for threads in (1, 3):
            found = package.distances(points, centroids, threads=threads)
            assert found.tobytes() == np.sqrt(squares).tobytes()
        short = package.distances(points, centroids, dtype=np.float32)
        assert short.tobytes() == np.sqrt(squares).astype("f4").tobytes()
        labels = package.nearest(points, centroids)
        assert (labels == squares.argmin(axis=1)).all()
        total = 0.0
        for square in squares[np.arange(900), labels]:
            total += square
        assert package.inertia(points, centroids, labels, threads=2) == total
        assert package.inertia(points, centroids) == total
    with pytest.raises(ValueError, match="dtype must be float32 or float64, not int32"):
        package.distances(points, centroids, dtype="i4")
    for wrong in (-1, 1200, 2**40):
        spoilt = labels.astype(np.int64)
        spoilt[3] = wrong
        with pytest.raises(ValueError, match=r"label 3 is .*; it must be from 0 to 1199"):
            package.inertia(points, centroids, spoilt)
    with pytest.raises(ValueError, match="it must be 900 integers, one for each row"):
        package.inertia(points, centroids, labels[1:])


@pytest.mark.parametrize("d", [2, 9, 40])
def test_labels_alone_are_those_of_an_iteration(package, d: int) -> None:
    """Of kept points too, whose engine has been at work, and goes to work again."""
    random = np.random.default_rng(d)
    points = (random.normal(size=(30000, d)) + 4 * random.integers(0, 9, size=(30000, 1))).astype(
        "f4"
    )
    kept = package.Points(points, threads=2)
    for k in (3, 60):
        init = points[:k]
        by_iteration = package.lloyd(points, init, iterations=1, stop=None).labels
        for _ in range(2):
            assert (kept.nearest(init) == by_iteration).all()
            run = kept.lloyd(init, iterations=12, stop=None)
            alone = package.lloyd(points, init, iterations=12, stop=None)
            assert run.centroids.tobytes() == alone.centroids.tobytes()
            assert run.labels.tobytes() == alone.labels.tobytes()
        one_by_one = [kept.nearest(init)[i] for i in range(5)]
        assert one_by_one == [package.nearest(points[i : i + 1], init)[0] for i in range(5)]


def test_the_estimator_does_not_read_rows_only_to_look_for_nan(
    package, monkeypatch: pytest.MonkeyPatch
) -> None:
    validation = pytest.importorskip("sklearn.utils.validation")
    points = np.random.default_rng(5).normal(size=(300, 4)).astype("f4")
    model = package.KMeans(3, random_state=0).fit(points)
    calls = (package.KMeans(3).fit, model.predict, model.transform, model.score)
    looked: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(validation, "_assert_all_finite", lambda *given, **_: looked.append(given))
        for call in calls:
            call(points)
    assert looked == []
    for bad, reason in ((np.nan, "Input X contains NaN"), (-np.inf, "Input X contains infinity")):
        spoiled = points.copy()
        spoiled[7, 1] = bad
        for call in calls:
            with pytest.raises(ValueError, match=reason):
                call(spoiled)


def test_the_estimator_in_others_hands(package, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied, pickled, in a pipeline, in processes of a search."""
    joblib = pytest.importorskip("joblib")
    monkeypatch.syspath_prepend(str(Path(package.__file__).parents[1]))  # for other processes
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    points = np.random.default_rng(5).normal(size=(300, 4))
    weights = np.random.default_rng(6).integers(1, 4, size=300)
    model = package.KMeans(5, random_state=2, tol=1e-3).fit(points, sample_weight=weights)
    again = base.clone(model)
    assert again.get_params() == model.get_params()
    assert again.fit(points, sample_weight=weights).inertia_ == model.inertia_
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert copied.cluster_centers_.tobytes() == model.cluster_centers_.tobytes()
        assert (copied.predict(points) == model.labels_).all()
    line = pipeline.make_pipeline(preprocessing.StandardScaler(), package.KMeans(random_state=0))
    search = selection.GridSearchCV(line, {"kmeans__n_clusters": [2, 3]}, cv=2, n_jobs=2)
    assert search.fit(points).best_params_ == {"kmeans__n_clusters": 3}
    assert np.isfinite(search.score(points))
    both = joblib.Parallel(n_jobs=2)(
        joblib.delayed(base.clone(model).fit)(points, sample_weight=weights) for _ in range(2)
    )
    assert [one.inertia_ for one in both] == [model.inertia_] * 2
    both = joblib.Parallel(n_jobs=2, backend="threading")(
        joblib.delayed(base.clone(model).fit)(points, sample_weight=weights) for _ in range(4)
    )
    assert [one.inertia_ for one in both] == [model.inertia_] * 4
    assert (model.fit_transform(points) == model.transform(points)).all()
    assert (model.fit_predict(points) == model.labels_).all()
