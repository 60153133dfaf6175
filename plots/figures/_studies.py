# SPDX-License-Identifier: Apache-2.0
"""Shared by the kinds that show the rows of studies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plots import captions
from plots.fits import FIT
from plots.load import Result
from plots.select import NothingToDraw
from plots.words import MINUS, NONE, count, digits, listed, many

Study = dict[str, Any]
Row = dict[str, Any]
_MOST_VALUES = 10  # of a parameter, beyond which their number is given
STUDY = "study"  # a key that every row has besides its own: the study's name in the experiment


def names_of(figure: dict[str, Any]) -> list[str]:
    wanted = figure.get("study") or []
    return [wanted] if isinstance(wanted, str) else list(wanted)


def studies_of(result: Result, figure: dict[str, Any]) -> list[Study]:
    """The figure's studies, those that ran and those that did not."""
    names = names_of(figure)
    by_name = {study["name"]: study for study in result.studies}
    return [by_name[name] for name in names if name in by_name]


def rows_of(result: Result, figure: dict[str, Any]) -> list[Row]:
    """The rows that the figure selects; raises NothingToDraw."""
    names = names_of(figure)
    studies = studies_of(result, figure)
    if not studies:
        raise NothingToDraw(f"this run has no study {listed([repr(n) for n in names])}")
    rows = [
        {**row, STUDY: study["name"]}
        for study in studies
        if study["status"] == "ok"
        for row in study["rows"]
    ]
    if not rows:
        reasons = [f"{s['name']}: {s['status']}, {s.get('reason') or 'no rows'}" for s in studies]
        raise NothingToDraw("; ".join(reasons))
    for key, wanted in (figure.get("where") or {}).items():
        admitted = wanted if isinstance(wanted, list) else [wanted]
        rows = [row for row in rows if row.get(key) in admitted]
    if not rows:
        raise NothingToDraw("no row of the study is in the figure's selection")
    return rows


def values_of(rows: Sequence[Row], key: str) -> list[Any]:
    """The key's values, numbers rising, everything else in the order of the rows."""
    values = list(dict.fromkeys(row.get(key) for row in rows))
    return sorted(values) if all(is_number(v) for v in values) else values


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def value_text(value: Any, significant: int = 4) -> str:
    """A value of a row as people read it."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not is_number(value):
        return str(value)
    sign, size = (MINUS, -value) if value < 0 else ("", value)
    if float(size).is_integer() and size < 1e15:
        return sign + count(int(size))
    return sign + digits(size, significant)


def title_of(key: str) -> str:
    """A key as words: underscores are spaces."""
    return key.replace("_", " ")


def sentences_of(
    result: Result, figure: dict[str, Any], own: Sequence[str] = (), *, problems: bool = True
) -> list[str]:
    """Figure's words, machine, `own`, then of each study its question, problem, findings, notes."""
    studies = studies_of(result, figure)
    sentences = [*captions.opening(result, figure), *own]
    several = len({study["summary"] for study in studies}) > 1  # questions
    for study in studies:
        named = f"{study['name']}: " if len(studies) > 1 else ""
        sentences.append((named if several else "") + _sentence(study["summary"]))
        problem = _problem(study) if problems else None
        if problem:
            sentences.append(f"{named}{problem}.")
        if study["status"] != "ok":
            sentences.append(_not_ok(study, studies))
        if study["study"] == FIT:
            continue  # the report has what there is to say of each
        if study["findings"] and figure.get("findings", True):
            found = [f"{title_of(k)} {value_text(v)}" for k, v in study["findings"].items()]
            sentences.append(f"{named}Found: {listed(found, limit=12)}.")
    sentences += _notes([study for study in studies if study["study"] != FIT])
    absent = [name for name in names_of(figure) if name not in {s["name"] for s in studies}]
    if absent and not result.complete:  # else they are of another scale
        sentences.append(f"Not part of this run: {listed(absent)}.")
    return [*dict.fromkeys(sentences), *captions.closing(result)]


def _not_ok(study: Study, studies: Sequence[Study]) -> str:
    """What became of it, said once of all that have the same reason."""
    same = [
        s
        for s in studies
        if (s["status"], s.get("reason")) == (study["status"], study.get("reason"))
    ]
    why = (study.get("reason") or "no reason given").rstrip(".")
    verb = "is" if len(same) == 1 else "are"
    return f"{_all([s['name'] for s in same])} {verb} {study['status']}: {why}."


def _notes(studies: Sequence[Study]) -> list[str]:
    """Each once, with the studies' names unless all have it; 'a: late' and 'b: late' are one."""
    places: dict[str, list[str]] = {}
    for study in studies:
        names: dict[str, list[str]] = {}
        for note in study["notes"]:
            name, colon, tail = note.partition(": ")
            names.setdefault(colon + tail, []).append(name)
        for tail, own in names.items():
            places.setdefault(_all(own) + tail, []).append(study["name"])
    return [
        _sentence(note if len(found) == len(studies) else f"{_all(found)}: {note}")
        for note, found in places.items()
    ]


def _all(names: Sequence[str]) -> str:
    if any("," in name for name in names):
        return "; ".join(names)
    return listed(list(names), limit=len(names))


def _sentence(text: str) -> str:
    """Begins with a capital letter, unless with a name: 'ward: ...'."""
    first = text.partition(" ")[0]
    if first.rstrip(",.").isalpha():
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else text + "."


def _problem(study: Study) -> str:
    parts = []
    if study.get("n"):
        parts.append(f"n = {count(study['n'])}, d = {study['d']}, k = {count(study['k'])}")
    if study.get("dataset"):
        parts.append(f"data {study['dataset']}")
    if study.get("init"):
        parts.append(f"first centroids {study['init']}")
    parts += [f"{title_of(k)} {_parameter(v)}" for k, v in study["parameters"].items()]
    return "; ".join(parts)


def _parameter(value: Any) -> str:
    if isinstance(value, list):
        if len(value) > _MOST_VALUES:
            return many(len(value), "value")
        parts = [_parameter(v) for v in value]
        nested = [f"({p})" if isinstance(v, list) else p for p, v in zip(parts, value, strict=True)]
        return ", ".join(nested)
    return value_text(value)
