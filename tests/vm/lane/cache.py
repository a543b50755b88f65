# SPDX-License-Identifier: BSD-3-Clause
"""Directories that are built once. Their names contain a hash of their inputs, so a changed input causes a rebuild."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator


def key_of(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def locked(path: pathlib.Path, exclusive: bool = True) -> Iterator[None]:
    """Holds a lock named after the path. The kernel releases it even if the process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def provide(path: pathlib.Path, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """Returns the directory `path`. `make` first fills it under a temporary name, so an incomplete one is never used."""
    with locked(path):
        if not path.is_dir():
            partial = path.with_name(f"{path.name}.partial")
            if partial.exists():
                shutil.rmtree(partial)
            partial.mkdir()
            make(partial)
            partial.rename(path)
    return path
