# SPDX-License-Identifier: BSD-3-Clause
"""Debian's fio sources, configured for their headers, and a fio built from them with its own librpma engines."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "vm"), str(ROOT / "examples")]

from lane import CannotRun, LaneFailed, default_cache, run_program  # noqa: E402,F401
from lane.cache import key_of, provide  # noqa: E402
from lane.debian import mirror, run_quietly  # noqa: E402

CACHE = default_cache().with_name("librpma-fio")
KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ENGINES = [f"librpma_{method}_{side}" for method in ("apm", "gpspm") for side in ("client", "server")]
CONFIGURE = "./configure --disable-native"
# fio 3.33 prefers this library to libpmem, but its librpma_gpspm_server then crashes at startup.
NO_LIBPMEM2 = '#error "fio\'s librpma_gpspm_server does not work with libpmem2"\n'


def need(*tools: str) -> None:
    packages = {"dpkg-source": "dpkg-dev", "gcc": "gcc", "make": "make", "apt-get": "apt", "pkg-config": "pkgconf"}
    missing = [packages[tool] for tool in tools if not shutil.which(tool)]
    if missing:
        raise CannotRun(f"{' and '.join(missing)} missing: install with apt-get")


def this_suite() -> str:
    lines = pathlib.Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    release = dict(line.split("=", 1) for line in lines if "=" in line)
    if release.get("ID") != "debian" or "VERSION_CODENAME" not in release:
        raise CannotRun("not a Debian release (select one with --suite, or set RPMA_FIO_SOURCE to a source tree of fio)")
    return release["VERSION_CODENAME"]


def download(suite: str, directory: pathlib.Path) -> None:
    """Downloads a source package. Uses separate apt settings, because the system's might not list source packages."""
    for name in ("lists/partial", "cache"):
        (directory / name).mkdir(parents=True)
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    (directory / "sources.list").write_text(f"deb-src {signed}{mirror()} {suite} main\n", encoding="utf-8")
    apt = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "-o", f"Dir::Etc::SourceList={directory}/sources.list",
           "-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::Lists={directory}/lists",
           "-o", f"Dir::Cache={directory}/cache"]
    for command in ([*apt, "update"], [*apt, "source", "--download-only", "fio"]):
        result = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=300, check=False)
        if result.returncode != 0:
            raise CannotRun(f"cannot download the source package of fio for Debian {suite}: "
                            f"{result.stderr.strip().partition(chr(10))[0]}")


def source(cache: pathlib.Path, suite: str) -> pathlib.Path:
    """Returns the configured source tree for building the external engines."""
    def make(path: pathlib.Path) -> None:
        need("apt-get", "dpkg-source", "gcc", "make")
        package = path / "package"
        download(suite, package)
        run_quietly(["sh", "-c", f'cd "$0" && dpkg-source --no-check -x package/fio_*.dsc tree && cd tree && {CONFIGURE}',
                     str(path)], "unpacking and configuring fio")
        shutil.rmtree(package)

    return provide(cache / f"source-{key_of(suite, CONFIGURE)}", make) / "tree"


def library_variable(prefix: pathlib.Path, name: str) -> pathlib.Path:
    directories = ":".join(str(file.parent) for file in prefix.rglob("librpma.pc"))
    if not directories:
        raise LaneFailed(f"{prefix}: librpma.pc not found (install the component devel there)")
    result = subprocess.run(["pkg-config", f"--variable={name}", "librpma"], capture_output=True, text=True, check=False,
                            env=os.environ | {"PKG_CONFIG_PATH": directories})
    return pathlib.Path("".join(shlex.split(result.stdout)))  # pkg-config escapes blanks


def in_tree(cache: pathlib.Path, tree: pathlib.Path, prefix: pathlib.Path) -> pathlib.Path:
    """Returns fio with its own engines, built with the librpma installed at `prefix`. fio's configure does not use pkg-config, so
    the library must be in the compiler's search path."""
    need("gcc", "make", "pkg-config")
    include, library = library_variable(prefix, "includedir"), library_variable(prefix, "libdir")

    def make(path: pathlib.Path) -> None:
        # fio's makefile does not support blanks in the path of its source.
        with tempfile.TemporaryDirectory(prefix="librpma-fio-") as directory:
            work, shadow = pathlib.Path(directory) / "work", pathlib.Path(directory) / "shadow"
            shutil.copytree(tree, work, symlinks=True)
            shadow.mkdir()
            (shadow / "libpmem2.h").write_text(NO_LIBPMEM2, encoding="utf-8")
            in_work = ["env", "-C", str(work), f"CPATH={shadow}:{include}", f"LIBRARY_PATH={library}", f"LD_LIBRARY_PATH={library}"]
            run_quietly([*in_work, *CONFIGURE.split()], "configuring fio with librpma")
            config = (work / "config-host.h").read_text(encoding="utf-8")
            for wanted in ("CONFIG_LIBRPMA_APM", "CONFIG_LIBRPMA_GPSPM"):
                if wanted not in config:
                    raise CannotRun(f"fio's configure does not set {wanted}: libpmem-dev or libprotobuf-c-dev is missing, "
                                    f"or this version lacks the engine")
            run_quietly([*in_work, "make", f"-j{os.cpu_count()}", "fio"], "building fio with librpma")
            shutil.copy2(work / "fio", path / "fio")

    # The build depends only on the interface, because the dynamic linker finds the library when fio starts.
    symbols = subprocess.run(["nm", "--dynamic", "--defined-only", "--format=just-symbols", library / "librpma.so.0"],
                             capture_output=True, text=True, check=False).stdout
    key = key_of(str(tree), (include / "librpma.h").read_bytes(), "".join(sorted(symbols.splitlines(True))), NO_LIBPMEM2)
    return provide(cache / f"in-tree-{key}", make) / "fio"
