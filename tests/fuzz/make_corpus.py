# SPDX-License-Identifier: Apache-2.0
"""Writes seeds and dictionaries for the fuzzer: small good files of every format, and damaged ones.

Experiments, results, journals and messages are cut from those of the repository.
"""

import json
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "nvidia-h200"


def npy(descr: str, shape: str, data: bytes, version: int = 1, fortran: bool = False) -> bytes:
    """An npy file whose header says `descr` and `shape`, whatever `data` are."""
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    prefix = 10 if version == 1 else 12
    text += b" " * (-(prefix + len(text) + 1) % 64) + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def corpus() -> dict[str, bytes]:
    """All files by path below corpus/."""
    six = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
    doubles = struct.pack("<6d", 1, 2, 3, 4, 5, 6)
    record = struct.pack("<i3f", 3, 1, 2, 3)
    files = {
        "npy/f4": npy("<f4", "(2, 3)", six),
        "npy/f8": npy("<f8", "(3, 2)", doubles, version=2),
        "npy/fortran": npy("<f8", "(3, 2)", doubles, version=3, fortran=True),
        "npy/big-endian": npy(">f4", "(2, 3)", struct.pack(">6f", 1, 2, 3, 4, 5, 6)),
        "npy/half": npy("<f2", "(4,)", struct.pack("<4e", 1, -2, 65504, 6e-8)),
        "npy/int64": npy("<i8", "(2, 1)", struct.pack("<2q", -1, 1 << 60)),
        "npy/uint8": npy("|u1", "(2, 2)", b"\x00\x01\x02\xff"),
        "npy/nan": npy("<f4", "(1, 2)", struct.pack("<2f", 1, float("nan"))),
        "npy/cut": npy("<f4", "(2, 3)", six[:-1]),
        "npy/overflow": npy("<f8", "(4611686018427387904, 4)", doubles),
        "npy/negative": npy("<f8", "(-1, 4)", doubles),
        "npy/object": npy("|O", "(2, 3)", six),
        "npy/structured": npy("<f4", "(2, 3)", six).replace(b"'<f4'", b"[('a')]"),
        "npy/header-length": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
        "csv/plain": b"1,2\n3,4\n",
        "csv/header-crlf-bom": b"\xef\xbb\xbfx,y\r\n1.5,-2e3\r\n+3,.5\r\n",
        "csv/blanks": b"# x y\n 1  2\n3 4 \n",
        "csv/tabs": b"1\t2\n3\t4",
        "csv/semicolons": b"1;2\n3;4\n\n",
        "csv/labels": b'1,2,"a"\n3,4,b\n',
        "csv/ragged": b"1,2\n3\n4,5\n",
        "csv/decimal-comma": b"1,5;2,5\n",
        "csv/extremes": b"1e999,1e-999\n-1e-400,0." + b"0" * 60 + b"1\n",
        "csv/nan": b"1,nan\ninf,2\n",
        "csv/quoted-header": b'"a, b",c\n1,2\n',
        "fvecs/two": record + record,
        "fvecs/varying": record + struct.pack("<i3f", 2, 1, 2, 3),
        "fvecs/cut": record + record[:-1],
        "fvecs/huge": struct.pack("<i", 0x7FFFFFFF) + six,
        "fvecs/negative": struct.pack("<i", -1) + six,
        "bvecs/two": struct.pack("<i3B", 3, 0, 128, 255) * 2,
        "bvecs/zero": struct.pack("<i", 0) * 3,
        "fbin/short-header": struct.pack("<2I", 2, 3) + six,
        "fbin/long-header": struct.pack("<2Q", 2, 3) + six,
        "fbin/trailing": struct.pack("<2I", 2, 3) + six + b"!",
        "fbin/huge": struct.pack("<2I", 0xFFFFFFFF, 0xFFFFFFFF) + six,
        "idx/bytes": struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 2) + bytes(range(8)),
        "idx/doubles": struct.pack(">4B2I2d", 0, 0, 14, 2, 1, 2, 0.5, -1),
        "idx/shorts": struct.pack(">4BI2h", 0, 0, 11, 1, 2, -1, 300),
        "idx/axes": struct.pack(">4B", 0, 0, 8, 255),
        "idx/huge": struct.pack(">4B4I", 0, 0, 13, 4, *[0xFFFFFFFF] * 4),
        "libsvm/plain": b"+1 1:0.5 3:-2\n-1 2:1e3 # note\n0\n",
        "libsvm/zero-index": b"1 0:1\n",
        "libsvm/descending": b"1 2:1 1:1\n",
        "libsvm/huge-index": b"1 2147483647:1\n",
        "libsvm/text": b"1 a:b\n",
        "libsvm/nan": b"1 1:nan\n",
        "automatic/empty-lines": b"\n\n",
        "automatic/hdf5": b"\x89HDF\r\n\x1a\n",
        "automatic/gzip": b"\x1f\x8b\x08\x00",
        "automatic/utf16": "1,2\n".encode("utf-16"),
        "automatic/zeros": bytes(16),
    }
    return files


def text(value: object) -> bytes:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def shortened(value: object, longest: int) -> object:
    """The value with every list cut to its first entries, but for samples: what is formed from
    them must agree with them."""
    if isinstance(value, dict):
        return {
            key: inner if "samples_seconds" in key else shortened(inner, longest)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [shortened(inner, longest) for inner in value[:longest]]
    return value


def experiments() -> dict[str, bytes]:
    """Every experiment, with two entries of each list."""
    files = {}
    for path in sorted((ROOT / "experiments").glob("*.json")):
        if path.stem != "schema":
            value = shortened(json.loads(path.read_text()), 2)
            if "k" in (value["data"] if isinstance(value["data"], dict) else {}):
                value["data"]["k"] = "sweep"
            files[f"experiment/{path.stem}"] = text(value)
    minimal = {
        "name": "demo",
        "title": "Demo",
        "data": {"generator": "uniform", "seed": 1},
        "init": "random:1",
        "variants": ["*", {"variant": "cpu_naive", "precision": "f64", "threads": 2}],
        "scales": {
            "quick": {"sweep": [{"n": 100, "d": 2, "k": 3}, {"n": [50], "d": [1], "k": [2]}]}
        },
    }
    files["experiment/minimal"] = text(minimal)
    files["experiment/of-a-file"] = text(
        minimal | {"data": {"file": "points.npy"}, "scales": {"paper": {"sweep": {"k": [2, 2]}}}}
    )
    files["experiment/fewer-points"] = text(
        minimal | {"scales": {"quick": {"sweep": [{"n": 2, "d": 2, "k": 3}]}}}
    )
    files["experiment/key-twice"] = b'{"name": "demo", "name": "demo"}\n'
    files["experiment/deep"] = b"[" * 40 + b"]" * 40
    return files


def results() -> tuple[list[dict], list[bytes], dict]:
    """Cut result files, the lines of a journal that fits them, and one cell of each status."""
    files = []
    cells: dict[str, dict] = {}
    datasets = {}
    for name in ("errata", "minnaar2019", "ladder"):
        value = json.loads((RESULTS / f"{name}.json").read_text())
        of_status = {cell["status"] + str(cell["gpu"] is None): cell for cell in value["cells"]}
        kept = sorted(of_status.values(), key=lambda cell: cell["key"])
        cells |= {cell["status"]: cell for cell in kept}
        datasets |= value["context"]["datasets"]
        value["spec"] = {key: value["spec"][key] for key in ("name", "title")}
        value = shortened(value, 2)
        value["cells"] = [shortened(cell, 2) for cell in kept]
        for cell in value["cells"]:  # younger than these results
            ratios = [1.02] * len(cell["samples_seconds_per_iteration"])
            cell["pace"] = {"best_seconds": 1.5e-4, "ratios": ratios, "retries": 1}
        value["planned_cells"] = len(kept)
        files.append(value)
    lines = [
        text({"journal": 2, "started": "2026-01-31T12:00:00Z", "identity": {"git_commit": "1"}})
    ]
    label = min(datasets)
    lines.append(text({"dataset": label, "description": datasets[label]}))
    for cell in cells.values():
        for process, samples in enumerate(cell["samples_seconds_per_iteration"][:2] or [[]]):
            lines.append(
                text(
                    {
                        "cell": cell["key"],
                        "process": process,
                        "result": worker_result(cell, samples) | {"retries": process},
                        "wall_seconds": 1.5,
                        "load_average": [0.25, 0.5],
                    }
                )
            )
    for value in files:
        for trace in value.get("traces", [])[:1]:
            lines.append(text({"trace": trace["name"], "result": trace}))
        for study in value.get("studies", [])[:1]:
            lines.append(text({"study": study["name"], "result": study}))
    return files, lines, cells


def worker_result(cell: dict, samples: list[float]) -> dict:
    """What a worker would have reported of such a cell."""
    result = {
        key: cell[key]
        for key in ("status", "stages", "library", "gpu", "verification", "label_hash")
    }
    result |= {
        "reason": cell["reason"] or "",
        "samples": samples,
        "stopping": "complete",
        "setup_seconds": 1e-3,
        "inertia": cell["inertia"] or 0,
        "label_hash": cell["label_hash"] or "",
        "centroid_hash": cell["centroid_hash"] or "",
        "empty_clusters": 0,
        "any_empty_clusters": False,
        "pace": [1.5e-4, 1.75e-4],
        "outcome": "1-2-3",
        "device_samples": samples if cell["gpu"] else [],
        "traffic": {"read_bytes": 8e6, "written_bytes": 4e6, "atomic_bytes": 0},
    }
    return shortened(result, 2)


def messages(cells: dict) -> dict[str, bytes]:
    """What coordinator and workers say to each other."""
    job = {
        "variant": "cpu_naive",
        "precision": "f32",
        "points_file": "points.npy",
        "centroids_file": "centroids.npy",
        "k": 3,
        "iterations": 10,
        "threads": 2,
    }
    timed = {
        "repetitions": 3,
        "min_seconds": 0.02,
        "max_seconds": 10,
        "profile": True,
        "certified_outcomes": ["1-2-3"],
        "exact_had_empty_clusters": False,
        "verify_threads": 0,
        "verify_budget": 2e9,
        "verify_seed": 1,
        "exact_inertia": 12.5,
        "best_pace": 1.5e-4,
        "patience": 0.5,
    }
    trace = {
        "keep_points": 100,
        "keep_centroids": True,
        "sample_seed": 1,
        "expected": {"inertia": [2, 1], "relative_tolerance": 1e-9, "labels_begin": [0, 1]},
        "stop": "movement:1e-6",
    }
    study = {"study": "float_loss", "parameters": {"n": 10}}
    files = {
        "message/job": text(job | timed),
        "message/job-without-oracle": text(job | timed | {"exact_inertia": None}),
        "message/job-of-unknown-precision": text(job | timed | {"precision": "f8"}),
        "message/trace-job": text(job | trace),
        "message/study-job": text(job | study),
    }
    for status, cell in cells.items():
        samples = (cell["samples_seconds_per_iteration"] or [[]])[0]
        files[f"message/result-{status}"] = text(worker_result(cell, samples))
    return files


def datasets() -> dict[str, bytes]:
    """Every generator with all that it takes, and an init of every kind."""
    shape = {"n": 50, "d": 3, "seed": 1}
    of_generator = {
        "uniform": {"low": -1, "high": 1},
        "gaussian": {},
        "globular": {"k": 3, "sigma": 2},
        "blobs": {"k": 3, "low": -10, "high": 10, "sigma": 0.5},
        "line": {"d": 1, "k": 3, "sigma": 1, "spacing": 5},
        "toy": {"d": 2, "sigma": 1, "outliers": 0.1},
        "duplicates": {"distinct": 3},
        "identical": {},
        "grid": {"side": 4},
        "offset": {"offset": 1e6, "sigma": 1},
        "outlier": {"distance": 1e4},
        "imbalanced": {"k": 3, "sigma": 1},
    }
    files = {
        f"dataset/{name}": text({"generator": name} | shape | more)
        for name, more in of_generator.items()
    }
    files["dataset/file"] = text({"file": "points.csv", "csv_drop_last": 1})
    # Found by fuzzing: gigabytes of centres for a point, and endless comparing of every centre
    # with every other in every coordinate.
    many = {"generator": "blobs", "n": 1, "d": 3334, "seed": 1, "k": 100000}
    files["dataset/blobs-many"] = text(many)
    far = {"generator": "globular", "n": 1, "d": 3334, "seed": 1, "k": 3334, "sigma": 2 / 3}
    files["dataset/globular-far"] = text(far)
    files["dataset/typo"] = text({"generator": "unifrom", "n": 1, "d": 1})
    inits = {
        "first": "first",
        "random": "random:7",
        "rows": "rows:5,3,1",
        "rows-outside": "rows:9",
        "plus-plus": "kmeans++:1",
        "threshold": "threshold:2.5",
        "threshold-too-far": "threshold:1e9",
        "file": "centroids.npy",
        "seed-too-large": "random:99999999999999999999",
        "nothing": "",
    }
    return files | {f"init/{name}": init.encode() for name, init in inits.items()}


def of_json() -> dict[str, bytes]:
    """The seeds of all targets that read JSON."""
    files, lines, cells = results()
    written = {f"result/{value['experiment']}": text(value) for value in files}
    first = files[0]
    written["result/without-cells"] = text(first | {"cells": [], "planned_cells": 0})
    written["result/of-the-future"] = text(first | {"schema_version": 3})
    written["result/cell-twice"] = text(first | {"cells": first["cells"][:1] * 2})
    written["result/nothing"] = b""
    written["journal/whole"] = b"".join(lines)
    written["journal/torn"] = b"".join(lines)[:-20]
    written["journal/only-begun"] = lines[0]
    written["journal/damaged"] = lines[0] + b'{"cell": 1}\n' + lines[2]
    written["journal/nothing"] = b""
    return experiments() | datasets() | messages(cells) | written


def keys_of(value: object) -> set[str]:
    """All keys of all objects in it."""
    if isinstance(value, dict):
        return set(value).union(*(keys_of(inner) for inner in value.values()))
    if isinstance(value, list):
        return set().union(*(keys_of(inner) for inner in value))
    return set()


def dictionaries(seeds: dict[str, bytes]) -> dict[str, list[bytes]]:
    """Words that the fuzzer may insert, by target."""
    words = {
        "npy": [
            b"\x93NUMPY\x01\x00",
            b"\x93NUMPY\x02\x00",
            b"\x93NUMPY\x03\x00",
            b"'descr': ",
            b"'fortran_order': True",
            b"'shape': (",
            *(
                f"'{order}{kind}'".encode()
                for order in "<>|"
                for kind in ("f4", "f8", "f2", "i8", "u1")
            ),
        ],
        "csv": [
            b",",
            b";",
            b"\t",
            b"\r\n",
            b"\xef\xbb\xbf",
            b'"',
            b"nan",
            b"-inf",
            b"1e308",
            b"# ",
        ],
        "libsvm": [b" 1:", b" 2147483647:", b"# ", b"qid:1", b"nan", b"-1 "],
        "idx": [bytes([0, 0, kind, axes]) for kind in (8, 9, 11, 12, 13, 14) for axes in (1, 2, 3)],
        "fbin": [b"\xff\xff\xff\xff", b"\x01\x00\x00\x00", b"\x00\x00\x00\x80"],
        "init": [
            b"first",
            b"random:",
            b"rows:",
            b"kmeans++:",
            b"threshold:",
            b"18446744073709551615",
        ],
    }
    words["fvecs"] = words["bvecs"] = words["fbin"]
    words["automatic"] = [word for name in ("npy", "csv", "idx") for word in words[name]]
    for target in ("dataset", "experiment", "result", "message", "journal"):
        keys = set()
        for name, content in seeds.items():
            if name.startswith(target + "/"):
                for line in content.splitlines():
                    try:
                        keys |= keys_of(json.loads(line))
                    except ValueError:
                        continue
        words[target] = [f'"{key}":'.encode() for key in sorted(keys) if len(key) < 40]
        words[target] += [b"null", b"true", b"1e308", b"-1", b"9223372036854775808", b"[]", b"{}"]
    return words


def quoted(word: bytes) -> str:
    """As libFuzzer's dictionaries want it."""
    plain = (chr(c) if 32 <= c < 127 and c not in b'\\"' else f"\\x{c:02x}" for c in word)
    return '"' + "".join(plain) + '"'


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    seeds = corpus() | of_json()
    for name, content in seeds.items():
        path = root / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (root / "dictionaries").mkdir(exist_ok=True)
    for target, words in dictionaries(seeds).items():
        lines = ["# SPDX-License-Identifier: Apache-2.0", *map(quoted, words)]
        (root / "dictionaries" / f"{target}.dict").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
