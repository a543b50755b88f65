# SPDX-License-Identifier: BSD-3-Clause
"""A Debian 13 root directory and its kernel, from the mirror that this system uses."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from lane import CannotRun, LaneFailed
from lane.cache import key_of, provide

SUITE = "trixie"
SUITES = {"debian": SUITE, "backports": f"{SUITE}-backports"}  # suites with kernels
PACKAGES = (
    "g++ cmake ninja-build pkgconf libibverbs-dev librdmacm-dev libpmem2-dev libcmocka-dev "
    "libcli11-dev libfmt-dev libcurl4-openssl-dev libgnutls28-dev libmicrohttpd-dev libsystemd-dev nettle-dev nlohmann-json3-dev libxxhash-dev "
    "libprotobuf-dev protobuf-compiler "
    "libprotobuf-c-dev protobuf-c-compiler python3 python3-cffi python3-setuptools libpython3-dev "
    "rdma-core ibverbs-providers ibverbs-utils rdmacm-utils perftest ndctl daxctl e2fsprogs iproute2 procps valgrind "
    "dpkg-dev make busybox-static cpio kmod xz-utils ca-certificates"
).split()
TOOLS = {"mmdebstrap": "mmdebstrap", "qemu-system-x86_64": "qemu-system-x86", "unshare": "util-linux"}
MOUNT_POINTS = ("source", "build", "control", "kernel", "initramfs")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
QUIET_APT = "apt-get -qq -o APT::Sandbox::User=root"


def need_tools(install: bool) -> None:
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if not missing:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if not install or os.geteuid() != 0 or not shutil.which("apt-get"):
        raise CannotRun(f"{' and '.join(missing)} missing: run `{' '.join(command)}` as root")
    run_quietly(command, f"installing {' '.join(missing)}")


AS_ROOT = ["unshare", "--map-root-user", "--map-auto"]


def need_root() -> None:
    """Checks for root or an equivalent: files of a root directory have many owners, and building in it needs mounts."""
    if os.geteuid() == 0:
        return
    probe = subprocess.run(
        [*AS_ROOT, "--mount", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise CannotRun(
            f"making a Debian root needs root, or a user with ranges in /etc/subuid and /etc/subgid and the package "
            f"uidmap ({probe.stderr.strip()})")


def run_quietly(command: list[str], purpose: str, timeout_s: int = 1200) -> str:
    """Returns the output of a command, which must succeed. Prints it only on failure."""
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as expired:
        raise LaneFailed(f"{purpose} took longer than {timeout_s} seconds") from expired
    if result.returncode != 0:
        raise LaneFailed(f"{purpose} failed with status {result.returncode}:\n{result.stdout[-8000:]}")
    return result.stdout


def inside(root: pathlib.Path, binds: dict[str, pathlib.Path], script: str) -> list[str]:
    """Returns a command that runs a shell script in the root, with host directories mounted there."""
    unshare = AS_ROOT if os.geteuid() != 0 else AS_ROOT[:1]
    mounts = ["mount --rbind /dev \"$1/dev\"", "mount -t proc proc \"$1/proc\""]
    operands = [str(root), script]
    for point, directory in binds.items():
        operands.append(str(directory))
        mounts.append(f'mount --bind "${{{len(operands)}}}" "$1/{point}"')
    steps = " && ".join([*mounts, 'exec chroot "$1" sh -euc "$2"'])
    # Compilers, launchers and flags in this system's environment do not apply to the root.
    kept = [f"{name}={value}" for name, value in os.environ.items() if name.lower().endswith("_proxy")]
    return [
        "env", "-i", f"PATH={PATH}", "HOME=/root", "LANG=C.UTF-8", *kept,
        *unshare, "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", steps, "sh", *operands]


def mirror() -> str:
    """Returns the Debian mirror of this system."""
    if not shutil.which("apt-get"):
        raise CannotRun("apt-get not found: the root is built from the packages of a Debian mirror")
    found = run_quietly(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian",
         "Component: main"], "asking apt-get for the mirror").split()
    candidates = [uri for uri in found if "security" not in uri]
    if not candidates:
        raise CannotRun("apt-get knows no Debian mirror: run `apt-get update`")
    return candidates[0]


def need_suite(suite: str) -> None:
    """Raises CannotRun if the mirror or the suite cannot be reached."""
    url = f"{mirror().rstrip('/')}/dists/{suite}/Release"
    with tempfile.TemporaryDirectory(prefix="rpma-vm-") as directory:
        try:
            # Downloads like apt-get, through its configured proxy.
            helper = ["/usr/lib/apt/apt-helper", "-o", "APT::Sandbox::User=root"]
            run_quietly([*helper, "download-file", url, f"{directory}/Release"], f"fetching {url}", 120)
        except LaneFailed as failure:
            raise CannotRun(f"{url} cannot be had: {str(failure).splitlines()[-1]}") from failure


def root_path(cache: pathlib.Path) -> pathlib.Path:
    return cache / f"root-{key_of(SUITE, *PACKAGES)}"


def root(cache: pathlib.Path) -> pathlib.Path:
    def make(path: pathlib.Path) -> None:
        need_suite(SUITE)
        run_quietly(
            ["mmdebstrap", "--quiet", "--variant=apt", "--dpkgopt=force-unsafe-io",
             f"--include={','.join(PACKAGES)}", SUITE, str(path), mirror()],
            f"making a root of Debian {SUITE}")
        script = f"{QUIET_APT} update; mkdir -p {' '.join('/' + point for point in MOUNT_POINTS)}"
        run_quietly(inside(path, {}, script), "reading the lists of packages")

    return provide(root_path(cache), make)


def kernel_path(cache: pathlib.Path, choice: str) -> pathlib.Path:
    return cache / f"kernel-{key_of(root_path(cache).name, choice if choice in SUITES else read_package(choice))}"


def read_package(name: str) -> bytes:
    try:
        return pathlib.Path(name).read_bytes()
    except OSError as error:
        raise LaneFailed(f"--kernel {name}: {error.strerror} (use a linux-image package, debian or backports)") from error


def kernel(cache: pathlib.Path, system: pathlib.Path, choice: str) -> pathlib.Path:
    """Returns an unpacked kernel: from a package file, or the current one of a suite."""
    def fetch(path: pathlib.Path) -> None:
        need_suite(SUITES[choice])
        apt = (f"-o Dir::Etc::SourceList=/kernel/list -o Dir::Etc::SourceParts=- -o Dir::State::Lists=/kernel/lists "
               "-o Dir::Cache=/kernel/cache")
        run_quietly(
            inside(system, {"kernel": path}, (
                "cd /kernel; mkdir -p lists/partial cache; "
                f"echo 'deb {mirror()} {SUITES[choice]} main' >list; {QUIET_APT} {apt} update; "
                # Newer kernels consist of several packages, on which a package without a version depends.
                f"names=$(apt-cache {apt} depends --recurse --important linux-image-amd64 | "
                "grep -E '^linux-(image|binary|modules)-[0-9]' | sort -u); "
                f"{QUIET_APT} {apt} download $names; rm -r lists list cache")), "downloading the kernel")

    def unpack(path: pathlib.Path) -> None:
        packages = [choice]
        if choice in SUITES:
            downloaded = provide(cache / f"{system.name}-{choice}-kernel-packages", fetch)
            packages = [str(package) for package in downloaded.glob("*.deb")]
        for package in packages:
            run_quietly(["dpkg", "-x", package, str(path)], f"unpacking {package}")
        if not (path / "lib").exists():
            (path / "lib").symlink_to("usr/lib")
        run_quietly(inside(system, {"kernel": path}, "depmod -b /kernel \"$(ls /kernel/lib/modules)\""),
                    "listing the kernel's modules")

    return provide(kernel_path(cache, choice), unpack)
