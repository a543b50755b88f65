# SPDX-License-Identifier: BSD-3-Clause
"""Root directories of Debian that live as long as a test, and the sources to build in them."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "vm"))

from lane import SOURCE, CannotRun, LaneFailed, report_failures  # noqa: E402
from lane.debian import QUIET_APT, inside, mirror, run_quietly  # noqa: E402

# Of the source tree nothing but this is known to belong to it where there is no git.
NO_SOURCES = shutil.ignore_patterns("build", ".git", "__pycache__")
ENVIRONMENT = "export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root; "
STEP_LIMIT_S = 900
# Whatever the command starts ends with it.
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


class Root:
    """A Debian system in a directory."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def run(self, purpose: str, script: str) -> str:
        """Output of a shell script in the root, which has to succeed. Its mounts and processes end with it."""
        print(f"{purpose} ...", flush=True)
        return run_quietly(inside(self.path, {}, ENVIRONMENT + script), purpose, STEP_LIMIT_S)

    def install(self, *packages: str) -> None:
        self.run(f"installing {' '.join(packages)}",
                 f"{QUIET_APT} install -y --no-install-recommends {' '.join(packages)}")

    def copy_in(self, files: Sequence[pathlib.Path], destination: str) -> None:
        (self.path / destination).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, self.path / destination)

    def add_source(self, destination: str) -> None:
        """The project as it is in the working tree, without what was built there."""
        target = self.path / destination
        listed = subprocess.run(
            ["git", "-c", f"safe.directory={SOURCE}", "-C", SOURCE, "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        if listed.returncode != 0:
            shutil.copytree(SOURCE, target, symlinks=True, ignore=NO_SOURCES)
            return
        for name in filter(None, listed.stdout.split("\0")):
            if (SOURCE / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(SOURCE / name, target / name)


@contextlib.contextmanager
def temporary_root(path: pathlib.Path, suite: str, packages: Sequence[str], foreign: Sequence[str] = ()) -> Iterator[Root]:
    """A new root at path, removed again at the end; what an interrupted run left there goes first."""
    if os.geteuid() != 0:
        raise CannotRun("making a Debian root with dpkg needs root: run the test as root")
    for tool, package in {"mmdebstrap": "mmdebstrap", "unshare": "util-linux", "apt-get": "apt"}.items():
        if not shutil.which(tool):
            raise CannotRun(f"{tool} is missing: install {package}")
    own = run_quietly(["dpkg", "--print-architecture"], "asking dpkg for the architecture").strip()
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        print(f"making a root of Debian {suite} ...", flush=True)
        run_quietly(
            [*ALONE, "mmdebstrap", "--quiet", "--variant=apt", f"--architectures={','.join([own, *foreign])}",
             f"--include={','.join(packages)}", "--skip=cleanup/apt/lists", suite, str(path), mirror()],
            f"making a root of Debian {suite}", STEP_LIMIT_S)
        # Nothing of it has to survive a crash of the machine, and waiting for the disk takes most of an installation.
        (path / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
        yield Root(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def run_program(program: str, main: Callable[[], int]) -> int:
    """The exit status of a test program; a signal unwinds it, so that its root goes with it."""

    def unwind(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    for deadly in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(deadly, unwind)
    return report_failures(program, main)
