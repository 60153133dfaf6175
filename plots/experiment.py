# SPDX-License-Identifier: Apache-2.0
"""What an experiment says of its source and of its pictures: `published`, `claims`, `figures`.

experiments/schema.json has their form, the files of plots/figures are the kinds of figures; here is
what neither can say. The program carries these keys unread, and asks plots/check.py before it
measures."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from plots import fits
from plots.figures import KINDS
from plots.patterns import fault as pattern_fault

ROOT = Path(__file__).resolve().parent.parent
_TYPES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object {...}",
    "array": "a list [...]",
}


def expanded(value: Any) -> Any:
    """An object in a list that has `each`, a list of objects, stands for all of these, each with
    what else it has (harness/support/json_each.h). What is wrong with it, the program says."""
    if isinstance(value, dict):
        return {key: expanded(part) for key, part in value.items()}
    if not isinstance(value, list):
        return value
    return [expanded(one) for element in value for one in _stands_for(element)]


def _stands_for(element: Any) -> list[Any]:
    each = element.get("each") if isinstance(element, dict) else None
    if not isinstance(each, list) or not all(isinstance(one, dict) for one in each):
        return [element]
    shared = {key: part for key, part in element.items() if key != "each"}
    return [shared | one for one in each]


class Fault(NamedTuple):
    """Where an expanded experiment is wrong, and what would be right."""

    path: tuple[str | int, ...]
    reason: str

    @property
    def pointer(self) -> str:
        return "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in self.path)


def shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(wanted: str, known: Sequence[str]) -> str:
    """ "did you mean 'iterations'?", or all that there are."""
    close = difflib.get_close_matches(wanted, known, 1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


# --- The form --------------------------------------------------------------------------------


def schema_fault(error: Any) -> Fault:
    """What an error of jsonschema means to whoever wrote the file."""
    parent = error.parent
    if parent is not None and parent.validator == "anyOf" and parent.path == error.path:
        return _alternatives(parent) or _reason(error)
    return _reason(error)


def _alternatives(error: Any) -> Fault | None:
    """Of a value that fits none of several forms, where these differ in one thing alone."""
    kinds = {one.validator for one in error.context}
    path = tuple(error.absolute_path)
    if kinds == {"required"}:
        keys = [key for one in error.context for key in one.validator_value]
        return Fault(path, f"lacks one of {', '.join(keys)}")
    if kinds == {"type"}:
        types = " or ".join(_TYPES[one.validator_value] for one in error.context)
        return Fault(path, f"{shortened(error.instance)} must be {types}")
    return None


def _reason(error: Any) -> Fault:
    path, value, rule = tuple(error.absolute_path), error.instance, error.validator_value
    if error.validator == "additionalProperties" and rule is False:
        known = sorted(error.schema["properties"])
        key = next(key for key in value if key not in known)
        return Fault((*path, key), f"unknown key; {nearest(key, known)}")
    if error.validator == "required":
        key = next(key for key in rule if key not in value)
        return Fault(path, f"lacks {key!r}")
    if error.validator == "enum":
        return Fault(path, f"unknown value {shortened(value)}; {nearest(str(value), rule)}")
    if error.validator == "type" and rule in _TYPES:
        return Fault(path, f"{shortened(value)} must be {_TYPES[rule]}")
    if error.validator == "minItems":
        return Fault(path, "the list is empty; give at least one value")
    if error.validator == "dependentRequired":
        key, needed = next(
            (key, one) for key, needs in rule.items() if key in value for one in needs
            if one not in value
        )  # fmt: skip
        return Fault(path, f"{key!r} needs {needed!r} next to it")
    found = _alternatives(error) if error.validator == "anyOf" else None
    return found or Fault(path, error.message[:300])


def kind_fault(spec: dict[str, Any]) -> Fault | None:
    """What the schema leaves to the files of plots/figures, and patterns that never end."""
    for index, figure in enumerate(spec.get("figures") or []):
        if figure.get("kind") not in KINDS:
            reason = (
                f"unknown value {figure.get('kind')!r}; {nearest(str(figure.get('kind')), KINDS)}"
            )
            return Fault(("figures", index, "kind"), reason)
        for place, pattern in enumerate(figure.get("traces") or []):
            if damage := pattern_fault(pattern):
                return Fault(("figures", index, "traces", place), damage)
    return None


# --- What is named ---------------------------------------------------------------------------


@cache
def variants_in_the_tree() -> frozenset[str]:
    """By file name: implementations/<backend>/<backend>_<idea>.<suffix>."""
    files = [
        f for f in (ROOT / "implementations").glob("*/*") if f.suffix in (".cpp", ".cu", ".py")
    ]
    return frozenset(
        {"reference"} | {f.stem for f in files if f.stem.startswith(f"{f.parent.name}_")}
    )


def _name(entry: str | dict[str, Any]) -> str:
    return entry if isinstance(entry, str) else entry["variant"]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def name_faults(spec: dict[str, Any]) -> Iterator[Fault]:
    """Of a spec that keeps to the schema: names used twice, and names of nothing."""
    for key in ("claims", "figures"):
        seen: set[str] = set()
        for index, entry in enumerate(spec.get(key) or []):
            if entry["id"] in seen:
                yield Fault((key, index, "id"), f"two {key} have the id {entry['id']!r}")
            seen.add(entry["id"])
    lists = [spec["variants"], *(s.get("variants", []) for s in spec["scales"].values())]
    own = {_name(entry) for entries in lists for entry in entries}
    known = {
        "variant": sorted((own - {"*"}) | variants_in_the_tree()),
        "trace": [trace["name"] for trace in spec.get("traces") or []],
        "study": [*(study["name"] for study in spec.get("studies") or []), *fits.names(spec)],
    }
    for owner, entry in _owners(spec):
        for key, kind in (
            *(("variant", "variant"), ("baseline", "variant"), ("study", "study")),
            *(("trace", "trace"), ("baseline_trace", "trace")),
        ):
            for value in _listed(entry.get(key, [])):
                if _name(value) not in known[kind]:
                    hint = nearest(_name(value), known[kind])
                    if not known[kind]:
                        hint = f"the experiment has no {kind}"
                    yield Fault((*owner, key), f"unknown {kind} {_name(value)!r}; {hint}")
    yield from _repeats_faults(spec)


def _repeats_faults(spec: dict[str, Any]) -> Iterator[Fault]:
    """What a claim repeats is a claim, of this experiment or of one in experiments/, that repeats
    none itself."""
    for index, claim in enumerate(spec.get("claims") or []):
        if "repeats" not in claim:
            continue
        wanted, owner = claim["repeats"], ("claims", index, "repeats")
        experiment, _, identity = wanted.partition("/")
        known = {one["id"]: one for one in _claims_of(experiment, spec)}
        if identity not in known:
            hint = nearest(wanted, [f"{experiment}/{one}" for one in known])
            if not known:
                hint = f"no experiment {experiment!r} has claims"
            yield Fault(owner, f"unknown claim {wanted!r}; {hint}")
        elif "repeats" in known[identity]:
            yield Fault(
                owner, f"{wanted!r} itself repeats {known[identity]['repeats']!r}; name that"
            )
        elif known[identity].get("of", "source") != claim.get("of", "source"):
            yield Fault(owner, f"{wanted!r} is not of the same: source or ours")


def _claims_of(experiment: str, spec: dict[str, Any]) -> list[dict[str, Any]]:
    if experiment == spec["name"]:
        return spec["claims"]
    path = ROOT / "experiments" / f"{experiment}.json"
    if not path.is_file():
        return []
    return expanded(json.loads(path.read_text(encoding="utf-8"))).get("claims", [])


def _owners(spec: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    for key in ("published", "figures"):
        for index, entry in enumerate(spec.get(key) or []):
            yield (key, index), entry
    for index, claim in enumerate(spec.get("claims") or []):
        for place, test in enumerate(claim["tests"]):
            yield ("claims", index, "tests", place), test
