# SPDX-License-Identifier: Apache-2.0
"""Writes the table of a Parquet, Feather or Arrow file as npy: rows are points.

The npy holds float32 where every column is float32, float16 or an integer of at most 16 bits, else
float64. A column that holds no numbers, or lacks a value, is refused by its name; that message
begins with "refused: ".
"""

import argparse
import sys


def refuse(what: str) -> int:
    """Says why, on standard error; returns the exit status."""
    print(f"refused: {what}", file=sys.stderr)
    return 2


def read_table(path: str):  # -> pyarrow.Table
    """Of Parquet by the name's ending, else of Arrow's file or stream format."""
    from pyarrow import feather, ipc, parquet

    if path.lower().endswith(".parquet"):
        return parquet.read_table(path)
    try:
        return feather.read_table(path)
    except Exception:  # a stream of Arrow's has no footer
        with open(path, "rb") as file:
            return ipc.open_stream(file).read_all()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--out", required=True, help="the .npy file to write")
    arguments = parser.parse_args()
    try:
        import numpy as np
        import pyarrow as pa
    except ImportError as error:
        print(f"{error}", file=sys.stderr)
        return 3
    try:
        table = read_table(arguments.file)
    except (pa.ArrowException, OSError) as error:
        return refuse(f"is not a file that pyarrow reads: {str(error).splitlines()[0]}")
    # pandas keeps its index in a column of this kind of name.
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    if not names or table.num_rows == 0:
        return refuse("has no points")
    narrow = True
    for name in names:
        kind = table.schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return refuse(f"column '{name}' holds {kind}, not numbers; leave it out")
        if table[name].null_count:
            return refuse(f"column '{name}' lacks {table[name].null_count} values (null)")
        small = pa.types.is_integer(kind) and kind.bit_width <= 16
        narrow = narrow and (small or pa.types.is_float16(kind) or pa.types.is_float32(kind))
    points = np.empty((table.num_rows, len(names)), dtype="<f4" if narrow else "<f8")
    for place, name in enumerate(names):
        column = table[name].to_numpy()
        points[:, place] = column
        long = column.dtype.itemsize == 8 and column.dtype.kind in "iu"
        if long and not np.array_equal(points[:, place].astype(column.dtype), column):
            return refuse(f"column '{name}' holds integers that float64 cannot hold (beyond 2^53)")
    with open(arguments.out, "wb") as file:  # numpy.save would add an ending to the name
        np.save(file, points)
    return 0


if __name__ == "__main__":
    sys.exit(main())
