# SPDX-License-Identifier: Apache-2.0
"""The only reader of result files: checks them and hands out typed records."""

from __future__ import annotations

import hashlib
import json
import math
import re
import stat
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

try:
    import jsonschema
except ImportError:  # on a machine without network; the suite's own files are still drawn
    jsonschema = None
try:
    import jsonschema_rs
except ImportError:
    jsonschema_rs = None  # type: ignore[assignment]

from plots.derived import DerivedError, Facts, facts_of, median_rank
from plots.experiment import Fault, kind_fault, schema_fault
from plots.fits import as_study

ON_GPU = " on a GPU"  # ends the family of libraries whose backend does not say
ROOT = Path(__file__).resolve().parent.parent
SCHEMA_VERSION = 2  # of result files
SCHEMA_FILE = ROOT / "results" / "schema.json"
EXPERIMENT_SCHEMA_FILE = ROOT / "experiments" / "schema.json"


_ORDERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


class ResultError(Exception):
    """A result file cannot be used; the text says which, where and why."""


@dataclass(frozen=True)
class Interval:
    """A median with its spread, all in the unit of the quantity."""

    mid: float
    low: float
    high: float
    confident: bool  # low and high bound the median with 95 % confidence; else smallest, largest

    def plus(self, fixed: float) -> Interval:
        """After something that is known without an interval."""
        return Interval(self.mid + fixed, self.low + fixed, self.high + fixed, self.confident)

    def times(self, factor: float) -> Interval:
        """All of it multiplied; the factor is positive."""
        return Interval(self.mid * factor, self.low * factor, self.high * factor, self.confident)

    def over(self, divisor: Interval) -> Interval | None:
        """The ratio of two positive numbers; from the ends, so it is on the wide side."""
        if min(divisor.low, divisor.mid, self.low) <= 0:
            return None
        return Interval(
            self.mid / divisor.mid,
            self.low / divisor.high,
            self.high / divisor.low,
            self.confident and divisor.confident,
        )


def exactly(value: float) -> Interval:
    """A number that nothing blurs."""
    return Interval(value, value, value, False)


def ratio_of(entry: dict[str, Any], name: str) -> Interval | None:
    """Of a comparison. Without an interval it is not `confident`: then low and high are mid."""
    mid, low, high = (entry[key] for key in (name, f"{name}_low", f"{name}_high"))
    if mid is None:
        return None
    if low is None or high is None:
        return Interval(mid, mid, mid, confident=False)
    return Interval(mid, low, high, confident=True)


def median_interval(samples: Sequence[float]) -> Interval:
    """Median with its 95 % interval from order statistics, by the program's ranks; below six
    samples the smallest and the largest."""
    ordered = sorted(samples)
    rank = median_rank(len(ordered))
    low, high = (ordered[rank - 1], ordered[-rank]) if rank else (ordered[0], ordered[-1])
    return Interval(statistics.median(ordered), low, high, rank > 0)


@dataclass(frozen=True)
class Cell:
    """One configuration of an experiment. Times in seconds, rates in 10^9 per second."""

    key: str
    variant: str
    backend: str
    precision: str
    exact: bool
    threads: int
    n: int
    d: int
    k: int
    iterations: int
    status: str
    reason: str | None
    # Per iteration, where one number speaks for the cell: None unless status is "ok" and its
    # processes agree. So an unsteady cell has no headline number, wins nothing, and is neither a
    # baseline nor a side of a verdict.
    seconds: Interval | None
    sample_count: int
    data: dict[str, Any] = field(repr=False)  # the cell as it stands in the file
    unsteady: tuple[str, ...] = ()  # why no one number speaks for it
    noted: tuple[str, ...] = ()  # conditions that are worth a footnote
    # Did its variant run with several numbers of threads at its precision? Then its name has them.
    threads_vary: bool = False
    # By the program's rules (plots/derived.py): what its answer is worth, and of what kind its data
    # are; none of another kind is ranked with it.
    answer: str = ""
    data_kind: str = ""
    # The least time of an iteration by brute force, with what binds, and its share of the median.
    limit: tuple[float, str] | None = None
    share_of_limit: float | None = None
    # The median of its slowest process, of an unsteady cell: what it counts with where someone has
    # to choose.
    slowest: float | None = None
    # Measured GB/s of reading and GFLOP/s of multiply-adds, of its processor and its GPU.
    rates: dict[str, list[float | None]] = field(default_factory=dict, repr=False)

    @property
    def ok(self) -> bool:
        """Is there a time that may be held against others?"""
        return self.seconds is not None

    @property
    def measured(self) -> Interval | None:
        """Where the samples lie, of an unsteady cell from the smallest to the largest: to be shown
        as that alone."""
        if self.seconds is not None or self.status != "ok":
            return self.seconds
        times = self.data.get("seconds_per_iteration") or {}
        if times.get("median") is None:
            return None
        return Interval(times["median"], times["min"], times["max"], False)

    @property
    def executed_iterations(self) -> int | None:
        """Those that really ran of the T asked for, which a library may stop before. None where the
        file does not say: of a library, in files of earlier versions."""
        if "executed_iterations" not in self.data and self.backend == "python":
            return None
        return self.data.get("executed_iterations") or self.iterations

    @property
    def stopped_early(self) -> bool:
        executed = self.executed_iterations
        return self.ok and executed is not None and executed != self.iterations

    @property
    def may_stop(self) -> bool:
        """Could it have ended before T? Of a library also where the file does not say."""
        known = "executed_iterations" in self.data
        return self.data["executed_iterations"] is not None if known else self.backend == "python"

    @property
    def ranks(self) -> int:
        """Processes that shared its points."""
        return self.data.get("ranks", 1)

    @property
    def gpus(self) -> int:
        """GPUs that shared its points."""
        return self.data.get("gpus", 1)

    @property
    def on_gpu(self) -> bool:
        """Was it measured on a GPU? (The backend alone does not say: Python libraries do both.)"""
        return self.data.get("gpu") is not None

    @property
    def expected_wrong(self) -> str | None:
        """Why a variant that is kept as its source prints it is wrong here; None for others."""
        return self.data.get("wrong_because") if self.status == "wrong" else None

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.n, self.d, self.k)


@dataclass(frozen=True)
class Result:
    """One experiment on one machine."""

    path: Path
    sha256: str
    experiment: str
    scale: str
    complete: bool
    planned_cells: int
    context: dict[str, Any] = field(repr=False)
    spec: dict[str, Any] = field(repr=False)
    cells: tuple[Cell, ...] = field(repr=False)
    traces: tuple[dict[str, Any], ...] = field(repr=False)
    # (family, variant) of every result drawn together, so that a variant looks the same in all;
    # a family is a backend, libraries that were measured on a GPU being one of their own.
    roster: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    studies: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    @property
    def figures(self) -> list[dict[str, Any]]:
        """The figures that this scale asks for."""
        wanted = self.spec.get("figures", [])
        return [f for f in wanted if self.scale in f.get("scales", [self.scale])]


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is more than a float64 can hold")
    return value


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"key {twice[0]!r} appears twice in one object")
    return record


def plain(text: str) -> str:
    """A text without what is not a letter but an order to a terminal or a page: control characters,
    changes of the writing direction, halves of pairs. SVG cannot even hold most of them."""
    return _ORDERS.sub("\N{REPLACEMENT CHARACTER}", text)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): _plain(item) for key, item in value.items()}
    return value


def read_json(path: Path) -> Any:
    """Strict JSON of a regular file: no NaN or 1e999, no duplicate keys; texts are plain."""
    return _read_hashed(path)[0]


def _read_hashed(path: Path) -> tuple[Any, str]:
    """The same, and the SHA-256 of what was read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a FIFO would wait for ever
            raise ResultError(f"{path}: is not a regular file, so it is not read")
        content = path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        text = content.decode("utf-8")
        data = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_refuse_duplicates,
        )
        # Raw control characters are refused above; escaped ones and others are rare.
        return _plain(data) if "\\u" in text or not text.isascii() else data, sha256
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from error
    except RecursionError as error:
        raise ResultError(f"{path}: nested too deeply") from error
    except ValueError as error:  # also JSONDecodeError and UnicodeDecodeError
        raise ResultError(f"{path}: {error}") from error


@cache
def _validator(schema_file: Path) -> Any:
    """The schema's validator, or None where the package jsonschema is missing."""
    if jsonschema is None:
        print("plots: without the package jsonschema, results are not checked", file=sys.stderr)
        return None
    schema = read_json(schema_file)
    return jsonschema.validators.validator_for(schema)(schema)


@cache
def _quick_validator(schema_file: Path) -> Any:
    return jsonschema_rs.validator_for(read_json(schema_file))


def _surely_keeps_to(schema_file: Path, data: Any) -> bool:
    """False where the slow validator has to say."""
    try:
        return jsonschema_rs is not None and _quick_validator(schema_file).is_valid(data)
    except ValueError:  # half of a surrogate pair
        return False


def _best_error(schema_file: Path, data: Any) -> Any:
    """Where the data leaves its schema, and how; None where it does not."""
    validator = _validator(schema_file)
    if validator is None or _surely_keeps_to(schema_file, data):
        return None
    return jsonschema.exceptions.best_match(validator.iter_errors(data))


def spec_fault(spec: Any) -> Fault | None:
    """What is wrong with an experiment as it stands in its file or in a result; names aside."""
    error = _best_error(EXPERIMENT_SCHEMA_FILE, spec)
    return schema_fault(error) if error is not None else kind_fault(spec)


def check_version(path: Path, data: Any, version_key: str, known: Sequence[int]) -> None:
    version = data.get(version_key) if isinstance(data, dict) else None
    if isinstance(version, bool) or not isinstance(version, int) or version not in known:
        versions = " and ".join(str(one) for one in known)
        raise ResultError(
            f"{path}: {version_key} is {version!r}; this reader knows {versions} only"
        )


def check_schema(path: Path, data: Any, schema_file: Path) -> None:
    error = _best_error(schema_file, data)
    if error is not None:
        place = "/".join(str(part) for part in error.absolute_path)
        raise ResultError(f"{path}: at /{place}: {error.message[:300]}")


def read_checked(path: Path, schema_file: Path, version_key: str, known: int) -> dict[str, Any]:
    """A file of a known version that keeps to its schema. Raises ResultError."""
    data = read_json(path)
    check_version(path, data, version_key, (known,))
    check_schema(path, data, schema_file)
    return data


def _interval(times: dict[str, Any] | None) -> Interval | None:
    if not times or times.get("median") is None:
        return None
    low, high = times.get("ci95_low"), times.get("ci95_high")
    confident = low is not None and high is not None
    if not confident:
        low, high = times.get("min"), times.get("max")
    mid = times["median"]
    return Interval(mid, mid if low is None else low, mid if high is None else high, confident)


def _cell(data: dict[str, Any], facts: dict[str, Any]) -> Cell:
    ok = data["status"] == "ok"
    samples = data.get("samples_seconds_per_iteration") or []
    unsteady = tuple(data.get("unsteady") or ()) if ok else ()
    return Cell(
        key=data["key"],
        variant=data["variant"],
        backend=data["backend"],
        precision=data["precision"],
        exact=bool(data.get("exact")),
        threads=data["threads"],
        n=data["n"],
        d=data["d"],
        k=data["k"],
        iterations=data["iterations"],
        status=data["status"],
        reason=data.get("reason"),
        # Whatever a file may hold: only a verified cell has a time.
        seconds=_interval(data.get("seconds_per_iteration")) if ok and not unsteady else None,
        sample_count=sum(len(process) for process in samples) if ok else 0,
        data=data,
        unsteady=unsteady,
        noted=tuple(data.get("noted") or ()),
        answer=facts["answer"],
        data_kind=facts["data"],
        limit=tuple(facts["limit"]) if "limit" in facts else None,
        share_of_limit=facts.get("share"),
        slowest=facts.get("slowest"),
        rates={place: facts[place] for place in ("cpu", "gpu") if place in facts},
    )


def _read_result(path: Path) -> tuple[dict[str, Any], str]:
    """A result file, whole, and its SHA-256; raises ResultError."""
    data, sha256 = _read_hashed(path)
    check_version(path, data, "schema_version", (SCHEMA_VERSION,))
    check_schema(path, data, SCHEMA_FILE)
    wrong = spec_fault(data["spec"])
    if wrong is not None:
        raise ResultError(f"{path}: at /spec{wrong.pointer}: {wrong.reason}")
    return data, sha256


def load_result(path: Path) -> Result:
    """Reads and checks one result file; raises ResultError."""
    return load_results([path])[0]


def load_results(paths: Sequence[Path]) -> list[Result]:
    """The same of several. The program says which contradict themselves."""
    read = {path: _read_result(path) for path in paths}
    try:
        facts = facts_of({path: sha256 for path, (_, sha256) in read.items()})
    except DerivedError as error:
        raise ResultError(str(error)) from error
    return [_result(path, read[path][0], facts[path]) for path in paths]


def _result(path: Path, data: dict[str, Any], facts: Facts) -> Result:
    pairs = zip(data["cells"], facts["cells"], strict=True)
    cells = _told_apart([_cell(cell, own) for cell, own in pairs])
    return Result(
        path=path,
        sha256=facts["sha256"],
        experiment=data["experiment"],
        scale=data["scale"],
        complete=data["complete"],
        planned_cells=data["planned_cells"],
        context=data["context"],
        spec=data["spec"],
        cells=cells,
        traces=tuple(data["traces"]),
        roster=_roster([cells]),
        # Files of earlier versions have neither.
        studies=(
            *(data.get("studies") or ()),
            *(as_study(fit) for fit in data.get("fits") or ()),
        ),
    )


def _told_apart(cells: list[Cell]) -> tuple[Cell, ...]:
    threads: dict[tuple[str, str], set[int]] = {}
    for cell in cells:
        threads.setdefault((cell.variant, cell.precision), set()).add(cell.threads)
    several = {name for name, used in threads.items() if len(used) > 1}
    return tuple(
        replace(cell, threads_vary=True) if (cell.variant, cell.precision) in several else cell
        for cell in cells
    )


def _roster(groups: list[tuple[Cell, ...]]) -> tuple[tuple[str, str], ...]:
    cells = [cell for group in groups for cell in group]
    on_gpu = {cell.variant for cell in cells if cell.on_gpu}

    def family(cell: Cell) -> str:
        library = cell.backend == "python" and cell.variant in on_gpu
        return cell.backend + ON_GPU if library else cell.backend

    return tuple(sorted({(family(cell), cell.variant) for cell in cells}))


def load_folder(folder: Path) -> list[Result]:
    """Every result file of results/<machine>, sorted by name; raises ResultError."""
    if not folder.is_dir():
        raise ResultError(f"{folder}: no such folder")
    results = load_results(sorted(folder.glob("*.json")))
    if not results:
        raise ResultError(f"{folder}: holds no result file (<experiment>.json)")
    _refuse_two_of_one_experiment(folder, results)
    return together(results)


def _refuse_two_of_one_experiment(folder: Path, results: Sequence[Result]) -> None:
    """One page cannot show both: they have the same names, and a reader could not distinguish
    them."""
    seen: dict[str, Result] = {}
    for result in results:
        other = seen.setdefault(result.experiment, result)
        if other is not result:
            raise ResultError(
                f"{folder}: {other.path.name} and {result.path.name} both hold the experiment "
                f"{result.experiment}; move one of them to a folder of its own, or compare them: "
                f"kmeans-bench compare {other.path.name} {result.path.name}"
            )


def together(results: Sequence[Result]) -> list[Result]:
    """The same with one roster, so that a variant looks the same in all of them."""
    roster = _roster([result.cells for result in results])
    return [replace(result, roster=roster) for result in results]
