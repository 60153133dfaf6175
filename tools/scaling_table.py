#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the two tables of docs/scaling.md from the times that the repository holds: what one and
two GPUs took, and the model of plots/scaling_model.py from the times of one.

    .venv/bin/python tools/scaling_table.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from plots import scaling_model as model  # noqa: E402
from plots.load import Cell, load_result  # noqa: E402

RESULT = ROOT / "results" / "nvidia-h200-x2" / "gpus.json"
VARIANT = "nccl_exact"

Times = dict[tuple[int, int, int, int], Cell]


def _thousands(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _interval(cell: Cell) -> str:
    seconds = cell.seconds
    return f"{seconds.mid * 1e3:.3f} ({seconds.low * 1e3:.3f} to {seconds.high * 1e3:.3f})"


def _percent(measured: float, modelled: float) -> str:
    return f"{100 * measured:.0f} ({100 * modelled:.0f})"


def measured_rows(times: Times) -> list[str]:
    """Milliseconds on one and two GPUs, and efficiencies beside the model's."""
    rows = []
    for (n, d, k, gpus), cell in sorted(times.items(), key=lambda item: item[0][1:3] + item[0][:1]):
        if gpus != 2:
            continue
        one, half = times[n, d, k, 1], times.get((n // 2, d, k, 1))
        strong = _percent(
            one.seconds.mid / (2 * cell.seconds.mid),
            model.strong_efficiency(one.seconds.mid, d, k, 2),
        )
        weak = "-"
        if half is not None:
            modelled = model.weak_efficiency(half.seconds.mid, d, k, 2)
            weak = _percent(half.seconds.mid / cell.seconds.mid, modelled)
        cells = [
            _thousands(n),
            str(d),
            _thousands(k),
            _interval(one),
            _interval(cell),
            strong,
            weak,
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


if __name__ == "__main__":
    found = [c for c in load_result(RESULT).cells if c.variant == VARIANT and c.seconds is not None]
    by_shape = {(*c.shape, c.gpus or 1): c for c in found}
    print("\n".join(measured_rows(by_shape)), end="\n\n")
    print(
        "\n".join(
            model.table({key[:3]: c.seconds.mid for key, c in by_shape.items() if key[3] == 1})
        )
    )
