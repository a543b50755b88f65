# SPDX-License-Identifier: BSD-3-Clause
"""Detects persistent memory of this machine."""

import ctypes
import dataclasses
import mmap
import os
import pathlib
import re
import tempfile

MAP_SHARED_VALIDATE, MAP_SYNC = 0x03, 0x80000
PAGE = mmap.PAGESIZE
FAILED = ctypes.c_void_p(-1).value
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
MOUNTINFO = pathlib.Path("/proc/self/mountinfo")


@dataclasses.dataclass(frozen=True)
class Mount:
    device: str  # major:minor
    source: str
    path: pathlib.Path
    kind: str
    options: frozenset[str]

    @property
    def is_dax(self) -> bool:
        return bool(self.options & {"dax", "dax=always"})


def mounts() -> list[Mount]:
    found = []
    for line in MOUNTINFO.read_text(encoding="utf-8").splitlines():
        own, _, of_super_block = line.partition(" - ")
        fields, (kind, source, options) = own.split(), of_super_block.split()
        path = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        found.append(Mount(fields[2], source, pathlib.Path(path), kind, frozenset(fields[5].split(",") + options.split(","))))
    return found


def mount_of(path: pathlib.Path) -> Mount:
    """Returns the mount that contains the path."""
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    unknown = Mount(wanted, "unknown", path, "an unknown file system", frozenset())
    return next((mount for mount in mounts() if mount.device == wanted), unknown)


def dax_mounts() -> list[Mount]:
    return [mount for mount in mounts() if mount.is_dax]


def has_map_sync(directory: pathlib.Path) -> bool | None:
    """Returns whether files in the directory are mapped without the page cache, or None if this cannot be tested."""
    try:
        file = tempfile.TemporaryFile(prefix="rpma-map-sync-", dir=directory)
    except OSError:
        return None
    with file:
        file.truncate(PAGE)
        address = LIBC.mmap(
            None, PAGE, mmap.PROT_READ | mmap.PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, file.fileno(), 0)
        if address == FAILED:
            return False
        LIBC.munmap(address, PAGE)
        return True
