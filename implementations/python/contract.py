# SPDX-License-Identifier: Apache-2.0
"""The contract between the suite and a k-means variant written in Python.

A variant is one file ``python_<x>.py`` in this folder; its name is the file's. It defines

* ``TRAITS``, a dictionary that describes the variant without running it (keys: below), and
* one subclass of :class:`Variant`.

Describing variants must stay cheap, so the file imports its library inside ``setup``, never at the
top. The suite reads the clock, the points and the centroids; a variant sees none of that machinery.
docs/python-backend.md says how the pieces fit together.
"""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

PRECISIONS = ("f64", "f32", "tf32", "f16", "bf16")

#: Every key of TRAITS with its default; the type of the default is the type of the key. They mean
#: what the fields of the same name in harness/variant.h mean.
DEFAULTS: dict[str, Any] = {
    "summary": "",  # one line: the idea
    "source": "",  # source id or library
    "precisions": ["f32"],  # of PRECISIONS; the first one is the default
    "exact": False,
    "deterministic": True,
    "parallel": False,
    "gpu": False,  # runs on a GPU: a visible one is needed, and requirements-gpu.txt
    # Shares its points among the first `gpus` visible GPUs (Variant.gpus), and works on one.
    "many_gpus": False,
    "skips_work": False,
    "distance": "direct",  # or "expanded"
    "centres": False,
    "labels_of": "starting",  # or "returned"
    "empty_clusters": "keep",  # or "relocate"
    "timing_note": "",
    "setup_note": "",  # the start of Python and the imports apart, which the suite says itself
    # Distributions, as pip names them, without which the variant cannot run; their versions are
    # recorded with every result.
    "requires": [],
    # Of some of them the oldest version that will do: {"cuvs-cu13": "26.8"}.
    "at_least": {},
    # What to do where one is missing or too old, if no file of the suite brings it.
    "remedy": "",
    # The file that brings them, named where one is missing; of GPU variants always
    # requirements-gpu.txt.
    "requirements": "requirements.txt",
    # Bytes needed besides the worker's own copy of the points: a sum of terms, product -> factor,
    # the products of n, d, k and scalar (bytes of a coordinate): {"n*k*scalar": 1, "n": 8}.
    "memory_bytes": {},
    # GPU variants: bytes needed on the device, points included, as a sum of terms as above.
    "device_bytes": {},
    # Shapes the library cannot take: [{"terms": {"n*d": 1}, "at_most": 2147483647,
    # "reason": "why"}], the terms as above; "multiple_of" may stand for "at_most", and
    # "precisions" may name those that the limit is for.
    "limits": [],
}

CHOICES = {
    "distance": ("direct", "expanded"),
    "labels_of": ("starting", "returned"),
    "empty_clusters": ("keep", "relocate"),
}


class DeviceClock(ABC):
    """Measures with events of the device what the host clock measures around ``step``."""

    @abstractmethod
    def begin(self) -> None:
        """Mark the start in the device's stream of work."""

    @abstractmethod
    def end(self) -> float:
        """Seconds on the device since ``begin``, after waiting for it."""


class Variant(ABC):
    """One clustering of one set of points.

    Calls come in the order ``setup``, then any number of ``reset``, ``step`` and ``fetch``, always
    ``reset`` before the first ``step``.
    """

    #: Arithmetic of the distances, one of TRAITS["precisions"]; set before ``setup`` is called.
    precision: str = "f32"

    #: GPUs that share the points, the first ones that CUDA shows this process; set before ``setup``
    #: is called, and more than 1 only with TRAITS["many_gpus"].
    gpus: int = 1

    @abstractmethod
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        """Import, allocate, convert: not part of an iteration's time.

        ``points`` is n x d, C-contiguous, float64 for the precision f64 and float32 otherwise,
        resident in memory and read-only. ``threads`` CPU threads may be used; OpenMP and BLAS are
        limited to that number already.
        """

    @abstractmethod
    def reset(self, centroids: np.ndarray) -> None:
        """Go back to these initial centroids (k x d, the points' dtype); the array is ours."""

    @abstractmethod
    def step(self, iterations: int) -> int | None:
        """Run this many Lloyd iterations from the current centroids: this is what is timed.

        Returns only when the work is done, on a device too. A library that may stop before that
        count returns how many iterations it ran.
        """

    @abstractmethod
    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        """The current centroids (k x d) and the labels (n) of the last iteration."""

    def device_clock(self) -> DeviceClock | None:
        """GPU variants: a clock of the device that ``step`` runs on; asked for after ``setup``."""
        return None

    def library_info(self) -> dict[str, str]:
        """What results should record of the library besides versions; asked for after ``setup``."""
        return {}


class TraitsError(ValueError):
    """TRAITS is not what the contract asks for."""


def filled_in(
    traits: object, defaults: dict[str, Any], choices: dict[str, tuple[str, ...]]
) -> dict[str, Any]:
    """TRAITS with these defaults; raises TraitsError where a key, its type or a choice is wrong."""
    if not isinstance(traits, dict):
        raise TraitsError("TRAITS is not a dictionary")
    for key in traits:
        if key not in defaults:
            near = difflib.get_close_matches(str(key), defaults, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(defaults)}"
            raise TraitsError(f"TRAITS has the unknown key '{key}'; {hint}")
    filled = defaults | traits
    for key, default in defaults.items():
        if type(filled[key]) is not type(default):
            raise TraitsError(f"TRAITS['{key}'] must be a {type(default).__name__}")
    for key, allowed in choices.items():
        if filled[key] not in allowed:
            raise TraitsError(f"TRAITS['{key}'] must be one of {', '.join(allowed)}")
    return filled


def check_traits(traits: object) -> dict[str, Any]:
    """TRAITS with the defaults filled in; raises TraitsError saying what is wrong in it."""
    checked = filled_in(traits, DEFAULTS, CHOICES)
    if not checked["summary"]:
        raise TraitsError("TRAITS['summary'] is missing: one line that says the idea")
    if not checked["precisions"] or set(checked["precisions"]) - set(PRECISIONS):
        raise TraitsError(f"TRAITS['precisions'] must list some of {', '.join(PRECISIONS)}")
    for key in ("memory_bytes", "device_bytes"):
        _check_terms(key, checked[key])
    if checked["device_bytes"] and not checked["gpu"]:
        raise TraitsError("TRAITS['device_bytes'] is for variants with 'gpu': True")
    if checked["many_gpus"] and not checked["gpu"]:
        raise TraitsError("TRAITS['many_gpus'] is for variants with 'gpu': True")
    _check_versions(checked["at_least"], checked["requires"])
    for limit in checked["limits"]:
        _check_limit(limit)
    return checked


def _check_versions(at_least: dict[str, object], requires: list[str]) -> None:
    for name, version in at_least.items():
        if name not in requires:
            raise TraitsError(f"TRAITS['at_least'] names {name}, which 'requires' does not")
        if not isinstance(version, str) or not re.fullmatch(r"\d+(\.\d+)*", version):
            raise TraitsError(f"TRAITS['at_least']: the version of {name} must be as '26.10'")


def _check_limit(limit: object) -> None:
    required, bounds = {"terms", "reason"}, {"at_most", "multiple_of"}
    if (
        not isinstance(limit, dict)
        or set(limit) - {"precisions"} - bounds != required
        or len(set(limit) & bounds) != 1
    ):
        raise TraitsError(
            "each of TRAITS['limits'] must have terms, at_most (or multiple_of) and reason; "
            "precisions may be there too"
        )
    if "multiple_of" in limit and not limit["multiple_of"] >= 1:
        raise TraitsError("multiple_of in TRAITS['limits'] must be at least 1")
    if set(limit.get("precisions", ())) - set(PRECISIONS):
        raise TraitsError(f"precisions in TRAITS['limits'] are some of {', '.join(PRECISIONS)}")
    _check_terms("limits", limit["terms"])


def _check_terms(key: str, terms: object) -> None:
    if not isinstance(terms, dict):
        raise TraitsError(f"TRAITS['{key}'] must map products such as 'n*k' to factors")
    for product, factor in terms.items():
        if set(str(product).split("*")) - {"n", "d", "k", "scalar", "1"}:
            raise TraitsError(
                f"TRAITS['{key}']: '{product}' is not a product of n, d, k, scalar and 1"
            )
        if isinstance(factor, bool) or not isinstance(factor, (int, float)):
            raise TraitsError(f"TRAITS['{key}']: the factor of '{product}' must be a number")
