# SPDX-License-Identifier: BSD-3-Clause
"""Another installation that runs one side of each example."""

import dataclasses
import pathlib

from runner import UsageError
from runner.pair import Side

LIBRARY_DIRECTORIES = ("lib", "lib64", "lib/*", "usr/lib", "usr/lib64", "usr/lib/*")


@dataclasses.dataclass(frozen=True)
class Peer:
    prefix: pathlib.Path
    programs: pathlib.Path | None  # contains NN-topic/client and NN-topic/server
    library: pathlib.Path | None  # contains librpma.so.0

    @property
    def description(self) -> str:
        parts = [f"examples from {self.programs}"] if self.programs else []
        parts += [f"librpma from {self.library}"] if self.library else []
        return " with ".join(parts)

    def side(self, here: pathlib.Path) -> Side:
        """Returns its own programs, started without options as any version accepts, or the programs here with its library."""
        return Side(self.programs or here, self.programs is None, self.library)

    def has(self, topic: str) -> bool:
        return self.programs is None or all((self.programs / topic / role).is_file() for role in ("server", "client"))


def find(prefix: pathlib.Path) -> Peer:
    programs = [directory for directory in (prefix, prefix / "examples") if any(directory.glob("[0-9][0-9]*/server"))]
    candidates = [prefix, *(directory for name in LIBRARY_DIRECTORIES for directory in sorted(prefix.glob(name)))]
    libraries = [directory for directory in candidates if (directory / "librpma.so.0").is_file()]
    if not programs and not libraries:
        raise UsageError(f"{prefix}: neither librpma.so.0 nor example programs found (specify the installation prefix)")
    return Peer(prefix, next(iter(programs), None), next(iter(libraries), None))
