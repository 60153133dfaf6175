# SPDX-License-Identifier: Apache-2.0
"""Points in a GPU's memory: without a GPU in one that is pretended (fakes/pretended_gpu.cpp), whose
memory is the host's and where reading points by their address on the host ends the process; with
one, where PyTorch is installed, in its memory."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import ROOT, captured, find_program

PROGRAM = find_program()
BUILD = PROGRAM.parent if PROGRAM else ROOT / "build"
PRETENDED = BUILD / "tests" / "libpretended_gpu.so"

HEAD = """
import os
import numpy as np, kmeans_exact as ke
from kmeans_exact import _engine

def refused(kind, what, work, *args, **named):
    try:
        work(*args, **named)
    except kind as error:
        assert what in str(error), error
        return
    raise AssertionError(what)

def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()

random = np.random.default_rng(1)
x = (random.normal(size=(9000, 7)) + 9 * random.integers(0, 5, size=(9000, 1))).astype('f4')
"""

PRETEND = """
class OnGpu:
    def __init__(self, array):
        self.array = array
        self.shape = array.shape
    def __dlpack_device__(self):
        return (2, 0)
    def __dlpack__(self, stream=None):
        assert stream == 1
        return self.array.__dlpack__()

class ByInterface:
    def __init__(self, array):
        strides = array.strides  # of C order they may be left out, and here are not
        self.array = array
        self.__cuda_array_interface__ = {
            'data': (array.ctypes.data, False), 'shape': array.shape, 'strides': strides,
            'typestr': array.dtype.str, 'version': 3}

def host(answer):
    address, shape, _, kind, bits, _ = _engine.gpu_array(answer.__dlpack__())
    assert answer.__dlpack_device__() == (2, int(os.environ.get('PRETENDED_GPU', 0)))
    there = np.empty(shape, {(2, 32): np.float32, (0, 32): np.int32}[kind, bits])
    _engine.copy_from_gpu(there.ctypes.data, address, there.nbytes, 0)
    return there

to_gpu = OnGpu

def to_second(array):
    os.environ['PRETENDED_GPU'] = '1'  # has all memory from now on
    return to_gpu(array)
"""

REAL = """
import torch

def to_gpu(array):
    return torch.from_numpy(np.ascontiguousarray(array)).cuda()

def to_second(array):
    return torch.from_numpy(np.ascontiguousarray(array)).to('cuda:1')

def host(answer):
    return torch.from_dlpack(answer).cpu().numpy()

class ByInterface:
    def __init__(self, array):
        there = self.there = to_gpu(array)
        self.__cuda_array_interface__ = {
            'data': (there.data_ptr(), False), 'shape': tuple(there.shape), 'strides': None,
            'typestr': array.dtype.str, 'version': 3}
        torch.cuda.synchronize()
"""


@functools.cache
def _real_gpus() -> int:
    script = "import torch; print(torch.cuda.device_count())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0


@contextlib.contextmanager
def _gpu_shared_with(how: int) -> Iterator[None]:
    """LOCK_SH: with tests of this file in other processes. LOCK_EX: with none."""
    with (Path(tempfile.gettempdir()) / f"kmeans-exact-tests-gpu-{os.getuid()}").open("a") as lock:
        fcntl.flock(lock, how)
        yield


@pytest.fixture(params=["pretended", "real"])
def run(request, package) -> Iterator[Callable[[str], None]]:
    """A script, in a process that finds the GPU."""
    variables = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])}
    if os.environ.get("PYTHONPATH"):
        variables["PYTHONPATH"] += os.pathsep + os.environ["PYTHONPATH"]
    if request.param == "real":
        if _real_gpus() == 0:
            pytest.skip("no GPU here, or no PyTorch")
        head = HEAD + REAL
    else:
        if not PRETENDED.is_file():
            pytest.skip("this build has no library (see the first lines of its configuration)")
        variables["KMEANS_EXACT_GPU"] = str(PRETENDED)
        head = HEAD + PRETEND

    def work(script: str) -> None:
        done = captured([sys.executable, "-c", head + script], env=variables)
        assert done.returncode == 0, done.stdout + done.stderr

    work.is_real = request.param == "real"
    if not work.is_real:
        yield work
        return
    fills_memory = request.node.originalname == "test_a_cpu_takes_what_a_gpu_has_no_memory_for"
    with _gpu_shared_with(fcntl.LOCK_EX if fills_memory else fcntl.LOCK_SH):
        yield work


def test_all_functions_give_the_bits_of_a_cpu(run) -> None:
    run("""
there = to_gpu(x)
for how in ({}, {'stop': None, 'iterations': 7}, {'tol': 1e-2}, {'labels_of': 'returned'}):
    for k in (1, 5, 64):
        here = ke.lloyd(x, x[:k], **how)
        for init in (x[:k], to_gpu(x[:k].copy())):
            answer = ke.lloyd(there, init, **how)
            same(answer.centroids, here.centroids)
            same(answer.labels, here.labels)
            assert answer.iterations == here.iterations and answer.converged == here.converged
        left = ke.lloyd(there, x[:k], answers='gpu', **how)
        same(host(left.centroids), here.centroids)
        same(host(left.labels), here.labels)
same(ke.nearest(there, x[:9]), ke.nearest(x, x[:9]))
same(ke.nearest(to_gpu(x[:3].copy()), x[:9]), ke.nearest(x[:3], x[:9]))
same(ke.distances(there, x[:4]), ke.distances(x, x[:4]))
labels = ke.nearest(x, x[:6])
assert ke.inertia(there, x[:6]) == ke.inertia(x, x[:6])
assert ke.inertia(there, x[:6], labels) == ke.inertia(x, x[:6], labels)
weights = random.integers(0, 4, size=len(x))
assert ke.inertia(there, x[:6], labels, weights=weights) == ke.inertia(
    x, x[:6], labels, weights=weights)
for how in ({}, {'weights': weights}):
    same(ke.kmeans_plusplus(there, 20, 3, **how), ke.kmeans_plusplus(x, 20, 3, **how))
    same(ke.ward_start(there, 20, 3, **how), ke.ward_start(x, 20, 3, **how))
# Answers that were left there are arguments again.
left = ke.lloyd(there, x[:6], answers='gpu')
again = ke.lloyd(there, left.centroids, iterations=1)
same(again.centroids, host(left.centroids))
assert ke.inertia(there, left.centroids, left.labels) == ke.inertia(
    x, host(left.centroids), host(left.labels))
""")


def test_weights_give_the_bits_of_a_cpu(run) -> None:
    run("""
n = len(x)
kinds = {
    'integers': random.integers(0, 5, size=n), 'uniform': random.uniform(size=n),
    'far apart': np.exp(random.uniform(-60, 30, size=n)),
    'truth values': random.uniform(size=n) < 0.5, 'many rows': random.integers(0, 2**39, size=n)}
for name, weights in kinds.items():
    points = x.copy()
    points[weights == 0] *= 1000  # which are in nobody's sum
    there = to_gpu(points)
    kept = ke.Points(points, device='gpu')
    for k in (1, 5, 300):
        for how in ({}, {'stop': None, 'iterations': 3}, {'tol': 1e-2, 'labels_of': 'returned'}):
            here = ke.lloyd(points, x[:k], weights=weights, **how)
            answers = [work(x[:k], weights=weights, **how) for work in (
                kept.lloyd, ke.Points(there).lloyd)]
            for answer in answers:
                same(answer.centroids, here.centroids)
                same(answer.labels, here.labels)
                assert answer.iterations == here.iterations, (name, k, how)
                assert answer.converged == here.converged
    left = ke.lloyd(there, x[:5], weights=weights, answers='gpu')
    here = ke.lloyd(points, x[:5], weights=weights)
    same(host(left.centroids), here.centroids)
    same(host(left.labels), here.labels)
    # Those of a run do not stay for the next one.
    same(ke.Points(x, device='gpu').lloyd(x[:5]).centroids, ke.lloyd(x, x[:5]).centroids)
""")


def test_an_estimator_that_subtracts_takes_arrays_of_a_gpu(run) -> None:
    run("""
few = 3e4 + 1e-3 * x[:900].astype('f8')  # of which float32 holds a few bits
model = ke.KMeans(4, random_state=1).fit(few)
rounded = few.astype('f4')
same(model.predict(to_gpu(rounded)), model.predict(rounded))
same(model.transform(to_gpu(rounded)), model.transform(rounded))
assert model.score(to_gpu(rounded)) == model.score(rounded)
assert model.predict(few).tolist() == model.labels_.tolist()
init = to_gpu(rounded[:4].copy())
assert ke.KMeans(4, init=init).fit(few).inertia_ == ke.KMeans(4, init=rounded[:4]).fit(few).inertia_
""")


def test_a_cpu_takes_what_a_gpu_has_no_memory_for(run) -> None:
    if run.is_real:
        # Room for the points and what they need alone, not for their rows next to them.
        run("""
x = random.normal(size=(1 << 20, 64)).astype('f4')
weights = random.integers(1, 5, size=len(x))
here = ke.lloyd(x, x[:3], weights=weights, iterations=2, stop=None)
ke.lloyd(x[:100], x[:3], device='gpu')
ke.release_memory()
free, _ = torch.cuda.mem_get_info()
taken = torch.empty(free - x.nbytes - 200 * 2**20, dtype=torch.uint8, device='cuda')
alone = ke.lloyd(x, x[:3], device='gpu', iterations=2, stop=None)
same(alone.centroids, ke.lloyd(x, x[:3], iterations=2, stop=None).centroids)
ke.release_memory()
refused(RuntimeError, 'of GPU memory, of which', ke.lloyd, x, x[:3], weights=weights, device='gpu')
ke.release_memory()
answer = ke.lloyd(x, x[:3], weights=weights, iterations=2, stop=None, device='any')
same(answer.centroids, here.centroids)
same(answer.labels, here.labels)
""")
        return
    run("""
few = x[:8997]
weights = random.integers(0, 4, size=len(few))
kept = ke.Points(few, device='any')
same(kept.lloyd(x[:5]).labels, ke.lloyd(few, x[:5]).labels)
ke.lloyd(few, x[:5], device='gpu')
for points, how in ((few, {'weights': weights}), (ke.unit_rows(few), {'metric': 'cosine'})):
    refused(RuntimeError, 'no GPU can be used: it is pretended to need more memory', ke.lloyd,
            points, points[:5], device='gpu', **how)
    answer, here = (ke.lloyd(points, points[:5], device=on, **how) for on in ('any', 'cpu'))
    same(answer.centroids, here.centroids)
    same(answer.labels, here.labels)
same(kept.lloyd(x[:5], weights=weights).labels, ke.lloyd(few, x[:5], weights=weights).labels)
""")


def test_cosine_gives_the_bits_of_a_cpu(run) -> None:
    run("""
weights = random.uniform(size=len(x))
x[::7] = 0
x[1::7] = ke.unit_rows(x[1::7])
there = to_gpu(x)
places = ke.Points(x, device='gpu', metric='cosine'), ke.Points(there, metric='cosine')
for how in ({}, {'weights': weights}, {'tol': 1e-3, 'labels_of': 'returned'}):
    for k in (1, 5, 300):
        here = ke.lloyd(x, x[-k:], metric='cosine', **how)
        for kept in places:
            answer = kept.lloyd(x[-k:], **how)
            same(answer.centroids, here.centroids)
            same(answer.labels, here.labels)
            assert answer.iterations == here.iterations and answer.converged == here.converged
        left = places[1].lloyd(to_gpu(x[-k:].copy()), answers='gpu', **how)
        same(host(left.centroids), here.centroids)
        same(host(left.labels), here.labels)
same(there.array if hasattr(there, 'array') else there.cpu().numpy(), x)
other = ke.KMeans(6, random_state=1, metric='cosine').fit(x)
for points in (x, there):
    model = ke.KMeans(6, random_state=1, metric='cosine', device='gpu').fit(points)
    same(model.cluster_centers_, other.cluster_centers_)
    same(model.predict(to_gpu(x[:50].copy())), other.predict(x[:50]))
    same(model.transform(to_gpu(x[:50].copy())), other.transform(x[:50]))
    assert model.inertia_ == other.inertia_
""")


def test_many_problems_at_once_give_the_bits_of_a_cpu(run) -> None:
    run("""
for rows in (300, 301):
    stack = x[:12 * rows].reshape(12, rows, 7).copy()
    stack[3] *= 1000
    for metric in ('euclidean', 'cosine'):
        for how in ({}, {'iterations': 4, 'stop': None}, {'tol': 1e-2, 'labels_of': 'returned'}):
            right = ke.lloyd_batch(stack, stack[:, :9], metric=metric, **how)
            for device in ('gpu', 'any'):
                found = ke.lloyd_batch(stack, stack[:, :9], metric=metric, device=device, **how)
                for own, other in zip(found, right, strict=True):
                    same(own, other)
    stack[7, 2, 3] = np.inf
    refused(ValueError, 'problem 7: point 2, coordinate 3 is inf', ke.lloyd_batch, stack,
            stack[:, :4], device='gpu')
""")


# Of 12 problems at once, but for an odd number of points in a pretended GPU; of 3 one after the
# other, since no multiprocessor holds one, and of these two do not begin at whole 16 bytes.
STACKS = """
def stacks():
    for count, n, d, k in ((12, 300, 7, 9), (12, 301, 7, 9), (3, 4001, 41, 60), (2, 4099, 3, 1)):
        stack = random.normal(size=(count, n, d)).astype('f4')
        stack += 9 * random.integers(0, 5, size=(count, n, 1))
        stack[1] *= 1000  # a scale of its own
        stack[0, : n // 2] = stack[0, 0]  # equal points
        yield stack, stack[:, -k:].copy()
"""


def test_many_problems_that_are_there_give_the_bits_of_a_cpu(run) -> None:
    run(
        STACKS
        + """
for stack, init in stacks():
    there, by_interface = to_gpu(stack.copy()), ByInterface(stack.copy())
    for metric in ('euclidean', 'cosine'):
        for how in ({}, {'iterations': 4, 'stop': None}, {'tol': 1e-2, 'labels_of': 'returned'},
                    {'iterations': 1, 'labels_of': 'returned'}):
            right = ke.lloyd_batch(stack, init, metric=metric, **how)
            for points, start in ((there, init), (there, to_gpu(init)), (by_interface, init)):
                found = ke.lloyd_batch(points, start, metric=metric, **how)
                for own, other in zip(found, right, strict=True):
                    same(own, other)
            left = ke.lloyd_batch(there, init, metric=metric, answers='gpu', **how)
            same(host(left.centroids), right.centroids)
            same(host(left.labels), right.labels)
            same(left.iterations, right.iterations)
            same(left.converged, right.converged)
        same(ke.ward_start_batch(there, 5, 3, metric=metric),
             ke.ward_start_batch(stack, 5, 3, metric=metric))
    same(there.array if hasattr(there, 'array') else there.cpu().numpy(), stack)
    # Answers that were left there are arguments again.
    again = ke.lloyd_batch(there, left.centroids, iterations=1, metric='cosine')
    same(again.centroids, ke.lloyd_batch(
        stack, right.centroids, iterations=1, metric='cosine').centroids)
"""
    )


def test_problems_that_are_there_are_refused_as_on_a_cpu(run) -> None:
    run("""
def outcome(points, init, **how):
    try:
        return ke.lloyd_batch(points, init, iterations=1, stop=None, **how).labels.tobytes()
    except ValueError as error:
        return str(error)

refusals = set()
for trial in range(80):
    count, n, d = (int(random.integers(*span)) for span in ((1, 9), (40, 600), (1, 9)))
    n -= n % 5 == 2  # of which a pretended GPU takes none by cosine
    stack = random.normal(size=(count, n, d)) * 10.0 ** random.integers(-6, 1, size=d)
    if trial % 3 == 0:
        stack[..., 0] = np.where(random.random((count, n)) < 0.9, 0, stack[..., 0])  # mostly alike
    stack = stack.astype('f4')
    init = stack[:, :5].copy()
    metric = 'cosine' if trial % 4 == 3 else 'euclidean'
    for _ in range(trial % 3):
        place = int(random.integers(count)), int(random.integers(n)), int(random.integers(d))
        stack[place] = (10.0 ** int(random.integers(4, 14)), np.nan, -np.inf)[trial % 5 % 3]
    if trial % 7 == 0 and metric == 'euclidean':  # by cosine all rows are scaled first
        init[int(random.integers(count)), 2, d - 1] = np.inf
    here = outcome(stack, init, metric=metric)
    assert outcome(to_gpu(stack), init, metric=metric) == here, (trial, here)
    assert outcome(stack, init, metric=metric, device='gpu') == here, (trial, here)
    if isinstance(here, str):
        assert here.startswith('kmeans_exact: problem '), here
        refusals.add(' '.join(here.split()[3:5]))
assert len(refusals) > 9, refusals
""")
    run("""
stack = x[:900].reshape(3, 300, 7).copy()
there = to_gpu(stack)
refused(ValueError, 'x must have 3 dimensions, a table of rows for each problem, not 2',
        ke.lloyd_batch, to_gpu(stack[0].copy()), stack[:, :4])
refused(ValueError, 'x has 3 problems, init 2', ke.lloyd_batch, there, stack[:2, :4])
refused(ValueError, 'x has 7 columns, init 6', ke.lloyd_batch, there, stack[:, :4, :6])
refused(ValueError, 'k is 301; it must be from 1 to n = 300', ke.lloyd_batch, there,
        np.zeros((3, 301, 7)))
refused(ValueError, 'k is 301; it must be from 1 to 300', ke.ward_start_batch, there, 301)
refused(TypeError, 'float32, float16 or bfloat16', ke.lloyd_batch, to_gpu(stack.astype('f8')),
        stack[:, :4])
refused(ValueError, "answers='gpu' is for points in the memory of a GPU", ke.lloyd_batch, stack,
        stack[:, :4], answers='gpu')
refused(ValueError, "answers must be 'host' or 'gpu'", ke.lloyd_batch, there, stack[:, :4],
        answers='there')
refused(ValueError, 'threads is 5000', ke.lloyd_batch, there, stack[:, :4], threads=5000)
stack[2, 9, 1] = np.nan
refused(ValueError, 'problem 2: point 9, coordinate 1 is nan', ke.ward_start_batch,
        to_gpu(stack), 4)
""")
    run(
        "refused(ValueError, 'contiguous', ke.lloyd_batch, to_gpu(x[:8].reshape(2, 4, 7))."
        "transpose(0, 1), x[:8].reshape(4, 2, 7))"
        if run.is_real
        else "refused(ValueError, 'contiguous', ke.lloyd_batch,"
        "to_gpu(x[:8].reshape(2, 4, 7).transpose(1, 0, 2)), x[:8].reshape(4, 2, 7))"
    )


def test_a_signal_ends_problems_that_are_there(run) -> None:
    run("""
import signal
def handler(*_unused):
    raise KeyError('from the handler')
def go_on():
    for _ in range(100000):  # single calls are short
        for answers in ('host', 'gpu'):
            ke.lloyd_batch(there, stack[:, :9], answers=answers)
signal.signal(signal.SIGALRM, handler)
for rows in (300, 301):
    stack = x[:12 * rows].reshape(12, rows, 7)
    there = to_gpu(stack.copy())
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    refused(KeyError, 'from the handler', go_on)
    same(ke.lloyd_batch(there, stack[:, :9]).labels, ke.lloyd_batch(stack, stack[:, :9]).labels)
""")


def test_points_are_kept_for_many_runs_and_other_protocols_give_the_same(run) -> None:
    run("""
kept = ke.Points(to_gpu(x))
for _ in range(3):
    for k in (3, 12):
        same(kept.lloyd(x[:k]).labels, ke.lloyd(x, x[:k]).labels)
same(ke.lloyd(ByInterface(x), x[:8]).centroids, ke.lloyd(x, x[:8]).centroids)
""")


def test_points_are_used_on_the_gpu_that_has_them(run) -> None:
    if run.is_real and _real_gpus() < 2:
        pytest.skip("one GPU here")
    run("""
there = to_second(x)
for how in ({}, {'tol': 1e-2}, {'labels_of': 'returned'}, {'metric': 'cosine'}):
    here = ke.lloyd(x, x[:9], **how)
    left = ke.lloyd(there, x[:9], answers='gpu', **how)
    assert left.centroids.__dlpack_device__()[1] == left.labels.__dlpack_device__()[1] == 1
    same(host(left.centroids), here.centroids)
    same(host(left.labels), here.labels)
    answer = ke.lloyd(there, left.centroids, **how)
    same(answer.centroids, ke.lloyd(x, here.centroids, **how).centroids)
kept = ke.Points(there)
same(kept.nearest(x[:9]), ke.nearest(x, x[:9]))
same(ke.nearest(to_second(x[:3]), x[:9]), ke.nearest(x[:3], x[:9]))
same(kept.distances(x[:4]), ke.distances(x, x[:4]))
labels = ke.nearest(x, x[:6])
assert kept.inertia(x[:6], labels) == ke.inertia(x, x[:6], labels)
same(kept.kmeans_plusplus(300, 3), ke.kmeans_plusplus(x, 300, 3))
same(kept.ward_start(20, 3), ke.ward_start(x, 20, 3))
for n in (500, 501):
    stack = x[:8 * n].reshape(8, n, 7)
    here = ke.lloyd_batch(stack, stack[:, :5].copy())
    left = ke.lloyd_batch(to_second(stack), stack[:, :5].copy(), answers='gpu')
    same(host(left.centroids), here.centroids)
    same(host(left.labels), here.labels)
model = ke.KMeans(6, random_state=1).fit(there)
same(model.labels_, ke.KMeans(6, random_state=1).fit(x).labels_)
same(model.predict(to_second(x[:50])), model.labels_[:50])
""")


def test_host_points_on_a_gpu_give_the_bits_of_a_cpu(run) -> None:
    run("""
for points in (x, x[:8999]):
    kept = ke.Points(points, device='gpu')
    for how in ({}, {'tol': 1e-2}, {'tol': 1e-4, 'labels_of': 'returned'}):
        answer, here = kept.lloyd(x[:30], **how), ke.lloyd(points, x[:30], **how)
        same(answer.centroids, here.centroids)
        same(answer.labels, here.labels)
        assert answer.iterations == here.iterations
        assert kept.inertia(here.centroids, here.labels) == ke.inertia(
            points, here.centroids, here.labels)
for d, k in ((1, 1), (7, 3), (37, 70), (150, 129)):
    rows = random.normal(size=(333, d)).astype(np.float32)
    for dtype in (np.float32, np.float64):
        same(ke.Points(rows, device='gpu').distances(rows[:k], dtype=dtype),
             ke.distances(rows, rows[:k], dtype=dtype))
refused(ValueError, 'label 4 is 9; it must be from 0 to 4', kept.inertia, x[:5],
        [0, 1, 2, 3, 9, *[0] * 8994])
""")


def test_the_estimator_takes_them(run) -> None:
    run("""
for init in ('ward', 'k-means++', 'random', x[:6], lambda X, k, random_state: X[:k]):
    model = ke.KMeans(6, init=init, random_state=5, n_init=1).fit(to_gpu(x))
    other = ke.KMeans(6, init=init, random_state=5, n_init=1).fit(x)
    same(model.labels_, other.labels_)
    same(model.cluster_centers_, other.cluster_centers_)
    assert model.inertia_ == other.inertia_ and model.n_features_in_ == 7
    same(model.predict(to_gpu(x[:50])), other.predict(x[:50]))
    same(model.transform(to_gpu(x[:50])), other.transform(x[:50]))
    assert model.score(to_gpu(x[:50])) == other.score(x[:50])
refused(ValueError, 'expecting 7 features', model.predict, to_gpu(x[:50, :6].copy()))
weights = random.integers(0, 4, size=len(x))
for init in ('ward', 'random'):
    model = ke.KMeans(6, init=init, random_state=5).fit(to_gpu(x), sample_weight=weights)
    other = ke.KMeans(6, init=init, random_state=5).fit(x, sample_weight=weights)
    same(model.labels_, other.labels_)
    same(model.cluster_centers_, other.cluster_centers_)
    assert model.inertia_ == other.inertia_
refused(ValueError, 'sample_weight', model.fit, to_gpu(x), sample_weight=np.ones(4))
model.feature_names_in_ = np.array(list('abcdefg'), dtype=object)
assert not hasattr(model.fit(to_gpu(x)), 'feature_names_in_')
""")


def test_what_is_wrong_is_refused_with_the_place_and_the_remedy(run) -> None:
    run("""
bad = x.copy(); bad[17, 3] = np.nan
refused(ValueError, 'point 17, coordinate 3', ke.Points, to_gpu(bad))
lost = x.copy(); lost[5, 2] = 3e38
refused(ValueError, 'next to the value 3e+38 (point 5, coordinate 2', ke.lloyd, to_gpu(lost), x[:4])
refused(ValueError, 'answers', ke.lloyd, x, x[:4], answers='gpu')
refused(ValueError, 'weight 0 is -1', ke.lloyd, to_gpu(x), x[:4], weights=np.arange(len(x)) - 1)
lost[9, 1] = -1e38
heavy = (np.arange(len(x)) != 5) * 1.0
refused(ValueError, '(point 9, coordinate 1', ke.lloyd, to_gpu(lost), x[:4], weights=heavy)
refused(ValueError, 'point 17, coordinate 3', ke.Points, to_gpu(bad), metric='cosine')
refused(ValueError, '2 dimensions', ke.Points, to_gpu(x[0].copy()))
refused(TypeError, 'float32, float16 or bfloat16', ke.Points, to_gpu(x.astype('f8')))
refused(ValueError, 'x has 7 columns, init 6', ke.lloyd, to_gpu(x), x[:4, :6])
""")
    run(
        "refused(ValueError, 'contiguous', ke.Points, to_gpu(x).T)"
        if run.is_real
        else "refused(ValueError, 'contiguous', ke.Points, to_gpu(x.T));"
        "refused(ValueError, 'contiguous', ke.Points, ByInterface(x.T))"
    )


def test_the_same_points_are_refused_as_on_a_cpu(run) -> None:
    run("""
def outcome(points):
    try:
        return ke.lloyd(points, init, iterations=1, stop=None).labels.tobytes()
    except ValueError as error:
        return str(error)

refusals = 0
for trial in range(60):
    n, d = int(random.integers(40, 6000)), int(random.integers(1, 9))
    points = random.normal(size=(n, d)) * 10.0 ** random.integers(-6, 1, size=d)
    if trial % 3 == 0:
        points[:, 0] = np.where(random.random(n) < 0.9, 0, points[:, 0])  # mostly alike
    if trial % 2:
        points[random.integers(n), random.integers(d)] = 10.0 ** random.integers(4, 14)
    points = points.astype('f4')
    init = points[:5]
    here = outcome(points)
    assert outcome(to_gpu(points)) == here, (trial, here)
    refusals += isinstance(here, str)
assert 10 < refusals < 50, refusals
""")


def test_narrow_numbers_are_widened(run) -> None:
    run("""
for rows in (300, 301):
    narrow = x[:12 * rows].astype('f2').reshape(12, rows, 7)
    wide = narrow.astype('f4')
    for metric in ('euclidean', 'cosine'):
        right = ke.lloyd_batch(wide, wide[:, :9], metric=metric)
        found = ke.lloyd_batch(to_gpu(narrow), to_gpu(narrow[:, :9].copy()), metric=metric)
        for own, other in zip(found, right, strict=True):
            same(own, other)
        same(ke.ward_start_batch(to_gpu(narrow), 5, 3, metric=metric),
             ke.ward_start_batch(wide, 5, 3, metric=metric))
    same(ke.lloyd(to_gpu(narrow[0]), wide[0, :9]).labels, ke.lloyd(wide[0], wide[0, :9]).labels)
""")
    if not run.is_real:
        return
    run(
        """
for dtype in (torch.float16, torch.bfloat16):
    narrow = to_gpu(x).to(dtype)
    wide = narrow.float().cpu().numpy()
    answer = ke.lloyd(narrow, narrow[:9])
    here = ke.lloyd(wide, wide[:9])
    same(answer.centroids, here.centroids)
    same(answer.labels, here.labels)
    stacks = (given[:8999].reshape(1, 8999, 7) for given in (narrow, wide))
    for own, other in zip(*(ke.lloyd_batch(one, one[:, :9]) for one in stacks), strict=True):
        same(own, other)
refused(ValueError, 'are not in the memory of a GPU', ke.Points, ByInterfaceOfHost(x))
refused(ValueError, 'are not in the memory of a GPU', ke.lloyd_batch,
        ByInterfaceOfHost(x[None]), x[None, :9])
""".replace(
            "ByInterfaceOfHost(",
            "(lambda x: type('Host', (), {'__cuda_array_interface__': {"
            "'data': (x.ctypes.data, False), 'shape': x.shape, 'strides': None,"
            "'typestr': '<f4', 'version': 3}})())(",
        )
    )


def test_rows_that_begin_anywhere_in_memory(run) -> None:
    if not run.is_real:
        pytest.skip("of a GPU's memory")
    run("""
for d in (1, 4, 8, 32, 128):
    rows = random.normal(size=(4000, d)).astype('f4')
    flat = torch.zeros(rows.size + 3, device='cuda')
    for begin in (1, 2, 3):
        flat[begin:begin + rows.size] = to_gpu(rows).flatten()
        there = flat[begin:begin + rows.size].view(*rows.shape)
        same(ke.lloyd(there, rows[:70]).centroids, ke.lloyd(rows, rows[:70]).centroids)
""")


def test_work_of_another_stream_is_waited_for(run) -> None:
    if not run.is_real:
        pytest.skip("a pretended GPU has no streams")
    run("""
stream = torch.cuda.Stream()
source = to_gpu(x)
right = ke.lloyd_batch(x.reshape(10, 900, 7), x.reshape(10, 900, 7)[:, :8])
torch.cuda.synchronize()
for _ in range(5):
    with torch.cuda.stream(stream):
        rows = torch.zeros_like(source)
        torch.cuda._sleep(50_000_000)
        rows += source
        answer = ke.lloyd(rows, x[:8])
        left = ke.lloyd(rows, x[:8], answers='gpu')
    with torch.cuda.stream(stream):
        problems = torch.zeros_like(source)
        torch.cuda._sleep(50_000_000)
        problems += source
        of_all = ke.lloyd_batch(problems.view(10, 900, 7), x.reshape(10, 900, 7)[:, :8])
        same(of_all.labels, right.labels)
    with torch.cuda.stream(stream):
        labels, centroids = (
            torch.from_dlpack(one).clone() for one in (left.labels, left.centroids))
    here = ke.lloyd(x, x[:8])
    same(answer.centroids, here.centroids)
    stream.synchronize()
    same(centroids.cpu().numpy(), here.centroids)
    same(labels.cpu().numpy(), here.labels)
""")


def test_what_is_installed_names_the_gpu_and_what_its_part_is_for(package) -> None:
    if not PRETENDED.is_file():
        pytest.skip("this build has no library (see the first lines of its configuration)")
    folder = str(Path(package.__file__).parents[1])
    done = captured(
        [sys.executable, "-m", "kmeans_exact"],
        env={**os.environ, "PYTHONPATH": folder, "KMEANS_EXACT_GPU": str(PRETENDED)},
        check=True,
    )
    assert done.stdout.splitlines()[-2:] == [
        f"part for GPUs: {PRETENDED}, for compute capability 7.5, PTX 7.5",
        "GPU:           Pretended (7.5)",
    ]
