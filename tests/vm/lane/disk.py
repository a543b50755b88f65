# SPDX-License-Identifier: BSD-3-Clause
"""Read-only disks of guests. Opening a file in a shared directory needs a request to the host, which takes a third of all time
under emulation. A disk needs one request per page."""

import pathlib

from lane.cache import locked
from lane.debian import inside, run_quietly

SIZE = "4G"  # sparse


def path(directory: pathlib.Path) -> pathlib.Path:
    return directory.with_name(f"{directory.name}.disk")


def make(system: pathlib.Path, directory: pathlib.Path) -> None:
    """Creates the disk of a directory, whose lock the caller holds."""
    disk = path(directory)
    partial = disk.with_name(f"{disk.name}.partial")
    partial.unlink(missing_ok=True)
    script = f"mke2fs -q -t ext4 -O ^has_journal -d /source /build/{partial.name} {SIZE}"
    run_quietly(inside(system, {"source": directory, "build": disk.parent}, script), f"making a disk of {directory}")
    partial.rename(disk)


def of_root(root: pathlib.Path) -> pathlib.Path:
    """Returns the disk of a Debian root, which is created once."""
    with locked(root):
        if not path(root).exists():
            make(root, root)
    return path(root)
