# SPDX-License-Identifier: BSD-3-Clause
"""Shows or sets Intel DDIO of the PCIe root port above a device, or sets it while a command runs.

With DDIO, writes of a device go to the cache of the processor. Direct write to persistent memory needs it off."""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from runner.command_line import Parser

EXIT_FAILED, EXIT_CANNOT_RUN = 1, 77
TIMEOUT_S = 10
SYSFS = pathlib.Path("/sys")
CPUINFO = pathlib.Path("/proc/cpuinfo")
INTEL = "0x8086"
# Register perfctrlsts_0, described in the datasheets (volume 2, registers) of these processors.
REGISTER = "180.b"
NO_SNOOP_OP_WR_EN, USE_ALLOCATING_FLOW_WR = 1 << 3, 1 << 7
MASK = NO_SNOOP_OP_WR_EN | USE_ALLOCATING_FLOW_WR
VALUES = {"on": USE_ALLOCATING_FLOW_WR, "off": NO_SNOOP_OP_WR_EN}
# Root ports of Xeon E5 and E7 (Sandy Bridge to Broadwell) and of Xeon Scalable, first and second generation.
E5_PORTS = range(0x02, 0x0c)
ROOT_PORTS = {generation << 8 | port for generation in (0x3c, 0x0e, 0x2f, 0x6f) for port in E5_PORTS} | set(range(0x2030, 0x2034))


class Failure(Exception):
    """The register could not be read or written."""


class CannotRun(Exception):
    """This machine lacks the register, or this user has no access to it."""


def check_processor() -> None:
    facts = CPUINFO.read_text(encoding="utf-8", errors="replace")
    vendor = next((line.split(":")[1].strip() for line in facts.splitlines() if line.startswith("vendor_id")), "unknown")
    if vendor != "GenuineIntel":
        raise CannotRun(f"processor: vendor is {vendor}: only processors of Intel have DDIO")
    flags = next((line.split() for line in facts.splitlines() if line.startswith("flags")), [])
    if "hypervisor" in flags:
        raise CannotRun("processor: virtual machine: its root ports are not those of the host (run rpma-ddio on the host)")


def find_device(name: str) -> pathlib.Path:
    """Returns the directory of a PCI address, an RDMA device or a network interface."""
    candidates = [SYSFS / "bus/pci/devices" / name, SYSFS / "bus/pci/devices" / f"0000:{name}",
                  SYSFS / "class/infiniband" / name / "device", SYSFS / "class/net" / name / "device"]
    found = next((path for path in candidates if "/" not in name and name not in ("", ".", "..") and path.exists()), None)
    if found is None:
        raise Failure(f"{name}: not found (use a PCI address, an RDMA device or a network interface)")
    return found.resolve()


def rdma_devices() -> list[str]:
    """Returns the RDMA devices that are PCI devices; SoftRoCE and siw are not."""
    return [path.name for path in sorted((SYSFS / "class/infiniband").glob("*")) if (path / "device").exists()]


def find_root_port(device: pathlib.Path) -> str:
    """Returns the PCI address of the root port above a device."""
    parts = device.parts
    root = next((i for i, part in enumerate(parts) if part.startswith("pci") and ":" in part), None)
    if root is None or root + 2 >= len(parts):
        raise CannotRun(f"{device.name}: not below a PCIe root port")
    port = pathlib.Path(*parts[:root + 2])
    vendor, product = ((port / name).read_text(encoding="ascii").strip() for name in ("vendor", "device"))
    if vendor != INTEL or int(product, 16) not in ROOT_PORTS:
        raise CannotRun(f"root port {port.name}: {vendor}:{product} lacks a documented register perfctrlsts_0 "
                        "(set DDIO in the BIOS)")
    return port.name


def call_setpci(port: str, operation: str) -> str:
    try:
        done = subprocess.run(["setpci", "-s", port, operation], capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S, start_new_session=True)  # Ctrl-C must not end setpci
    except subprocess.TimeoutExpired as error:
        raise Failure(f"root port {port}: setpci did not end within {TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise Failure(f"root port {port}: setpci {operation} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def read_bits(port: str) -> int:
    text = call_setpci(port, REGISTER)
    try:
        return int(text, 16) & MASK
    except ValueError as error:
        raise Failure(f"root port {port}: setpci printed '{text}' instead of a byte") from error


def write_bits(port: str, bits: int) -> None:
    call_setpci(port, f"{REGISTER}={bits:02x}:{MASK:02x}")
    if read_bits(port) != bits:
        raise Failure(f"root port {port}: the register did not take the value (use the BIOS if the firmware locks it)")


def state_of(bits: int) -> str:
    return "on" if bits & USE_ALLOCATING_FLOW_WR else "off"


def finding(device: str) -> tuple[str, str | None]:
    """Returns the state of a device's root port, and the reason if the state is unknown."""
    try:
        return state_of(read_bits(port_of(device))), None
    except (CannotRun, Failure, OSError) as error:
        return "unknown", str(error)


def port_of(name: str) -> str:
    """Returns the root port of a device, after checking that its register can be used here."""
    check_processor()
    port = find_root_port(find_device(name))
    if not shutil.which("setpci"):
        raise CannotRun("setpci: not found (install the package pciutils)")
    if os.geteuid() != 0:
        raise CannotRun("register: only root can access it (use sudo)")
    return port


@contextlib.contextmanager
def forwarded_signals():
    """Passes signals that end a process to the command, so that rpma-ddio lives until it has restored the register."""
    running: list[subprocess.Popen] = []
    arrived: list[int] = []

    def forward(number: int, _: object) -> None:
        arrived.append(number)
        for command in running:
            # The terminal sends SIGINT to the command itself.
            if number != signal.SIGINT:
                command.send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield running, arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_with(port: str, bits: int, command: list[str]) -> int:
    """Sets DDIO, runs the command, restores DDIO. Returns the exit status of the command."""
    with forwarded_signals() as (running, arrived):
        before = read_bits(port)
        try:
            write_bits(port, bits)
            if arrived:
                return 128 + arrived[0]
            with subprocess.Popen(command) as process:
                running.append(process)
                for number in arrived:  # before the command could receive them
                    process.send_signal(number)
                status = process.wait()
        except OSError as error:
            raise Failure(f"{command[0]}: {error.strerror}") from error
        finally:
            try:
                write_bits(port, before)
            except Failure as error:
                raise Failure(f"DDIO is not restored: {error} (run `rpma-ddio {state_of(before)}`)") from error
    return status if status >= 0 else 128 - status


def parse(words: list[str], version: str) -> argparse.Namespace:
    parser = Parser(
        prog="rpma-ddio", description=__doc__,
        usage="rpma-ddio [-h] [--version] [--device NAME] [{on,off} [-- COMMAND ...]]",
        epilog="Exit status: 0 done, 1 failed, 2 wrong command line, 77 this machine or user lacks access to the register; "
               "the status of COMMAND, if there is one.")
    parser.add_argument("--version", action="version", version=f"rpma-ddio {version}")
    parser.add_argument("--device", metavar="NAME",
                        help="PCI address, RDMA device or network interface (default: the only RDMA device)")
    parser.add_argument("state", nargs="?", choices=["on", "off"], help="value to set; without it, the value is printed")
    own, command = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, None)
    choice = parser.parse_args(own)
    choice.command = command
    if command is not None and (choice.state is None or not command):
        parser.error("-- needs on or off before it and a command after it")
    return choice


def main(words: list[str], version: str) -> int:
    choice = parse(words, version)
    try:
        devices = [choice.device] if choice.device is not None else rdma_devices()
        if len(devices) != 1:
            check_processor()
            raise CannotRun(f"RDMA devices on PCI: {', '.join(devices) or 'none'} (name one with --device)")
        port = port_of(devices[0])
        if choice.state is None:
            print(state_of(read_bits(port)))
        elif choice.command:
            return run_with(port, VALUES[choice.state], choice.command)
        else:
            write_bits(port, VALUES[choice.state])
        return 0
    except CannotRun as error:
        print(f"rpma-ddio: {error}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    except (Failure, OSError) as error:
        print(f"rpma-ddio: {error}", file=sys.stderr)
        return EXIT_FAILED
