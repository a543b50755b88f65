# SPDX-License-Identifier: BSD-3-Clause
"""A guest that appends records to the persistent memory of another guest."""

import contextlib
import dataclasses
import pathlib
import select
import time
from collections.abc import Iterator

from lane import LaneFailed
from lane.machine import SERVE_PEER, Guest, Machine, booted
from lane.prepared import Prepared

PORT, LIMIT_S = 7300, 120
GUEST = "/source/tests/vm/guest"


@dataclasses.dataclass(frozen=True)
class Work:
    """Commands of the guests: one serves memory of a kind, the other appends to it and prints durable records."""
    pmem: str
    serve: str
    append: str
    check: str  # checks {count} records in a guest with the same memory
    max_records: int  # maximum number of records
    kernel: str = "debian"


LOG = Work(
    "devdax",
    f'bin/vm_log serve "$RPMA_TEST_ADDR" {PORT} "$RPMA_VM_PMEM_PATH" & {SERVE_PEER}',
    f'{GUEST}/on-peer "{GUEST}/await-listener {PORT}" && exec bin/vm_log append 192.168.77.2 {PORT}',
    'bin/vm_log check "$RPMA_VM_PMEM_PATH" {count}',
    1500)
# The kernel of Debian's backports can register a mapping on a DAX file system. It stores whole pages at the right
# address.
REPLICAS = Work(
    "both",
    f"{GUEST}/serve-replica & {SERVE_PEER}",
    f"until {GUEST}/ssh-to-peer </dev/null >/dev/null 2>&1; do sleep 0.1; done; "
    f"export RPMEM_SSH={GUEST}/ssh-to-peer RPMEM_MIN_LEVEL=4; exec bin/vm_rpmem append 192.168.77.2 fsdax.set devdax.set",
    'bin/vm_rpmem check "$RPMA_VM_PMEM_PATH/part" "$RPMA_VM_DAX_PATH" {count}',
    1500, "backports")


class Acknowledgements:
    """Reader of the output of the appending guest."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.count = 0
        self.complaint = ""  # first line that is not an acknowledgment
        self.text = b""

    def read(self, patience_s: float) -> bool:
        """Reads the next output. Returns False on timeout."""
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

    def cut_power_at(self, count: int, *machines: Machine) -> int:
        """Cuts the power of the guests after `count` records, and returns the number of acknowledged records."""
        self.await_count(count)
        for machine in machines:
            machine.process.kill()
        for machine in machines:
            machine.process.wait()
        while self.read(1.0):
            pass
        if self.complaint:
            raise LaneFailed(f"unexpected output of the appending guest: {self.complaint}")
        return self.count

    def await_complaint(self, limit_s: float) -> str:
        """Returns the complaint, or an empty string on timeout."""
        deadline = time.monotonic() + limit_s
        while not self.complaint and self.read(deadline - time.monotonic()):
            pass
        return self.complaint


@contextlib.contextmanager
def appending(prepared: Prepared, directory: pathlib.Path, environment: dict[str, str], work: Work = LOG,
              ) -> Iterator[tuple[Acknowledgements, Machine]]:
    """Yields the output of the appending guest, and the serving guest, whose memory is the file `pmem`."""
    guests = [
        Guest(1, "two-guests", "none", directory / "none", work.append, LIMIT_S, environment),
        Guest(2, "two-guests", work.pmem, directory / "pmem", work.serve, LIMIT_S, environment)]
    with booted(prepared, guests, directory) as machines:
        yield Acknowledgements(machines[0]), machines[1]
