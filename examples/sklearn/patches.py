# SPDX-License-Identifier: Apache-2.0
"""Parts of pictures, after scikit-learn's example "Online learning of a dictionary of parts of
faces": 81 centroids of patches of 8 x 8 pixels, without their mean and of equal deviation.

From two photographs, since the faces would have to be downloaded, and of all patches at once.
"""

from time import perf_counter

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

pictures = [picture.mean(axis=2) for picture in load_sample_images().images]
patches = np.concatenate(
    [
        extract_patches_2d(picture, (8, 8), max_patches=20_000, random_state=0).reshape(-1, 64)
        for picture in pictures
    ]
)
patches -= patches.mean(axis=0)
patches /= patches.std(axis=0)

begin = perf_counter()
model = KMeans(n_clusters=81, random_state=0).fit(patches)
fitted = perf_counter()
model.predict(patches)
print(
    f"patches, fit: {fitted - begin:.4f} s, predict: {perf_counter() - fitted:.4f} s, "
    f"inertia: {model.inertia_:.7g}"
)
