# SPDX-License-Identifier: BSD-3-Clause
"""Command line parser with one-line errors."""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return int(text)


def run_main(main: Callable[[], int]) -> NoReturn:
    """Exits with the status of main. Keeps the order with output of other programs. If a reader such as head closes the pipe,
    exits
    without a message."""
    sys.stdout.reconfigure(line_buffering=True)
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 128 + signal.SIGPIPE
    sys.exit(status)
