# SPDX-License-Identifier: Apache-2.0
"""A photograph in 64 colours, after scikit-learn's example "Color Quantization using K-Means".

The centroids of a thousand pixels, then the nearest one of every pixel; and those of all pixels.
"""

from time import perf_counter

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_image
from sklearn.utils import shuffle

COLOURS = 64

picture = np.array(load_sample_image("china.jpg"), dtype=np.float64) / 255
pixels = picture.reshape(-1, 3)
sample = shuffle(pixels, random_state=0, n_samples=1_000)

for name, rows in (("1 000 pixels", sample), ("all pixels", pixels)):
    begin = perf_counter()
    model = KMeans(n_clusters=COLOURS, random_state=0).fit(rows)
    fitted = perf_counter()
    labels = model.predict(pixels)
    predicted = perf_counter()
    quantised = model.cluster_centers_[labels]
    print(
        f"{name}, fit: {fitted - begin:.4f} s, predict: {predicted - fitted:.4f} s, "
        f"inertia: {((pixels - quantised) ** 2).sum():.7g}"
    )
