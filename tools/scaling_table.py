#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what one, two and four GPUs took by the times that the repository holds, and the table of
docs/scaling.md: the model of plots/scaling_model.py from the times of one.

    .venv/bin/python tools/scaling_table.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from plots import scaling_model as model  # noqa: E402
from plots.load import Cell, load_result  # noqa: E402

RESULT = ROOT / "results" / "nvidia-h200-x4" / "gpus.json"
VARIANT = "nccl_exact"
COUNTS = (1, 2, 4)

Times = dict[tuple[int, int, int, int], Cell]


def _thousands(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _interval(cell: Cell) -> str:
    seconds = cell.seconds
    return f"{seconds.mid * 1e3:.3f} ({seconds.low * 1e3:.3f} to {seconds.high * 1e3:.3f})"


def _percent(measured: float, modelled: float) -> str:
    return f"{100 * measured:.1f} ({100 * modelled:.0f})"


def _row(n: int, d: int, k: int, cells: list[Cell], efficiencies: list[str]) -> str:
    shown = [_thousands(n), str(d), _thousands(k), *map(_interval, cells), *efficiencies]
    return "| " + " | ".join(shown) + " |"


def _shapes(times: Times) -> list[tuple[int, int, int]]:
    """Those that one GPU has, by d, k and n."""
    alone = [key[:3] for key in times if key[3] == 1]
    return sorted(alone, key=lambda shape: (shape[1:], shape[0]))


def measured_rows(times: Times, *, weak: bool) -> list[str]:
    """Milliseconds on one, two and four GPUs, of the same points or of n on each GPU, and
    efficiencies next to the model's."""
    modelled = model.weak_efficiency if weak else model.strong_efficiency
    rows = []
    for n, d, k in _shapes(times):
        found = [times.get((n * gpus if weak else n, d, k, gpus)) for gpus in COUNTS]
        cells = [cell for cell in found if cell is not None]
        if len(cells) < len(COUNTS):
            continue
        one = cells[0].seconds.mid
        efficiencies = [
            _percent(
                one / ((1 if weak else gpus) * cell.seconds.mid),
                modelled(one, d, k, gpus),
            )
            for gpus, cell in zip(COUNTS[1:], cells[1:], strict=True)
        ]
        rows.append(_row(n, d, k, cells, efficiencies))
    return rows


if __name__ == "__main__":
    found = [c for c in load_result(RESULT).cells if c.variant == VARIANT and c.seconds is not None]
    by_shape = {(*c.shape, c.gpus or 1): c for c in found}
    for weak in (False, True):
        print("\n".join(measured_rows(by_shape, weak=weak)), end="\n\n")
    print(
        "\n".join(
            model.table({key[:3]: c.seconds.mid for key, c in by_shape.items() if key[3] == 1})
        )
    )
