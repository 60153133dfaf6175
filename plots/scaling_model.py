# SPDX-License-Identifier: Apache-2.0
"""What an iteration takes on many GPUs that share the points, from measured costs of one GPU and of
two (docs/scaling.md). tools/scaling_table.py prints the table of that page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SUMS_IN_ONE_CALL = 262144  # implementations/cuda/_shared_sums.cuh
COUNTS = (1, 2, 4, 8, 16, 64, 256, 1024)
_FEW = 0.5  # of the GPUs' time: what is below does not pay


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes a second."""

    # Measured on two H200s of one host (NVLink, multicast off), all-reduce of int64 replayed from
    # a graph: 11 us for 64 B to 64 KiB, 17 us for 1 MiB, 49 us for 8 MiB, 250 us for 64 MiB,
    # 890 us for 256 MiB. Not fitted to four of them, which took 13 to 16 us for 64 B to 64 KiB,
    # 21 us for 1 MiB, 63 us for 8 MiB, 326 us for 64 MiB and 1 189 us for 256 MiB.
    call: float = 11e-6
    link: float = 305e9  # 256 MiB in what its 890 us leave next to the call
    # Measured on one H200: a node of a graph, of which an exact iteration has some 12
    # whatever n; a copy in its memory, read and written.
    fixed: float = 12e-6
    copy: float = 2095e9
    # Not measured: hosts of eight GPUs, a port of 400 Gbit/s for each GPU, and a tree of hosts.
    gpus_of_host: int = 8
    port: float = 50e9
    hop: float = 10e-6


MEASURED = Costs()


def call_seconds(size: float, gpus: int, costs: Costs = MEASURED) -> float:
    """A reduce-scatter or an all-gather of so many bytes in all: each GPU sends and receives all
    but its own part, at the pace of the slowest link."""
    if gpus == 1:
        return 0.0
    hosts = -(-gpus // costs.gpus_of_host)
    hops = (hosts - 1).bit_length()
    link = costs.link if hosts == 1 else min(costs.link, costs.port)
    # What was measured is an all-reduce, on two GPUs, where it sends the whole once.
    return costs.call + hops * costs.hop + size * (gpus - 1) / gpus / link


def communication_seconds(d: int, k: int, gpus: int, costs: Costs = MEASURED) -> float:
    """Of an iteration: sums and counts, 8 bytes each, in one call or scattered, then the float32
    centroids gathered and copied."""
    if gpus == 1:
        return 0.0
    sums = 8.0 * k * (d + 1)
    if k * (d + 1) <= SUMS_IN_ONE_CALL:
        # One call that does both parts.
        one = call_seconds(0, gpus, costs)
        return one + 2 * (call_seconds(sums, gpus, costs) - one)
    centroids = 4.0 * k * d
    return (
        call_seconds(sums, gpus, costs)
        + call_seconds(centroids, gpus, costs)
        + centroids / costs.copy
    )


def step_seconds(one: float, d: int, k: int, gpus: int, costs: Costs = MEASURED) -> float:
    """An iteration on so many GPUs, of points of which one GPU takes `one` seconds."""
    fixed = min(costs.fixed, one)
    return fixed + (one - fixed) / gpus + communication_seconds(d, k, gpus, costs)


def strong_efficiency(one: float, d: int, k: int, gpus: int, costs: Costs = MEASURED) -> float:
    """The same points on more GPUs."""
    return one / (gpus * step_seconds(one, d, k, gpus, costs))


def weak_efficiency(one: float, d: int, k: int, gpus: int, costs: Costs = MEASURED) -> float:
    """As many points on each GPU."""
    return one / (one + communication_seconds(d, k, gpus, costs))


def last_that_pays(
    efficiency: Callable[[int], float], counts: tuple[int, ...] = COUNTS, least: float = _FEW
) -> int:
    """The largest count up to which all use their GPUs at least so well."""
    paying = 1
    for gpus in counts:
        if efficiency(gpus) < least:
            break
        paying = gpus
    return paying


# --- The table of docs/scaling.md ------------------------------------------------------------

SHAPES = (
    (1048576, 32, 256),
    (16777216, 16, 64),
    (8388608, 128, 1024),
    (1048576, 128, 8192),
    (1048576, 512, 65536),
)


_SHOWN = (2, 8, 64, 1024)


def row(n: int, d: int, k: int, one: float) -> str:
    """One shape: milliseconds on one GPU, efficiencies, and the last count that pays."""
    strong = [strong_efficiency(one, d, k, gpus) for gpus in _SHOWN]
    pays = last_that_pays(lambda gpus: strong_efficiency(one, d, k, gpus))
    cells = [f"{n:,}".replace(",", " "), str(d), f"{k:,}".replace(",", " "), f"{one * 1e3:.3f}"]
    cells += [f"{communication_seconds(d, k, 8) * 1e6:.0f}"]
    cells += [f"{100 * value:.0f}" for value in strong]
    cells += [str(pays), f"{100 * weak_efficiency(one, d, k, COUNTS[-1]):.0f}"]
    return "| " + " | ".join(cells) + " |"


def table(measured: dict[tuple[int, int, int], float]) -> list[str]:
    """From seconds on one GPU by shape."""
    return [row(*shape, measured[shape]) for shape in SHAPES]
