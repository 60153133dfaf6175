#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the table of docs/scaling.md: the model of plots/scaling_model.py, from the times of one
GPU that the repository holds.

    .venv/bin/python tools/scaling_table.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from plots.load import load_result  # noqa: E402
from plots.scaling_model import table  # noqa: E402

RESULT = ROOT / "results" / "nvidia-h200" / "ladder-gpu.json"
FAMILY = "cuda_tensor"

if __name__ == "__main__":
    cells = [c for c in load_result(RESULT).cells if c.variant == FAMILY and c.seconds is not None]
    print("\n".join(table({c.shape: c.seconds.mid for c in cells})))
