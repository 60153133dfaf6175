# SPDX-License-Identifier: Apache-2.0
"""Figures and report, drawn from result files alone: `python -m plots [DIR]`."""
