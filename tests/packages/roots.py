# SPDX-License-Identifier: BSD-3-Clause
"""Debian chroots that exist for the duration of a test, and the sources to build in them."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "vm"))

from lane import SOURCE, CannotRun, LaneFailed, default_cache, run_program  # noqa: E402,F401
from lane.cache import key_of, provide  # noqa: E402
from lane.debian import QUIET_APT, inside, mirror, need_suite, run_quietly  # noqa: E402

# Directories that are not sources, in case the tree has no git metadata.
NO_SOURCES = shutil.ignore_patterns("build", ".git", "__pycache__")
ENVIRONMENT = "export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root; "
STEP_LIMIT_S = 2400
# Ends all processes of the command together with it.
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
CACHE = default_cache().with_name("librpma-packages")
TOOLS = {"mmdebstrap": "mmdebstrap", "unshare": "util-linux", "apt-get": "apt", "tar": "tar", "zstd": "zstd",
         "systemd-nspawn": "systemd-container"}


@contextlib.contextmanager
def step(purpose: str) -> Iterator[None]:
    """Prints the purpose of a step and its duration."""
    print(f"{purpose} ... ", end="", flush=True)
    start = time.monotonic()
    try:
        yield
    except BaseException:
        print(flush=True)
        raise
    print(f"{time.monotonic() - start:.0f} s", flush=True)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Contents of a chroot. A stored one is reused as long as its recipe is unchanged."""

    name: str
    suite: str
    packages: Sequence[str]
    foreign: Sequence[str] = ()  # architectures
    build_dependencies: str | None = None  # options of `apt-get build-dep` for the build dependencies of debian/control

    @property
    def key(self) -> str:
        control = b"" if self.build_dependencies is None else (SOURCE / "debian/control").read_bytes()
        return key_of(self.suite, *self.packages, *self.foreign, self.build_dependencies or "", control, mirror())


def packagers(suite: str) -> Recipe:
    """Returns the recipe of a system that builds the packages."""
    return Recipe(f"{suite}-build", suite, ["build-essential", "lintian"], build_dependencies="")


def machine(suite: str) -> Recipe:
    """Returns the recipe of a system that uses the packages: for developing programs, and without RDMA packages."""
    return Recipe(f"{suite}-machine", suite, ["g++", "cmake", "make", "pkg-config", "python3", "libpmem2-dev", "autopkgtest",
                                              "procps", "systemd-sysv"])


def packages_in(directory: pathlib.Path, pattern: str) -> list[pathlib.Path]:
    packages = sorted(directory.absolute().glob(pattern))
    if not packages:
        raise CannotRun(f"no package {pattern} found in {directory} (run tests/packages/build first)")
    return packages


class Root:
    """A Debian system in a directory."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def run(self, purpose: str, script: str) -> str:
        """Returns the output of a shell script in the chroot, which must succeed. Its mounts and processes end with it."""
        with step(purpose):
            return run_quietly(inside(self.path, {}, ENVIRONMENT + script), purpose, STEP_LIMIT_S)

    def boot(self, purpose: str, script: pathlib.Path) -> str:
        """Returns the output of a shell script that runs in the booted system, which is then switched off."""
        self.copy_in([script], "test")
        output = self.path / "test" / f"{script.stem}.log"
        unit = self.path / "etc/systemd/system/test.service"
        unit.write_text("[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nTimeoutStartSec=5min\n"
                        f"ExecStart=sh /test/{script.name}\nExecStopPost=systemctl start --no-block poweroff.target\n"
                        f"StandardOutput=append:/test/{output.name}\nStandardError=append:/test/{output.name}\n")
        command = ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network",
                   f"--directory={self.path}", "systemd.unit=test.service"]
        with step(purpose):
            try:
                run_quietly(command, purpose, STEP_LIMIT_S)
            except LaneFailed as failed:
                if not output.exists():
                    raise CannotRun(f"systemd-nspawn boots no system here: {' '.join(str(failed).split())[-200:]}") from failed
                raise
        return output.read_text()

    def copy_in(self, files: Sequence[pathlib.Path], destination: str) -> None:
        (self.path / destination).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, self.path / destination)

    def add_source(self, destination: str) -> None:
        """Copies the working tree without build results."""
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


def make_root(recipe: Recipe, directory: pathlib.Path) -> None:
    """Creates a tar file of the chroot in `directory`. Replaces the result of an older recipe of the same name."""
    root = Root(directory / "root")
    try:
        fill_root(recipe, root)
        with step("keeping the root"):
            run_quietly(["tar", "--zstd", "-C", str(root.path), "-cf", str(directory / "root.tar.zst"), "."], "packing the root")
    finally:
        shutil.rmtree(root.path, ignore_errors=True)
    for outdated in directory.parent.glob(f"{recipe.name}-*"):
        if outdated.is_dir() and outdated.suffix != ".partial":
            shutil.rmtree(outdated, ignore_errors=True)


def fill_root(recipe: Recipe, root: Root) -> None:
    own = run_quietly(["dpkg", "--print-architecture"], "querying the architecture").strip()
    with step(f"making a root of Debian {recipe.suite}"):
        # The contents need not survive a crash, and waiting for the disk dominates an installation.
        run_quietly(
            [*ALONE, "mmdebstrap", "--quiet", "--variant=apt", "--dpkgopt=force-unsafe-io",
             f"--architectures={','.join([own, *recipe.foreign])}", f"--include={','.join(recipe.packages)}",
             "--skip=cleanup/apt/lists", recipe.suite, str(root.path), mirror()],
            f"making a root of Debian {recipe.suite}", STEP_LIMIT_S)
    if recipe.build_dependencies is not None:
        root.copy_in([SOURCE / "debian/control"], "dependencies/debian")
        root.run("installing what the packages are built with",
                 f"{QUIET_APT} build-dep -y --no-install-recommends {recipe.build_dependencies} /dependencies; "
                 "apt-get clean; rm -r /dependencies")


@contextlib.contextmanager
def temporary_root(path: pathlib.Path, recipe: Recipe) -> Iterator[Root]:
    """Creates a chroot at `path` and removes it at the end. First removes the remains of an interrupted run."""
    if os.geteuid() != 0:
        raise CannotRun("creating a chroot needs root (run the test as root)")
    for tool, package in TOOLS.items():
        if not shutil.which(tool):
            raise CannotRun(f"{tool} not found (install {package})")
    need_suite(recipe.suite)
    cached = CACHE / f"{recipe.name}-{recipe.key}"
    made_before = cached.is_dir()
    kept = provide(cached, lambda directory: make_root(recipe, directory))
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        with step(f"unpacking a root of Debian {recipe.suite}"):
            run_quietly(["tar", "--zstd", "-C", str(path), "-xpf", str(kept / "root.tar.zst")], "unpacking the root")
        root = Root(path)
        if made_before:
            root.run("bringing it up to date", f"{QUIET_APT} update; {QUIET_APT} upgrade -y")
        yield root
    finally:
        shutil.rmtree(path, ignore_errors=True)
