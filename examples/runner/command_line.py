# SPDX-License-Identifier: BSD-3-Clause
"""Command lines with errors of one line."""

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
    """Ends the process with the status of main. Output is in order with that of other programs. A reader that closes the
    pipe early, such as head, ends the process without a message."""
    sys.stdout.reconfigure(line_buffering=True)
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 128 + signal.SIGPIPE
    sys.exit(status)
