# SPDX-License-Identifier: BSD-3-Clause
"""Results of `prepare`: all files that a guest needs."""

import dataclasses
import pathlib

from lane import CannotRun, LaneFailed, debian, disk, initramfs, project


@dataclasses.dataclass(frozen=True)
class Prepared:
    kernel: pathlib.Path
    initramfs: pathlib.Path
    root_disk: pathlib.Path
    build: pathlib.Path
    build_disk: pathlib.Path

    @property
    def image(self) -> pathlib.Path:
        for pattern in ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz"):
            for image in self.kernel.glob(pattern):
                return image
        raise LaneFailed(f"the kernel in {self.kernel} lacks an image (choose another --kernel)")


def make(cache: pathlib.Path, kernel_choice: str, jobs: int) -> Prepared:
    """Creates missing files and rebuilds outdated ones."""
    root = debian.root(cache)
    kernel = debian.kernel(cache, root, kernel_choice)
    build = project.build(cache, root, jobs)
    return Prepared(kernel, initramfs.initramfs(cache, root, kernel), disk.of_root(root), build, disk.path(build))


def find(cache: pathlib.Path, kernel_choice: str) -> Prepared:
    root = debian.root_path(cache)
    kernel = debian.kernel_path(cache, kernel_choice)
    build = project.build_directory(cache, root)
    found = Prepared(kernel, initramfs.path(cache, kernel), disk.path(root), build, disk.path(build))
    for path in (found.kernel, found.initramfs, found.root_disk, found.build_disk):
        if not path.exists():
            raise CannotRun(f"{path} not found (run tests/vm/prepare)")
    return found
