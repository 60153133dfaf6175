# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, after scikit-learn's example "A demo of K-Means clustering on the handwritten
digits data"; from four starts."""

from time import perf_counter

from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

data, digits = load_digits(return_X_y=True)
components = PCA(n_components=10).fit(data).components_

for name, start in (
    ("default start", {"n_init": 4}),
    ("k-means++", {"init": "k-means++", "n_init": 4}),
    ("random", {"init": "random", "n_init": 4}),
    ("PCA", {"init": components, "n_init": 1}),
):
    model = KMeans(n_clusters=10, random_state=0, **start)
    begin = perf_counter()
    pipeline = make_pipeline(StandardScaler(), model).fit(data)
    fitted = perf_counter()
    rand = adjusted_rand_score(digits, pipeline[-1].labels_)
    print(f"{name}, fit: {fitted - begin:.4f} s, inertia: {model.inertia_:.7g}, Rand: {rand:.3f}")
