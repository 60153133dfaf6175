# SPDX-License-Identifier: Apache-2.0
"""The contract between the suite and a library's whole fit.

An estimator is one file ``fit_<x>.py`` in this folder, or a file of anybody's that an experiment
names by its path. It defines

* ``TRAITS``, a dictionary with the keys of :data:`DEFAULTS`, and
* one subclass of :class:`Estimator`.

The library is imported in ``setup``, not at the top. The suite reads the clock, computes the
inertia of what comes back, and looks whether labels belong to centroids; docs/fits.md says how.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import contract

if TYPE_CHECKING:
    import numpy as np

#: Every key of TRAITS with its default; the type of the default is the type of the key. Those that
#: variants have too mean what they mean in contract.py.
DEFAULTS: dict[str, Any] = {
    "summary": "",  # the entry point that is called, as a user would write it
    "defaults": "",  # what its defaults come to: start, stop rule, samples of the points
    # What lies outside the clock although a fit needs it ("points lie on the GPU"); empty: nothing.
    "outside": "",
    "source": "",
    "exact": False,  # each label is that of the exact step from the returned centroids
    "precision": "f32",  # of the distances that decide labels
    "distance": "direct",  # or "expanded"
    "centres": False,
    # "returned": labels are those of the centroids that come back; "starting": of the iteration
    # before, whose clusters' means the centroids then are.
    "labels_of": "returned",
    # What `converged` promises, where an answer has it. "labels": one more iteration changes
    # nothing; "tolerance": the library's own measure of movement was small.
    "stops": "tolerance",
    # Of what its objective is the sum, where that is not its answer: "its sample of the points".
    "objective": "",
    "gpu": False,
    "takes_init": False,  # has fit_from
    "takes_starts": False,  # keeps the best of as many starts as it is asked for
    # The call that fits as many problems as `problems` says, of columns side by side, as a user
    # would write it; empty: it takes one at a time.
    "takes_problems": "",
    # The function of the library that chooses the first centroids as a fit does; empty: it has none
    # of its own. `seeding` calls it.
    "seeding": "",
    "requires": [],
    "at_least": {},
    "remedy": "",
    "requirements": "requirements.txt",
}

CHOICES = {
    "precision": contract.PRECISIONS,
    "distance": ("direct", "expanded"),
    "labels_of": ("returned", "starting"),
    "stops": ("labels", "tolerance"),
}


@dataclass
class Fitted:
    """An answer in host memory."""

    centroids: np.ndarray  # k x d; of B problems B x k x (d / B)
    labels: np.ndarray  # n whole numbers; of B problems B x n
    iterations: int | None = None
    converged: bool | None = None  # by its own stop rule; None: it does not say
    objective: float | None = None  # what the library says the inertia is


class Estimator(ABC):
    """Fits of one set of points to one k."""

    #: Starts that the suite asks for; set before ``setup``. 0: the library's own number.
    starts: int = 0

    #: Into so many problems the columns are cut, each with k clusters; set before ``setup``.
    problems: int = 1

    def parts(self, points: np.ndarray) -> np.ndarray:
        """The points of each problem, B x n x (d / B)."""
        import numpy as np

        n = len(points)
        return np.ascontiguousarray(points.reshape(n, self.problems, -1).swapaxes(0, 1))

    @abstractmethod
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        """Import; keep what is needed to call. Not timed, so nothing that a fit consists of.

        ``points`` is n x d, float32, in C order, in the process's own memory. A fit must not
        change it.
        """

    @abstractmethod
    def fit(self, seed: int) -> Fitted:
        """One whole fit with this seed: all of it is timed, arrays in host memory at both ends."""

    def fit_from(self, centroids: np.ndarray, iterations: int) -> Fitted:
        """From given first centroids, so many iterations; with TRAITS["takes_init"]."""
        raise NotImplementedError

    def seeding(self, seed: int) -> None:
        """The choice of first centroids alone, timed apart; with TRAITS["seeding"]."""
        raise NotImplementedError

    @staticmethod
    def lacking() -> str:
        """What it lacks here besides packages and a GPU; empty: nothing. Imports no library."""
        return ""

    def library_info(self) -> dict[str, str]:
        """What results should record of the library besides versions; asked for after ``setup``."""
        return {}


def side_by_side(fits: list[Fitted]) -> Fitted:
    """Fits of several problems as one answer."""
    import numpy as np

    iterations = [one.iterations for one in fits if one.iterations is not None]
    objectives = [one.objective for one in fits if one.objective is not None]
    return Fitted(
        centroids=np.stack([one.centroids for one in fits]),
        labels=np.stack([one.labels for one in fits]),
        iterations=max(iterations, default=None),
        converged=all(one.converged for one in fits) if fits[0].converged is not None else None,
        objective=sum(objectives) if len(objectives) == len(fits) else None,
    )


def check_traits(traits: object) -> dict[str, Any]:
    """TRAITS with the defaults filled in; raises TraitsError saying what is wrong in it."""
    checked = contract.filled_in(traits, DEFAULTS, CHOICES)
    for key in ("summary", "defaults"):
        if not checked[key]:
            raise contract.TraitsError(f"TRAITS['{key}'] is missing")
    return checked
