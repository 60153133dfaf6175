# SPDX-License-Identifier: Apache-2.0
"""A neighbour who can be had again: burns one core half of the time, in bursts from a seed.

Bursts and pauses are drawn alike, log-uniform from 20 ms to 5 s: from a timer's work to a
compiler's. Ends when it is asked to (SIGTERM, Ctrl-C) or after --seconds, and says what it did.
"""

from __future__ import annotations

import argparse
import math
import random
import signal
import sys
import time

SHORTEST, LONGEST = 0.02, 5.0


def burn(seconds: float) -> None:
    end = time.monotonic() + seconds
    x = 1.0
    while time.monotonic() < end:
        for _ in range(1000):
            x = x * 1.0000001 + 1e-9


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="how long (for ever)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    draw = random.Random(arguments.seed)
    begin = time.monotonic()
    bursts = 0
    try:
        while time.monotonic() - begin < arguments.seconds:
            burn(math.exp(draw.uniform(math.log(SHORTEST), math.log(LONGEST))))
            bursts += 1
            time.sleep(math.exp(draw.uniform(math.log(SHORTEST), math.log(LONGEST))))
    except KeyboardInterrupt:
        pass
    took = time.monotonic() - begin
    busy = time.process_time()
    print(
        f"neighbour: seed {arguments.seed}, {bursts} bursts, busy {busy:.0f} s of {took:.0f} s"
        f" ({100 * busy / max(took, 1e-9):.0f} %)",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
