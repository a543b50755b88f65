# SPDX-License-Identifier: BSD-3-Clause
"""A guest that appends to a log in the persistent memory of another."""

import contextlib
import pathlib
import select
import time
from collections.abc import Iterator

from lane import LaneFailed
from lane.machine import SERVE_PEER, Guest, Machine, booted
from lane.prepared import Prepared

PORT, LIMIT_S = 7300, 120
SERVE = f'bin/vm_log serve "$RPMA_TEST_ADDR" {PORT} "$RPMA_VM_PMEM_PATH" & {SERVE_PEER}'
APPEND = (
    f'/source/tests/vm/guest/on-peer "/source/tests/vm/guest/await-listener {PORT}" && '
    f"exec bin/vm_log append 192.168.77.2 {PORT}")


class Acknowledgements:
    """Reads what the appending guest tells."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.count = 0
        self.complaint = ""  # the first line that is no acknowledgement
        self.text = b""

    def read(self, patience_s: float) -> bool:
        """Takes what arrives next; False if nothing does."""
        if not select.select([self.machine.output], [], [], max(0.0, patience_s))[0]:
            return False
        chunk = self.machine.output.read(65536)
        self.text += chunk
        *lines, self.text = self.text.split(b"\n")
        for line in lines:
            if line.startswith(b"acknowledged "):
                self.count = int(line.split()[1])
            elif not self.complaint:
                self.complaint = line.decode(errors="replace")
        return bool(chunk)

    def await_count(self, count: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while self.count < count:
            if not self.read(deadline - time.monotonic()) or self.complaint:
                raise LaneFailed(
                    f"only {self.count} records were acknowledged, then: {self.complaint or 'nothing'}; console:\n"
                    f"{self.machine.console()}")

    def await_complaint(self, limit_s: float) -> str:
        """The complaint, or an empty text if there is none in time."""
        deadline = time.monotonic() + limit_s
        while not self.complaint and self.read(deadline - time.monotonic()):
            pass
        return self.complaint


@contextlib.contextmanager
def appending(prepared: Prepared, directory: pathlib.Path, environment: dict[str, str],
              ) -> Iterator[tuple[Acknowledgements, Machine]]:
    """What the appending guest tells, and the guest with the log, whose memory is the file `pmem`."""
    guests = [
        Guest(1, "two-guests", "none", directory / "none", APPEND, LIMIT_S, environment),
        Guest(2, "two-guests", "devdax", directory / "pmem", SERVE, LIMIT_S, environment)]
    with booted(prepared, guests, directory) as machines:
        yield Acknowledgements(machines[0]), machines[1]
