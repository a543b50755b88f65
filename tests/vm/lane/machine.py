# SPDX-License-Identifier: BSD-3-Clause
"""One QEMU guest: its devices, its command, what it answered."""

import contextlib
import dataclasses
import os
import pathlib
import shlex
import subprocess
from collections.abc import Iterator

from lane import SOURCE, CannotRun, LaneFailed

KERNEL_LINE = (
    "quiet panic=-1 oops=panic mitigations=off nokaslr random.trust_cpu=on no_timer_check tsc=reliable console=ttyS0"
)
BOOT_LIMIT_S = 60
PMEM_SIZE = 256 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What `prepare` made."""

    root: pathlib.Path
    kernel: pathlib.Path
    initramfs: pathlib.Path
    build: pathlib.Path

    def checked(self) -> "Prepared":
        missing = [path for path in (self.root, self.kernel, self.initramfs, self.build) if not path.exists()]
        if missing:
            raise CannotRun(f"there is no {missing[0]}: run tests/vm/prepare")
        return self

    @property
    def image(self) -> pathlib.Path:
        return next((self.kernel / "boot").glob("vmlinuz-*"))


@dataclasses.dataclass(frozen=True)
class Guest:
    number: int
    rxe: str
    pmem: str
    pmem_file: pathlib.Path
    command: str
    timeout_s: int
    network: tuple[str, ...] = ()  # QEMU's options for the netdev that joins two guests
    loss_percent: int = 0

    def write_control(self, control: pathlib.Path) -> None:
        control.mkdir()
        settings = {
            "RPMA_VM_GUEST": self.number, "RPMA_VM_RXE": self.rxe, "RPMA_VM_PMEM": self.pmem,
            "RPMA_VM_LOSS_PERCENT": self.loss_percent, "RPMA_VM_TIMEOUT_S": self.timeout_s}
        lines = [f"{name}={shlex.quote(str(value))}\n" for name, value in settings.items()]
        (control / "environment").write_text("".join(lines))
        (control / "command").write_text(self.command + "\n")


def joined(guests: list[Guest], socket: pathlib.Path, loss_percent: int) -> list[Guest]:
    """The two guests with a network between them. The MTU leaves room for RoCE packets of 4096 bytes."""
    made = []
    for guest, end in zip(guests, ("server=on", "server=off,reconnect=1")):
        netdev = f"stream,id=net0,{end},addr.type=unix,addr.path={escaped(socket)}"
        device = f"virtio-net-pci,netdev=net0,host_mtu=4500,mac=52:54:00:00:77:0{guest.number}"
        made.append(dataclasses.replace(
            guest, network=("-netdev", netdev, "-device", device), loss_percent=loss_percent))
    return made


def share(name: str, path: pathlib.Path, read_only: bool) -> list[str]:
    mode = ",readonly=on" if read_only else ""
    return ["-virtfs", f"local,path={escaped(path)},mount_tag={name},security_model=none,multidevs=remap{mode}"]


def escaped(path: pathlib.Path) -> str:
    return str(path).replace(",", ",,")


def qemu_command(prepared: Prepared, guest: Guest, control: pathlib.Path, console: pathlib.Path, output_fd: int,
                 ) -> list[str]:
    command = [
        "qemu-system-x86_64", "-machine", "q35,nvdimm=on", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2",
        "-m", "1536M,slots=2,maxmem=4G", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(prepared.image), "-initrd", str(prepared.initramfs), "-append", KERNEL_LINE,
        "-device", "virtio-rng-pci", "-serial", f"file:{console}",
        "-chardev", f"file,id=output,path=/dev/fd/{output_fd}",
        "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=output,name=output",
        *share("root", prepared.root, True), *share("build", prepared.build, True), *share("source", SOURCE, True),
        *share("control", control, False), *guest.network,
    ]
    if guest.pmem != "none":
        command += [
            "-object", f"memory-backend-file,id=memory0,share=on,mem-path={escaped(guest.pmem_file)},size={PMEM_SIZE}",
            "-device", "nvdimm,id=nvdimm0,memdev=memory0"]
    return command


class Machine:
    """A running guest. Its output is a file object that ends when the guest is off."""

    def __init__(self, process: subprocess.Popen[bytes], output_fd: int, directory: pathlib.Path) -> None:
        self.process = process
        self.output = os.fdopen(output_fd, "rb", buffering=0)
        self.directory = directory

    def status(self) -> int:
        """The exit status of the command, once the guest is off."""
        answer = self.directory / "control" / "status"
        text = answer.read_text().strip() if answer.exists() else ""
        if text.isdigit():
            return int(text)
        cause = {"setup": "the guest's devices could not be set up"}.get(text, "the guest ended without an answer")
        raise LaneFailed(f"{cause}; its console:\n{self.console()}")

    def console(self) -> str:
        path = self.directory / "console"
        return path.read_text(errors="replace")[-6000:] if path.exists() else "(nothing)"


@contextlib.contextmanager
def boot(prepared: Prepared, guest: Guest, directory: pathlib.Path) -> Iterator[Machine]:
    """The guest runs until it turns itself off or the context is left."""
    directory.mkdir()
    control, console = directory / "control", directory / "console"
    guest.write_control(control)
    read_fd, write_fd = os.pipe()
    try:
        process = subprocess.Popen(
            qemu_command(prepared, guest, control, console, write_fd), stdin=subprocess.DEVNULL, pass_fds=[write_fd])
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
        machine.output.close()
