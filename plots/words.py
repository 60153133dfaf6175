# SPDX-License-Identifier: Apache-2.0
"""Numbers and names as people read them."""

from __future__ import annotations

import math
import re
import textwrap

NONE = "\u2014"  # an em dash: there is no value
TIMES = "\u00d7"
TO = "\u2013"  # an en dash between two ends
MINUS = "\u2212"
_TOGETHER = re.compile(r"(?<=\d) (?=\d{3}(?!\d))|(?<=\w) (?== \S)|(?<=\w =) (?=\S)")
_UNBROKEN = "\u00a0"  # a space at which textwrap does not break
_SI = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def wrapped(text: str, letters: int) -> str:
    """In lines, none of which ends within 500 000 or n = 2: half a number is another number."""
    kept = textwrap.fill(_TOGETHER.sub(_UNBROKEN, text), letters)
    return kept.replace(_UNBROKEN, " ")


def digits(value: float, significant: int = 3) -> str:
    """Three significant digits without an exponent where that stays short: 0.0123, 4.50, 1 234."""
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -4 or magnitude > 8:
        return f"{value:.{significant - 1}e}"
    decimals = max(0, significant - 1 - magnitude)
    rounded = round(value, significant - 1 - magnitude)
    return f"{rounded:,.{decimals}f}".replace(",", " ")


def compact(value: float) -> str:
    """For ticks: 20, 0.5, 1 500; powers of ten beyond what is short."""
    if value and not 1e-4 < abs(value) < 1e6:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    if abs(value) >= 1e4:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:,.4g}".replace(",", " ")


def compact_seconds(value: float) -> str:
    for size, unit in _SI:
        if abs(value) >= 0.9999 * size or unit == "ns":
            return f"{compact(value / size)} {unit}"
    return NONE


def seconds(value: float | None) -> str:
    if value is None:
        return NONE
    for size, unit in _SI:
        if abs(value) >= size or unit == "ns":
            return f"{digits(value / size)} {unit}"
    return NONE


def factor(value: float | None, ticks: bool = False) -> str:
    if value is None:
        return NONE
    return (compact(value) if ticks else digits(value)) + TIMES


def rate(value: float | None) -> str:
    return NONE if value is None else digits(value)


def percent(value: float | None) -> str:
    if value is None:
        return NONE
    if value == 0:
        return "0 %"
    return f"{digits(100 * value, 2)} %"


def count(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def short_count(value: int) -> str:
    """Tick labels: 500, 5000, 50k, 1M; other numbers in full."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= max(size, 10_000) and value % (size // 10) == 0:
            return f"{value / size:g}{unit}"
    return str(value)


def rounded_count(value: int) -> str:
    """As short_count, but long numbers in three digits: 1.05M for 1048576."""
    exact = short_count(value)
    if len(exact) <= 5:
        return exact
    return f"{value / 1e6:.3g}M" if value >= 1_000_000 else f"{value / 1e3:.3g}k"


def listed(items: list[str], limit: int = 8) -> str:
    """'a, b and c'; a long list is cut and says by how many."""
    if len(items) > limit:
        return ", ".join(items[:limit]) + f" and {len(items) - limit} more"
    if len(items) < 2:
        return "".join(items)
    return ", ".join(items[:-1]) + " and " + items[-1]


def many(number: int, noun: str, plural: str | None = None) -> str:
    return f"{count(number)} {noun if number == 1 else plural or noun + 's'}"


def size(value: int) -> str:
    """Bytes in binary units: 48 KiB, 22.9 GiB."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if value >= 1 << power:
            return f"{value / (1 << power):.3g} {unit}"
    return f"{value} bytes"


def span(values: list[int]) -> str:
    """'9' or '3 to 9'."""
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"
