# SPDX-License-Identifier: BSD-3-Clause
"""Command line parser with one-line errors."""

import argparse
import errno
import io
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return int(text)


class OutputLost(Exception):
    """A write to standard output failed. argparse ignores an OSError."""


class Output(io.TextIOWrapper):
    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise OutputLost from error


def run_main(main: Callable[[], int]) -> NoReturn:
    """Exits with the status of main. Keeps the order with output of other programs. If output was lost, exits with the reason, or
    without a message if a reader such as head closed the pipe."""
    if sys.stdout is None:
        sys.exit(f"{os.path.basename(sys.argv[0])}: standard output: closed")
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    sys.stdout = Output(sys.stdout.detach(), encoding, errors, line_buffering=True)
    try:
        sys.exit(main())
    except OutputLost as lost:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE if isinstance(lost.__cause__, BrokenPipeError)
                 else f"{os.path.basename(sys.argv[0])}: standard output: {lost.__cause__.strerror}")
    except (OSError, MemoryError) as error:
        code = getattr(error, "errno", errno.ENOMEM)
        if code not in SHORTAGES:
            raise
        sys.exit(f"{os.path.basename(sys.argv[0])}: {os.strerror(code)}")
