# SPDX-License-Identifier: BSD-3-Clause
"""Boots Linux with SoftRoCE and emulated persistent memory in QEMU, built from Debian packages."""

import argparse
import os
import pathlib
import signal
import sys
from collections.abc import Callable

SOURCE = pathlib.Path(__file__).resolve().parents[3]
FAILURE, USAGE, CANNOT_RUN = 1, 2, 77


class CannotRun(Exception):
    """This machine lacks a prerequisite. The message contains it and the remedy."""


class LaneFailed(Exception):
    """A step failed. The message identifies it."""


def default_cache() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "librpma-vm"


def argument_parser(description: str | None, epilog: str) -> argparse.ArgumentParser:
    """Returns a parser with the option --cache."""
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=pathlib.Path, default=default_cache(), metavar="DIR",
        help="directory where `prepare` stores its results (default: %(default)s)")
    return parser


def run_program(program: str, main: Callable[[], int]) -> int:
    """Returns the exit status of a program whose `main` may raise the exceptions above. Signals unwind it, so that
    every `with` stops its guests and removes its files."""
    def unwind(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    for deadly in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(deadly, unwind)
    try:
        return main()
    except CannotRun as reason:
        print(f"skipped: {reason}")
        return CANNOT_RUN
    except LaneFailed as failure:
        print(f"{program}: {failure}", file=sys.stderr)
        return FAILURE
