# SPDX-License-Identifier: BSD-3-Clause
"""Selects the RDMA device of the examples."""

import dataclasses
import fcntl
import ipaddress
import pathlib
import shutil
import socket
import struct
import subprocess

from runner import CannotRun, UsageError

SYSFS = pathlib.Path("/sys/class/infiniband")
SIOCGIFADDR = 0x8915


@dataclasses.dataclass(frozen=True)
class Transport:
    name: str
    description: str
    addr: str
    prefix: tuple[str, ...]  # launcher before the command of a program
    makes_files_durable: bool  # whether a flush to persistence makes ordinary files durable


def mapped_ipv4(port: pathlib.Path) -> str | None:
    """Returns the IPv4 address in the GID table of a RoCE device."""
    for gid in sorted((port / "gids").iterdir()):
        address = ipaddress.IPv6Address(gid.read_text().strip()).ipv4_mapped
        if address:
            return str(address)
    return None


def interface_ipv4(device: pathlib.Path) -> str | None:
    """Returns the IPv4 address of a network interface of the device, for InfiniBand and iWARP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for interface in sorted((device / "device" / "net").glob("*")):
            try:
                answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", interface.name.encode()))
            except OSError:
                continue
            return socket.inet_ntoa(answer[20:24])
    return None


def active_hardware() -> list[tuple[str, str | None]]:
    """Returns name and address of each RDMA device of the kernel with an active port."""
    return [
        (device.name, mapped_ipv4(port) or interface_ipv4(device))
        for device in sorted(SYSFS.glob("*"))
        for port in sorted((device / "ports").glob("*"))
        if "ACTIVE" in (port / "state").read_text()
    ]


def find_softrdma(build: pathlib.Path) -> str:
    launcher = build / "bin" / "softrdma"
    found = str(launcher) if launcher.is_file() else shutil.which("softrdma")
    if not found:
        raise CannotRun(f"neither an active RDMA device nor softrdma found in {build / 'bin'} or PATH (build the target softrdma)")
    return found


def why_no_local_path(launcher: str) -> str:
    """Returns why two programs cannot share memory on the software device here, or an empty string. Warnings of the device, for
    example about a misspelled variable, are visible."""
    said = subprocess.run([launcher, "info"], stdout=subprocess.PIPE, text=True, errors="replace", check=False).stdout
    for line in said.splitlines():
        if line.startswith("path shm:"):
            use = line.removeprefix("path shm:").strip()
            return use if use.startswith("not ") else ""
    return ""


def check_addr(addr: str | None) -> None:
    if addr in ("0.0.0.0", "::"):
        raise UsageError(f"{addr}: wildcard address (specify the address of one interface)")
    if addr and addr.startswith("["):
        raise UsageError(f"{addr}: brackets in an IPv6 address (write {addr.strip('[]')})")


def choose(kind: str, addr: str | None, build: pathlib.Path) -> Transport:
    """Selects a device by `kind`: kernel, softrdma, or auto (kernel if an active port has a known address, otherwise softrdma)."""
    check_addr(addr)
    devices = active_hardware() if kind != "softrdma" else []
    for name, address in devices:
        if addr or address:
            return Transport(name, f"RDMA device {name} of the kernel", addr or address or "", (), False)
    if kind == "kernel":
        raise CannotRun("no RDMA device has an active port and an IPv4 address (see `rdma link show`, or use softrdma)")

    reason = {"softrdma": "requested"}.get(kind, "no RDMA device has an active port with an IPv4 address")
    return Transport(
        "softrdma",
        f"softrdma, a software device ({reason})",
        addr or "127.0.0.1",
        (find_softrdma(build), "run", "--"),
        True,
    )
