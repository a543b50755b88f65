# SPDX-License-Identifier: BSD-3-Clause
"""A QEMU guest: its devices, its command, and its output."""

import contextlib
import dataclasses
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import BinaryIO

from lane import SOURCE, LaneFailed
from lane.clock import counter_khz
from lane.prepared import Prepared

# Disables hardening, which takes a tenth of all time under emulation.
KERNEL_LINE = (
    "quiet panic=-1 oops=panic mitigations=off nokaslr init_on_alloc=0 lsm=capability audit=0 random.trust_cpu=on "
    "no_timer_check tsc=reliable console=ttyS0"
)
# Omits AVX, whose emulation takes an eighth of all time. PMem and the random number generator need the others.
CPU = "Nehalem,+rdrand,+clflushopt,+clwb"
BOOT_LIMIT_S = 60
BOOT_ATTEMPTS = 3
OFF_LIMIT_S = 60
PMEM_SIZE = 256 * 1024 * 1024
SERVE_PEER = "exec busybox nc -ll -p 77 -e /source/tests/vm/guest/peer-shell"


@dataclasses.dataclass(frozen=True)
class Guest:
    number: int
    rxe: str
    pmem: str
    pmem_file: pathlib.Path
    command: str
    timeout_s: int
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    network_fd: int | None = None  # socket that connects two guests
    loss_percent: int = 0

    @property
    def pmem_files(self) -> list[pathlib.Path]:
        """Returns the files with the content of the NVDIMMs. With both kinds, the first one is for device DAX."""
        second = self.pmem_file.with_name(f"{self.pmem_file.name}-fsdax")
        return {"none": [], "both": [self.pmem_file, second]}.get(self.pmem, [self.pmem_file])

    def write_control(self, control: pathlib.Path) -> None:
        control.mkdir()
        settings = {
            "RPMA_VM_GUEST": self.number, "RPMA_VM_RXE": self.rxe, "RPMA_VM_PMEM": self.pmem,
            "RPMA_VM_LOSS_PERCENT": self.loss_percent, "RPMA_VM_TIMEOUT_S": self.timeout_s,
            **self.environment}
        lines = [f"{name}={shlex.quote(str(value))}\n" for name, value in settings.items()]
        (control / "environment").write_text("".join(lines))
        (control / "command").write_text(self.command + "\n")


@contextlib.contextmanager
def joined(guests: list[Guest], loss_percent: int) -> Iterator[list[Guest]]:
    """Connects two guests by a network."""
    ends = socket.socketpair()
    try:
        yield [dataclasses.replace(guest, network_fd=end.fileno(), loss_percent=loss_percent)
               for guest, end in zip(guests, ends)]
    finally:
        for end in ends:
            end.close()


def share(name: str, path: pathlib.Path, read_only: bool) -> list[str]:
    mode = ",readonly=on" if read_only else ""
    return ["-virtfs", f"local,path={escaped(path)},mount_tag={name},security_model=none,multidevs=remap{mode}"]


def disk(name: str, image: pathlib.Path) -> list[str]:
    return ["-drive", f"if=none,id={name},file={escaped(image)},format=raw,readonly=on,cache=unsafe",
            "-device", f"virtio-blk-pci,drive={name}"]


def escaped(path: pathlib.Path) -> str:
    return str(path).replace(",", ",,")


def kernel_line() -> str:
    khz = counter_khz()
    return KERNEL_LINE if khz is None else f"{KERNEL_LINE} tsc_early_khz={khz}"


def qemu_command(prepared: Prepared, guest: Guest, control: pathlib.Path, console: pathlib.Path, output_fd: int,
                 ) -> list[str]:
    command = [
        "qemu-system-x86_64", "-machine", "q35,nvdimm=on", "-accel", "tcg,thread=multi", "-cpu", CPU, "-smp", "2",
        "-m", "1536M,slots=2,maxmem=4G", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(prepared.image), "-initrd", str(prepared.initramfs), "-append", kernel_line(),
        "-device", "virtio-rng-pci", "-serial", f"file:{console}",
        "-chardev", f"file,id=output,path=/dev/fd/{output_fd}",
        "-device", "virtio-serial-pci,max_ports=2", "-device", "virtserialport,chardev=output,name=output",
        *disk("root", prepared.root_disk), *disk("build", prepared.build_disk),
        *share("source", SOURCE, True), *share("control", control, False),
    ]
    if guest.network_fd is not None:
        # RoCE packets of 4096 bytes fit into the MTU.
        command += [
            "-netdev", f"stream,id=net0,server=off,addr.type=fd,addr.str={guest.network_fd}",
            "-device", f"virtio-net-pci,netdev=net0,host_mtu=4500,mac=52:54:00:00:77:0{guest.number}"]
    for number, file in enumerate(guest.pmem_files):
        command += [
            "-object", f"memory-backend-file,id=memory{number},share=on,mem-path={escaped(file)},size={PMEM_SIZE}",
            "-device", f"nvdimm,id=nvdimm{number},memdev=memory{number}"]
    return command


class NotStarted(LaneFailed):
    """The guest did not start its command. QEMU 7.2 sometimes causes this on a busy host: it exits, or a processor gets no timer
    interrupts."""


class Machine:
    """A running guest. Its output is a file object that ends when the guest is off."""

    def __init__(self, process: subprocess.Popen[bytes], output_fd: int, directory: pathlib.Path) -> None:
        self.process = process
        self.output = os.fdopen(output_fd, "rb", buffering=0)
        self.directory = directory

    def await_start(self) -> None:
        """Waits until the guest has started its command."""
        deadline = time.monotonic() + BOOT_LIMIT_S
        while not (self.directory / "control" / "started").exists():
            if self.process.poll() is not None:
                self.status()
            if time.monotonic() > deadline:
                raise NotStarted(
                    f"the guest did not begin its command within {BOOT_LIMIT_S} seconds; its console:\n"
                    f"{self.console()}")
            time.sleep(0.05)

    def copy_output(self, destination: BinaryIO, limit_s: int) -> None:
        """Copies the output until the guest is off. The guest has slightly longer than the limit of its command."""
        def copy() -> None:
            while chunk := self.output.read(65536):
                destination.write(chunk)
                destination.flush()

        copier = threading.Thread(target=copy, daemon=True)
        copier.start()
        copier.join(limit_s + OFF_LIMIT_S)
        if copier.is_alive():
            raise LaneFailed(
                f"the guest is not off after {limit_s + OFF_LIMIT_S} seconds; its console:\n{self.console()}")

    def status(self) -> int:
        """Returns the exit status of the command. The guest must be off."""
        answer = self.directory / "control" / "status"
        text = answer.read_text().strip() if answer.exists() else ""
        if text.isdigit():
            return int(text)
        if not text and not (self.directory / "control" / "started").exists():
            # The output ends before the status of the process is available.
            raise NotStarted(
                f"the guest died before its command began (QEMU's status {self.process.wait()}); its console:\n"
                f"{self.console()}")
        cause = {"setup": "the guest's devices could not be set up"}.get(text, "the guest ended without an answer")
        raise LaneFailed(f"{cause}; its console:\n{self.console()}")

    def console(self) -> str:
        path = self.directory / "console"
        return path.read_text(errors="replace")[-6000:] if path.exists() else "(nothing)"


@contextlib.contextmanager
def boot(prepared: Prepared, guest: Guest, directory: pathlib.Path) -> Iterator[Machine]:
    """Yields a guest that runs until it powers itself off or the context ends."""
    directory.mkdir(parents=True)
    for path in guest.pmem_files:
        if not path.exists():
            with open(path, "wb") as file:
                file.truncate(PMEM_SIZE)
    control, console = directory / "control", directory / "console"
    guest.write_control(control)
    read_fd, write_fd = os.pipe()
    try:
        process = subprocess.Popen(
            qemu_command(prepared, guest, control, console, write_fd), stdin=subprocess.DEVNULL,
            pass_fds=[fd for fd in (write_fd, guest.network_fd) if fd is not None])
    except BaseException:
        os.close(read_fd)
        raise
    finally:
        os.close(write_fd)
    machine = Machine(process, read_fd, directory)
    try:
        yield machine
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@contextlib.contextmanager
def booted(prepared: Prepared, guests: list[Guest], directory: pathlib.Path, loss_percent: int = 0,
           ) -> Iterator[list[Machine]]:
    """Yields one guest, or two connected ones. The first one has started its command, for which it waits for the second one."""
    for attempts_left in reversed(range(BOOT_ATTEMPTS)):
        with contextlib.ExitStack() as stack:
            network = joined(guests, loss_percent) if len(guests) == 2 else contextlib.nullcontext(guests)
            machines = [
                stack.enter_context(boot(prepared, guest, directory / f"guest{guest.number}-{attempts_left}"))
                for guest in stack.enter_context(network)]
            try:
                machines[0].await_start()
            except NotStarted as failure:
                if not attempts_left:
                    raise
                print(f"booting again, as {failure}", file=sys.stderr)
                continue
            yield machines
            return
