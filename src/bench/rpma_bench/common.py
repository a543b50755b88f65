# SPDX-License-Identifier: BSD-3-Clause
"""Errors of the command, formatted numbers, and atomic replacement of files."""

import contextlib
import os
import stat
import statistics
import tempfile

FAILED, USAGE, CANNOT_RUN = 1, 2, 77

TIMES = [(1, " ns"), (1e3, " µs"), (1e6, " ms"), (1e9, " s")]
SIZES = [(1, " B"), (2**10, " KiB"), (2**20, " MiB"), (2**30, " GiB"), (2**40, " TiB")]
STEPS = {"ns": TIMES, "bytes": SIZES, "bytes_per_s": [(10 ** (3 * i), f" {p}B/s") for i, p in enumerate(("", "k", "M", "G", "T"))],
         "per_s": [(10 ** (3 * i), f" {p}/s") for i, p in enumerate(("", "k", "M", "G"))], "percent": [(1, " %")], "": [(1, "")]}


class Failure(Exception):
    """Error with a one-line message for the user and an exit status."""

    def __init__(self, line, status=FAILED):
        super().__init__(line)
        self.status = status


class PeerGone(Failure):
    """The client or server process has ended or does not respond."""


def step_of(value, unit):
    """Returns the largest unit in which the value is at least 1 after rounding to three digits: 1 µs for 999.7 ns."""
    steps = STEPS[unit]
    return max((step for step in steps if abs(value) >= step[0] * 0.9995), default=steps[0])


def number(value, unit=""):
    """Formats a value with three significant digits: 4 KiB, 12.3 µs, 1.25 GB/s."""
    if unit == "ratio":
        return f"{value:.2f}"
    size, name = step_of(value, unit)
    value /= size
    if unit in ("bytes", "") and value == int(value):
        return f"{value:.0f}{name}"
    magnitude = abs(value)
    digits = 0 if magnitude >= 99.95 or magnitude == 0 else 1 if magnitude >= 9.995 else 2 if magnitude >= 0.9995 else None
    return (f"{value:.3g}" if digits is None else f"{value:.{digits}f}") + name


def tick(value, unit):
    if value == 0:
        return "0"
    size, name = step_of(value, unit)
    return f"{value / size:.4g}{name}"


def duration(seconds):
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole // 60 % 60} min"


def count(number_of, noun):
    return f"{number_of:,} {noun}{'' if number_of == 1 else 's'}"


def interval(ratio, low, high):
    return f"{ratio:.2f} ({low:.2f} to {high:.2f})"


def quartiles(values):
    """Returns the lower quartile, the median and the upper quartile."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else list(values) * 3


def read_text(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise Failure(f"{path}: is not text in UTF-8") from error
    except IsADirectoryError as error:
        raise Failure(f"{path}: cannot read: {error.strerror}") from error
    except OSError as error:
        raise Failure(f"{path}: cannot open: {error.strerror}") from error


def replace_file(path, text):
    """Replaces the file atomically and durably."""
    path = os.fspath(path)
    data = text.encode("utf-8", "replace")
    mode = None
    with contextlib.suppress(OSError):
        mode = os.stat(path).st_mode
    if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        try:
            with open(path, "wb") as file:
                file.write(data)
        except OSError as error:
            raise Failure(f"{path}: cannot write: {error.strerror}") from error
        return
    directory = os.path.dirname(path) or "."
    try:
        handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=directory)
    except OSError as error:
        raise Failure(f"{path}: cannot create: {error.strerror}") from error
    try:
        mask = os.umask(0)
        os.umask(mask)
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~mask if mode is None else stat.S_IMODE(mode))
            os.fsync(file.fileno())
        os.rename(temporary, path)
        parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(OSError):
            os.fsync(parent)
        os.close(parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise Failure(f"{path}: cannot write: {error.strerror}") from error
