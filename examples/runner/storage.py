# SPDX-License-Identifier: BSD-3-Clause
"""Files or PMem devices with the texts of the examples."""

import contextlib
import dataclasses
import mmap
import os
import pathlib
import shutil
import stat
import tempfile
from collections.abc import Iterator

from runner import ExampleFailed, UsageError, pmem

SIGNATURE = b"RPMA_EXAMPLE_SIG\0"
TEXT_SIZE = 1024
FILE_SIZE = 64 * 1024
CLIENT_OFFSET = 4096  # in a file that both sides share: after the server's data
MINIMUM_SIZE = 2 * CLIENT_OFFSET
DEVICE_DAX_ALIGNMENT = 2 * 1024 * 1024

# Directory for commands repeated by hand, because the runner removes its own files.
BY_HAND = pathlib.Path("/var/tmp/rpma-by-hand")
PREPARE_BY_HAND = f"mkdir -p {BY_HAND} && truncate -s {FILE_SIZE} {BY_HAND}/server.pmem {BY_HAND}/client.pmem"

VOLATILE = "volatile"
DURABLE_FILE = "durable file"
PERSISTENT_MEMORY = "persistent memory"


@dataclasses.dataclass(frozen=True)
class Storage:
    description: str
    server_path: pathlib.Path | None  # path of the server's file, or None for DRAM
    client_path: pathlib.Path | None
    client_offset: int
    level: str  # persistence level of data that a flush, or the server, made persistent
    scratch: pathlib.Path | None = None  # temporary directory of the files, if it is removed at the end

    def by_hand(self, command: str) -> str:
        """Returns the command with file names that still exist when a user repeats it."""
        return command.replace(str(self.scratch), str(BY_HAND)) if self.scratch else command

    def read_server(self, size: int) -> bytes:
        """Returns the first bytes of the server's file."""
        assert self.server_path
        is_device = stat.S_ISCHR(self.server_path.stat().st_mode)
        with open(self.server_path, "rb") as file:
            length = DEVICE_DAX_ALIGNMENT if is_device else 0
            with mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ) as content:
                return content[:size]

    def read_server_text(self) -> str:
        content = self.read_server(len(SIGNATURE) + TEXT_SIZE)
        if not content.startswith(SIGNATURE):
            raise ExampleFailed(f"{self.server_path} does not start with the signature of the examples")
        return content.removeprefix(SIGNATURE).split(b"\0", 1)[0].decode(errors="replace")


def describe(path: pathlib.Path, origin: str) -> tuple[str, str]:
    """Returns the kind of memory at the path, and its highest persistence level."""
    if stat.S_ISCHR(path.stat().st_mode):
        return f"{path}: persistent memory (device DAX)", PERSISTENT_MEMORY
    mount = pmem.mount_of(path)
    if mount.is_dax:
        return f"{origin} on {mount.kind} with DAX: persistent memory", PERSISTENT_MEMORY
    if mount.kind in ("tmpfs", "ramfs"):
        return f"{origin} on {mount.kind}: NOT persistent, gone when the machine stops", VOLATILE
    return f"{origin} on {mount.kind}: NOT persistent memory, durable through msync", DURABLE_FILE


@contextlib.contextmanager
def created_files(directory: pathlib.Path) -> Iterator[Storage]:
    """Creates two files and removes them at the end."""
    try:
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="rpma-examples-", dir=directory))
    except OSError as error:
        raise UsageError(f"{directory}: cannot create files: {error.strerror} (choose another --pmem)") from error
    try:
        paths = [scratch / "server.pmem", scratch / "client.pmem"]
        for path in paths:
            with open(path, "wb") as file:
                file.truncate(FILE_SIZE)
        description, level = describe(paths[0], f"files created in {directory}")
        yield Storage(description, paths[0], paths[1], 0, level, scratch)
    finally:
        shutil.rmtree(scratch)


def shared_file(path: pathlib.Path) -> Storage:
    """Uses an existing file or device without changing its other content."""
    if not path.exists():
        raise UsageError(f"{path}: not found (create it, for example with `truncate -s 64K {path}`)")
    info = path.stat()
    if not stat.S_ISREG(info.st_mode) and not stat.S_ISCHR(info.st_mode):
        raise UsageError(f"{path}: neither a file, a directory nor a PMem device")
    if stat.S_ISREG(info.st_mode) and info.st_size < MINIMUM_SIZE:
        raise UsageError(f"{path}: {info.st_size} bytes, the examples need {MINIMUM_SIZE} (enlarge it)")
    if not os.access(path, os.R_OK | os.W_OK):
        raise UsageError(f"{path}: cannot read and write (change its permissions or choose another --pmem)")
    description, level = describe(path, str(path))
    return Storage(description, path, path, CLIENT_OFFSET, level)


def best_directory() -> pathlib.Path:
    """Returns a directory on persistent memory if a file can be created there."""
    usable = (mount.path for mount in pmem.dax_mounts() if pmem.has_map_sync(mount.path))
    return next(usable, pathlib.Path("/var/tmp"))


def is_shared(choice: str) -> bool:
    """Returns whether prepare(choice) returns the same file for all examples."""
    return choice not in ("auto", "none") and not pathlib.Path(choice).is_dir()


@contextlib.contextmanager
def prepare(choice: str) -> Iterator[Storage]:
    """Yields the storage for `choice`: auto, none, a directory for new files, or an existing file or device for both sides."""
    if choice == "none":
        yield Storage("DRAM: nothing is persistent", None, None, 0, VOLATILE)
        return
    path = (best_directory() if choice == "auto" else pathlib.Path(choice)).absolute()
    if path.is_dir():
        with created_files(path) as storage:
            yield storage
        return
    yield shared_file(path)
