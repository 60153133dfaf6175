# SPDX-License-Identifier: Apache-2.0
"""Writes the seed files of the fuzz corpus: small good files of every format, and damaged ones."""

import struct
import sys
from pathlib import Path


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


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "corpus")
    for name, content in corpus().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
