# SPDX-License-Identifier: Apache-2.0
"""kmeans_exact in a forked process, interrupted, with fewer threads, other modes, no memory."""

from __future__ import annotations

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.support import captured

LONG = 900  # seconds: no test waits so long, unless something hangs

HEAD = """
import os, sys, numpy as np, kmeans_exact as ke
random = np.random.default_rng(1)
x = (random.normal(size=(30000, 12)) + 4 * random.integers(0, 3, size=(30000, 1))).astype('f4')

def bits(threads=2, **how):
    run = ke.lloyd(x, x[:40], iterations=25, threads=threads, **how)
    near = ke.nearest(x, run.centroids, threads=threads)
    rows = ke.kmeans_plusplus(x, 5, 1)
    return [run.centroids.tobytes(), run.labels.tobytes(), run.iterations, near.tobytes(),
            rows.tobytes()]
"""


@pytest.fixture
def python(package) -> Callable[..., subprocess.CompletedProcess]:
    """A program of its own, killed if it hangs."""

    def run(script: str, **variables: str) -> subprocess.CompletedProcess:
        folder = str(Path(package.__file__).parents[1])
        return captured(
            [sys.executable, "-c", HEAD + script],
            env={**os.environ, "PYTHONPATH": folder, **variables},
            timeout=LONG,
        )

    return run


def _right(run: subprocess.CompletedProcess) -> None:
    assert (run.returncode, run.stdout.strip()) == (0, "right"), run.stdout + run.stderr


WITHOUT_SKLEARN = """
import kmeans_exact
names = {}
exec("from kmeans_exact import *", names)
assert names["lloyd"] is ke.lloyd and "KMeans" not in names
assert not hasattr(ke, "KMeans") and "KMeans" not in dir(ke) and "lloyd" in dir(ke)
for way in ("kmeans_exact.KMeans", "from kmeans_exact import KMeans"):
    try:
        exec(way)
    except (AttributeError, ImportError) as error:
        assert "sklearn" in str(error), error
        print(type(error).__name__)
"""


def test_all_but_the_estimator_is_there_without_scikit_learn(package) -> None:
    run = captured(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['sklearn'] = None" + HEAD + WITHOUT_SKLEARN,
        ],
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
    )
    assert run.stdout.split() == ["AttributeError", "ModuleNotFoundError"], run.stderr


def test_the_estimator_is_listed_where_it_can_be_had(package) -> None:
    pytest.importorskip("sklearn")
    assert hasattr(package, "KMeans")
    assert {"KMeans", "lloyd", "__version__"} <= {*dir(package)}
    assert "KMeans" in package.__all__


FORKED = """
right = bits()
for _ in range(2):
    child = os.fork()
    if child == 0:
        ok = bits() == right and bits(4) == right and bits(device="any") == right
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0 if bits() == right else 1)
        os._exit(0 if ok and os.waitpid(grandchild, 0)[1] == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert bits() == right  # in the parent as before
print("right")
"""


def test_a_forked_child_has_the_bits_of_its_parent(python) -> None:
    _right(python(FORKED))


FORKED_AT_WORK = """
import threading
kept = ke.Points(x, threads=2)
first = kept.lloyd(x[:40], iterations=25)
bits_of = lambda run: [run.centroids.tobytes(), run.labels.tobytes()]
stop = threading.Event()

def work():
    while not stop.is_set():
        kept.lloyd(x[:40], iterations=400, stop=None)

other = threading.Thread(target=work)
other.start()
children = []
for number in range(12):
    time.sleep(0.01 * number)
    child = os.fork()
    if child == 0:
        run = kept.lloyd(x[:40], iterations=25)
        near = kept.nearest(run.centroids)
        ok = bits_of(run) == bits_of(first)
        ok &= near.tobytes() == ke.nearest(x, run.centroids).tobytes()
        os._exit(0 if ok and kept.kmeans_plusplus(5, 1).shape == (5, 12) else 1)
    children.append(child)
ended = [os.waitpid(child, 0)[1] for child in children]
stop.set()
other.join()
assert bits_of(kept.lloyd(x[:40], iterations=25)) == bits_of(first)
print("right" if not any(ended) else ended)
"""


def test_a_child_uses_points_that_another_thread_was_at_work_with(python) -> None:
    _right(python("import time" + FORKED_AT_WORK))


def test_a_child_that_first_loads_it_has_them_too(python) -> None:
    """Whatever else had OpenMP's threads in the parent."""
    _right(
        python(
            """
right = bits()
if os.fork() == 0:
    for name in [name for name in sys.modules if name.startswith("kmeans_exact")]:
        del sys.modules[name]
    import kmeans_exact as ke
    os._exit(0 if bits() == right else 1)
print("right" if os.wait()[1] == 0 else "wrong")
"""
        )
    )


WAITING = """
import time
bits(2)
before = time.process_time()
time.sleep(0.5)
print(time.process_time() - before)
"""


@pytest.mark.parametrize("policy", ["active", "passive"])
def test_threads_sleep_once_a_call_is_over(package, policy: str) -> None:
    """With any OMP_WAIT_POLICY. Measured in processor time, which other processes do not change."""
    run = captured(
        [sys.executable, "-c", HEAD + WAITING],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(package.__file__).parents[1]),
            "OMP_WAIT_POLICY": policy,
        },
        check=True,
    )
    assert float(run.stdout) < 0.1


NEIGHBOURS = """
import signal, statistics, subprocess, time
cores = sorted(os.sched_getaffinity(0))[:2]
os.sched_setaffinity(0, cores)
n, d, k = map(int, sys.argv[1:])
x = np.random.default_rng(1).normal(size=(n, d)).astype("f4")
neighbours = []
for core in cores:
    neighbours.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
    os.sched_setaffinity(neighbours[-1].pid, [core])

def all_of_them(number):
    for neighbour in neighbours:
        neighbour.send_signal(number)
    time.sleep(0.1)

def seconds():
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        ke.lloyd(x, ke.ward_start(x, k, 1), iterations=60, stop=None)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)

try:
    seconds()
    for _ in range(9):
        all_of_them(signal.SIGSTOP)
        begin = time.process_time(), time.perf_counter()
        quiet = seconds()
        share = (time.process_time() - begin[0]) / (time.perf_counter() - begin[1])
        all_of_them(signal.SIGCONT)
        print(seconds() / quiet, share / len(cores))
finally:
    for neighbour in neighbours:
        neighbour.kill()
"""


@pytest.mark.parametrize(("n", "d", "k"), [(40000, 16, 64), (4000, 8, 20)])
def test_next_to_a_busy_process_on_each_core(package, n: int, d: int, k: int) -> None:
    """At most three times the time of a quiet machine: with half the cores, twice at least."""
    script = [sys.executable, "-c", HEAD + NEIGHBOURS, *map(str, (n, d, k))]
    folder = str(Path(package.__file__).parents[1])
    run = captured(script, env={**os.environ, "PYTHONPATH": folder}, check=True, timeout=LONG)
    rounds = [tuple(map(float, line.split())) for line in run.stdout.splitlines()]
    had_the_cores = 0.7 if n * d * k > 2**21 else 0.45  # else a call has one thread
    quiet = [slower for slower, share in rounds if share > had_the_cores]
    if len(quiet) < 5:
        pytest.skip(f"the cores are busy as it is: {rounds}")
    assert statistics.median(quiet) <= 3, rounds


PEAK = """
def field(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) * 1024


def peak(call):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the highest so far is that of now
    before = field("VmRSS")
    result = call()
    return field("VmHWM") - before, result
"""

MEMORY = """
n, d, k, iterations = map(int, sys.argv[2:])
x = np.fromfile(sys.argv[1], "f4").reshape(n, d)  # nothing was freed that could be used again
init = x[:k].copy()
kept = ke.Points(x, threads=2)
runs = [peak(lambda: kept.lloyd(init, iterations=iterations, labels_of="returned"))
        for _ in range(2)]
print(runs[0][0], runs[1][0])
"""


def _peaks(
    package: ModuleType, script: str, folder: Path, d: int, k: int, apart: float
) -> tuple[list[int], int, int]:
    """What calls need besides the points, what these are, and a margin."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system does not forget a process's highest memory")
    n = 32 * 2**20 // (4 * d + 4)
    random = np.random.default_rng(3)
    centres = random.normal(scale=apart, size=(k, d))
    points = centres[random.integers(k, size=n)] + random.normal(size=(n, d))
    points.astype("<f4").tofile(folder / "points")
    run = captured(
        [sys.executable, "-c", HEAD + PEAK + script, folder / "points", *map(str, (n, d, k, 40))],
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
        check=True,
    )
    # The allocator's, huge pages that are half used, sums.
    return list(map(int, run.stdout.split())), n, 6 * 2**20 + 4 * 8 * k * d


@pytest.mark.parametrize(
    ("d", "k"),
    [(1, 20), (2, 20), (3, 200), (4, 5), (7, 40), (12, 40), (32, 64), (64, 100), (300, 9)],
)
@pytest.mark.parametrize("apart", [0.0, 4.0])
def test_memory_at_the_peak_of_a_call(
    package, tmp_path: Path, d: int, k: int, apart: float
) -> None:
    """At most three times points and labels, the caller's own included; kept points copy once."""
    (first, again), n, margin = _peaks(package, MEMORY, tmp_path, d, k, apart)
    assert first + 4 * n * d <= 3 * n * (4 * d + 4) + margin
    if d <= 8:  # else one family may make place for another
        assert again <= 8 * n + margin


KEPT_MEMORY = """
x = random.normal(size=(60000, 64)).astype("f4")
ke.lloyd(x[:100], x[:9], iterations=3)  # what is loaded once
before = field("VmRSS")
for _ in range(3):
    ke.lloyd(x, x[:40], iterations=25, threads=2)
kept = field("VmRSS") - before
ke.release_memory()
print(kept, field("VmRSS") - before)
"""


def test_memory_that_calls_keep_is_given_back(package) -> None:
    run = captured(
        [sys.executable, "-c", HEAD + PEAK + KEPT_MEMORY],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(package.__file__).parents[1]),
            "MALLOC_MMAP_THRESHOLD_": "65536",  # what the allocator frees is the system's again
        },
        check=True,
    )
    kept, released = map(int, run.stdout.split())
    points = 60000 * 64 * 4
    assert points < kept < 3 * points  # at least a copy
    assert released < kept - points


FIT_MEMORY = """
n, d, k, iterations = map(int, sys.argv[2:])
ke.KMeans(2).fit(np.eye(9))  # imports
x = np.fromfile(sys.argv[1], "f4").reshape(n, d)
print(peak(lambda: ke.KMeans(k, random_state=1, n_threads=2, max_iter=iterations).fit(x))[0])
"""


@pytest.mark.parametrize(("d", "k"), [(1, 20), (2, 20), (3, 200), (4, 5), (8, 40), (64, 100)])
def test_memory_at_the_peak_of_a_fit(package, tmp_path: Path, d: int, k: int) -> None:
    """The same with seeds and inertia."""
    pytest.importorskip("sklearn")
    (fit,), n, margin = _peaks(package, FIT_MEMORY, tmp_path, d, k, 4.0)
    of_caller = n * (4 * d + (4 if d < 4 else 0))  # labels weigh little next to many columns
    assert fit + 4 * n * d <= 3 * of_caller + margin


GPU_MEMORY = """
few = np.random.default_rng(3).normal(size=(4096, 64)).astype("f4")
x = np.tile(few, (1024, 1))  # 1 GiB
init = x[:9].copy()
for points in (few, x[: 2**16]):  # starts CUDA, and locks memory for transfers
    ke.KMeans(9, random_state=1, device="gpu").fit(points)
calls = {
    "lloyd": lambda: ke.lloyd(x, init, iterations=9, device="gpu"),
    "fit": lambda: ke.KMeans(9, random_state=1, max_iter=9, device="gpu").fit(x),
}
for name, call in calls.items():
    print(name, peak(call)[0] / x.nbytes)
"""


def test_host_memory_at_the_peak_of_a_call_on_a_gpu(package) -> None:
    """At most 1.2 times the points, the caller's own included."""
    if problem := package.problem_with_gpu():
        pytest.skip(problem)
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system does not forget a process's highest memory")
    run = captured(
        [sys.executable, "-c", HEAD + PEAK + GPU_MEMORY],
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
        check=True,
    )
    more = {name: float(share) for name, share in map(str.split, run.stdout.splitlines())}
    assert set(more) == {"lloyd", "fit"}
    assert max(more.values()) <= 0.2, more


@pytest.mark.parametrize("forked", [False, True])
def test_an_interrupt_ends_a_call_within_its_iterations(package, forked: bool) -> None:
    script = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
if %r and os.fork() != 0:
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
try:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("begins", flush=True)
    ke.lloyd(x, x[:200], iterations=2**60, stop=None, threads=2)
except KeyboardInterrupt:
    print("interrupted", bits() == bits(1), flush=True)
    os._exit(7)
"""
    folder = str(Path(package.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", HEAD + script % forked],
        env={**os.environ, "PYTHONPATH": folder},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begins\n"
            time.sleep(0.3)
            os.killpg(process.pid, signal.SIGINT)
            rest, _ = process.communicate(timeout=LONG)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, rest) == (7, "interrupted True\n")


HEARD = """
import signal, time
if sys.argv[1] == "inertia":
    zeros = np.zeros((600000, 1000), "f4")  # takes no memory until it is written to
    kept, labels = ke.Points(zeros, threads=1), np.zeros(len(zeros), "i4")
    call = lambda: kept.inertia(zeros[:9], labels)
elif sys.argv[1] == "distances":
    few = np.resize(x, (3000, 2000))
    kept = ke.Points(few, threads=int(sys.argv[2]))
    call = lambda: kept.distances(few, dtype=sys.argv[3])
else:
    few = np.resize(x, (3000, 2000))
    equal = np.resize(few[0], few.shape)  # no filter can tell them apart: float64 takes long
    kept = ke.Points(few, threads=int(sys.argv[2]))
    call = lambda: (kept.nearest if sys.argv[1] == "nearest" else kept.inertia)(equal)
heard = []

def handler(*_):
    heard.append(1)
    if len(heard) == 2:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise InterruptedError

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
try:
    call()
except InterruptedError:
    print("ended")
if sys.argv[1] == "nearest":  # the engine that was interrupted serves the next call
    assert (kept.nearest(few) == ke.distances(few, few).argmin(axis=1)).all()
"""


@pytest.mark.parametrize(
    "call",
    [
        ["distances", "1", "f4"],
        ["distances", "2", "f8"],
        ["inertia"],
        *([name, threads] for name in ("nearest", "without-labels") for threads in "12"),
    ],
    ids=" ".join,
)
def test_signals_are_heard_between_blocks_of_rows(package, call: list[str]) -> None:
    """Twice in the middle of a call; Python itself hears one once the call is over."""
    run = captured(
        [sys.executable, "-c", HEAD + HEARD, *call],
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
        timeout=LONG,
    )
    assert run.stdout == "ended\n", run.stdout + run.stderr


ENDS = """
import threading, time
stack = x[:16000].reshape(16, 1000, 12)
kept = ke.Points(x[:50])

def without_end(call):
    call()  # imports what it needs
    while True:
        call()

calls = {
    "lloyd": lambda: ke.lloyd(x, x[:300], iterations=10**9, stop=None),
    "short": lambda: without_end(lambda: kept.lloyd(x[:3], iterations=2)),
    "fit": lambda: ke.KMeans(300, init=x[:300], max_iter=10**9, tol=None).fit(x) and None,
    "ward_start": lambda: without_end(lambda: ke.ward_start(x, 900)),
    "lloyd_batch": lambda: ke.lloyd_batch(stack, stack[:, :60], iterations=10**9, stop=None),
    "distances": lambda: without_end(lambda: ke.distances(x, x[:1500])),
}
for _ in range(3):
    threading.Thread(target=calls[sys.argv[1]], daemon=True).start()
time.sleep(float(sys.argv[2]))
print("ends", flush=True)
"""


@pytest.mark.parametrize(
    "call", ["lloyd", "short", "fit", "ward_start", "lloyd_batch", "distances"]
)
def test_a_program_ends_while_its_daemon_threads_are_at_work(package, call: str) -> None:
    """At once, whatever a thread is about: it gets the interpreter's lock no more."""
    if call == "fit":
        pytest.importorskip("sklearn")
    for seconds in (0.05, 0.4):
        run = captured(
            [sys.executable, "-c", HEAD + ENDS, call, str(seconds)],
            env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
            timeout=LONG,
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, "ends\n", ""), seconds


@pytest.mark.parametrize(
    "variables",
    [
        {"OMP_THREAD_LIMIT": "1"},
        {"OMP_THREAD_LIMIT": "3"},
        {"OMP_DYNAMIC": "true", "OMP_THREAD_LIMIT": "3"},
        {"OMP_NUM_THREADS": "4,3,2", "OMP_MAX_ACTIVE_LEVELS": "3"},
        {"OMP_MAX_ACTIVE_LEVELS": "0"},
    ],
)
def test_however_few_threads_openmp_gives(python, variables: dict[str, str]) -> None:
    script = "print('right' if bits(8) == bits(1) == bits(64) else 'wrong')"
    _right(python(script, **variables))


MODES = """
import ctypes, ctypes.util
libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
x *= np.float32(1e-41) / np.abs(x).max()  # denormals
x[0] = 0
right = bits()
libm.fegetround.restype = ctypes.c_int
for mode in (0x400, 0x800, 0xC00, 0):  # down, up, to zero, to nearest on x86-64
    assert libm.fesetround(mode) == 0
    found = bits()
    kept = libm.fegetround()
    libm.fesetround(0)
    assert (found == right, kept) == (True, mode), mode
print("right")
"""


def test_the_callers_rounding_changes_no_bit(python) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the modes' numbers are those of x86-64")
    _right(python(MODES))


FLUSHED = """
import ctypes, ctypes.util
libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
right_x = x * (np.float32(1e-41) / np.abs(x).max())

class Environment(ctypes.Structure):  # fenv_t of x86-64: 28 bytes of x87, then MXCSR
    _fields_ = [("x87", ctypes.c_ubyte * 28), ("mxcsr", ctypes.c_uint)]

environment = Environment()
libm.fegetenv(ctypes.byref(environment))
if os.environ["FIRST"] == "right":
    x = right_x
    right = bits()
environment.mxcsr |= 0x8040  # flush results to zero, take denormals for zero
libm.fesetenv(ctypes.byref(environment))
x = right_x
found = bits()
environment.mxcsr &= ~0x8040
libm.fesetenv(ctypes.byref(environment))
again = bits()
if os.environ["FIRST"] != "right":
    right = again
print("right" if found == again == right else "wrong")
"""


@pytest.mark.parametrize("first", ["right", "flushed"])
def test_flushed_denormals_change_no_bit(python, first: str) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the modes' numbers are those of x86-64")
    _right(python(FLUSHED, FIRST=first))


def test_out_of_memory_says_so_where_points_are_fewer_than_centroids(python) -> None:
    """An engine wants a point a cluster, so points are repeated."""
    run = python(
        """
import resource
centroids = np.zeros((200000, 300), 'f4')
centroids[:, 0] = np.arange(len(centroids))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 90 * 10**6,) * 2)
try:
    ke.nearest(centroids[:2], centroids, threads=1)
except MemoryError as error:
    print(error)
"""
    )
    need = "kmeans_exact: out of memory: n = 2, d = 300, k = 200000 needs up to 241 MB besides"
    assert run.stdout.startswith(need), run.stdout + run.stderr


def test_out_of_memory_says_need_and_have(python) -> None:
    run = python(
        """
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
x = np.zeros((4000000, 8), 'f4')
x[:, 0] = np.arange(len(x)) % 1000
resource.setrlimit(resource.RLIMIT_AS, (used + x.nbytes + 90 * 10**6,) * 2)
try:
    ke.lloyd(x, x[:200], threads=1)
except MemoryError as error:
    print(error)
"""
    )
    need = "kmeans_exact: out of memory: n = 4000000, d = 8, k = 200 needs up to "
    assert run.stdout.startswith(need), run.stdout + run.stderr
    assert " MB besides the points; " in run.stdout
    assert run.stdout.strip().endswith(" MB are free")


def test_out_of_memory_says_what_an_answer_needs(python) -> None:
    run = python(
        """
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 90 * 10**6,) * 2)
for dtype in ("f8", "f4"):
    try:
        ke.distances(x, x[:3000], dtype=dtype, threads=1)
    except MemoryError as error:
        print(error)
"""
    )
    of = "kmeans_exact: out of memory: an array of 90000000 values needs"
    assert run.stdout.splitlines() == [f"{of} 721 MB", f"{of} 361 MB"], run.stdout + run.stderr


def test_out_of_memory_says_need_wherever_it_is_with_weights(python) -> None:
    run = python(
        """
import resource
x = np.zeros((1000000, 8), 'f4')
x[:, 0] = np.arange(len(x)) % 1000
weights = np.where(np.arange(len(x)) % 2, 1, 2.5)
labels = np.zeros(len(x), 'i4')
calls = {
    "lloyd": lambda kept: kept.lloyd(x[:200], iterations=1, tol=1e-9, weights=weights),
    "kmeans_plusplus": lambda kept: kept.kmeans_plusplus(9, weights=weights),
    "ward_start": lambda kept: kept.ward_start(9, weights=weights),
    "inertia": lambda kept: kept.inertia(x[:9], labels, weights=weights),
}
for name, call in calls.items():
    for more in range(3, 80, 4):
        kept = ke.Points(x, threads=1)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + more * 10**6, -1))
        try:
            call(kept)
        except MemoryError as error:
            print(name, error)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
""",
        MALLOC_MMAP_THRESHOLD_="65536",  # what was freed is the system's again
    )
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert {line.split()[0] for line in lines} == {
        "lloyd",
        "kmeans_plusplus",
        "ward_start",
        "inertia",
    }
    for line in lines:
        assert re.search(r"^\w+ kmeans_exact: out of memory: .*1000000.* needs .*\d MB", line), line


def test_a_signals_handler_that_comes_back_to_the_points_at_work_is_refused(python) -> None:
    script = """
import signal
kept = ke.Points(x)
signal.signal(signal.SIGALRM, lambda *_: kept.nearest(x[:3]))
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    kept.lloyd(x[:8], iterations=10**12, stop=None)  # until the handler raises
except RuntimeError as error:
    print(error)
print(kept.nearest(x[:3]).shape)
"""
    out = python(script).stdout
    assert "at work in this very thread" in out
    assert "(30000,)" in out


def test_who_waits_for_points_at_work_elsewhere_can_be_interrupted(python) -> None:
    script = """
import signal, threading
kept = ke.Points(x)
forever = lambda: kept.lloyd(x[:8], iterations=10**12, stop=None)
threading.Thread(target=forever, daemon=True).start()
def interrupt(*_):
    raise InterruptedError("in time")
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    forever()
except InterruptedError as error:
    print(error, flush=True)
os._exit(0)
"""
    assert "in time" in python(script).stdout


QUOTA = """
import time
def threads():
    return len(os.listdir("/proc/self/task"))
before = threads()
bits(threads=0)
end = time.monotonic() + 60
while threads() > before + int(sys.argv[1]) and time.monotonic() < end:
    time.sleep(0.01)  # some that begin too late to find work are about to end
print(threads() - before)
"""


@pytest.mark.parametrize(
    ("within", "variables"),
    [
        ("contextlib.nullcontext()", {"OMP_NUM_THREADS": "1"}),
        ("threadpoolctl.threadpool_limits(1)", {}),
        ("threadpoolctl.threadpool_limits(1, user_api='openmp')", {"OMP_NUM_THREADS": "2"}),
    ],
)
def test_limits_on_openmps_threads_are_kept(python, within: str, variables: dict[str, str]) -> None:
    script = f"""
import contextlib, threadpoolctl
def threads():
    return len(os.listdir("/proc/self/task"))
before = threads()
with {within}:
    bits(threads=0)
print("right" if threads() == before else threads() - before)
"""
    _right(python(script, **variables))


@pytest.mark.parametrize(("quota", "threads"), [(50000, 1), (100000, 1), (150000, 2), (-1, 2)])
def test_a_quota_of_processors_limits_the_threads(package, quota: int, threads: int) -> None:
    """By stand-ins for the files of both versions of control groups."""
    if shutil.which("unshare") is None or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("no unshare, or one processor")
    for version in (1, 2):
        file = f"cpu.max={'max' if quota < 0 else quota} 100000"
        files = [f"cpu/cpu.cfs_quota_us={quota}", "cpu/cpu.cfs_period_us=100000"]
        lines = [
            f'echo "{value}" >/sys/fs/cgroup/{name}'
            for name, value in (one.split("=") for one in (files if version == 1 else [file]))
        ]
        fake = "mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/cpu && "
        script = fake + " && ".join(lines) + ' && exec "$@"'
        shell = ["unshare", "-m", "sh", "-c", script, "sh"]
        most = min(threads, len(os.sched_getaffinity(0)))
        done = captured(
            [*shell, sys.executable, "-c", HEAD + QUOTA, str(most - 1)],
            env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
        )
        if "unshare" in done.stderr or "mount" in done.stderr:
            pytest.skip("not allowed to mount: " + done.stderr)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) == most - 1, (version, done.stderr)
