# SPDX-License-Identifier: BSD-3-Clause
"""Functions shared by the tests of the probes: names and arguments of the probes, and the traced program."""

import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from common import execute, skip  # noqa: E402,F401

TRACED = pathlib.Path(os.environ["TRACED"])
LIBRPMA = pathlib.Path(os.environ["LIBRPMA"])
LIBSOFTRDMA = pathlib.Path(os.environ["LIBSOFTRDMA"])
SCRIPTS = pathlib.Path(os.environ["SCRIPTS"])
DOCUMENT = pathlib.Path(os.environ["DOCUMENT"])

# Arguments of each librpma probe, as printf formats of gdb.
FORMATS = {
    "post_rdma": ["%u", "%u", "0x%lx", "%u", "%u", "0x%lx"],
    "post_send": ["%u", "%u", "0x%lx", "%u", "%u"],
    "post_flush": ["%u", "0x%lx", "%u", "%lu", "0x%lx"],
    "post_atomic_write": ["%u", "0x%lx", "%u", "0x%lx"],
    "post_recv": ["%u", "0x%lx", "%u"],
    "post_srq_recv": ["%u", "0x%lx", "%u"],
    "post_batch": ["%u", "%lu"],
    "poll": ["0x%lx"],
    "completions": ["%d"],
    "connect": ["%u"],
    "accept": ["%u"],
    "conn_event": ["%u", "%d"],
    "disconnect": ["%u"],
    "conn_delete": ["%u"],
    "provider_error": ["%s", "%d"],
}
# Formats of the additional fields of a completion in the output: wr_id, status and qp_num.
COMPLETION = ["0x%lx", "%d", "%u"]
SOFTRDMA = {"completion": 3, "qp_state": 3, "wqe_state": 2}


def arguments(argument, fields):
    """Yields each librpma probe, the formats of what the program prints, and an expression for each format: the result of
    `argument` for the number and format of an argument, and the `fields` of a completion."""
    for name, formats in FORMATS.items():
        values = [argument(number, form) for number, form in enumerate(formats)]
        if name == "completions":
            formats, values = [*formats, *COMPLETION], values + fields
        yield name, " ".join(formats), values


def of_program(output):
    """Returns the lines of the program about probes. The program polls and prints until it has all completions."""
    return sorted(line for line in output.splitlines() if line.split(" ")[0] in FORMATS)
