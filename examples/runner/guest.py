# SPDX-License-Identifier: BSD-3-Clause
"""A QEMU guest without root or an installed kernel: uses Debian's cloud kernel, and programs of this machine."""

import contextlib
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from runner import CannotRun, UsageError

KERNEL = "linux-image-cloud-amd64"
MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")
# tests/vm/lane/machine.py explains these values.
KERNEL_LINE = ("quiet loglevel=1 panic=-1 mitigations=off nokaslr init_on_alloc=0 audit=0 random.trust_cpu=on no_timer_check "
               "console=ttyS0")
CPU = "Nehalem,+rdrand"
FETCH_LIMIT_S = 300
SYSTEM_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def find(program: str) -> str | None:
    """Returns the path of a program. The PATH of an ordinary user lacks the directories of mke2fs(8)."""
    return shutil.which(program, path=SYSTEM_PATH)


def need(programs: dict[str, str]) -> None:
    """Raises CannotRun if a program is missing. `programs` maps each program to its package."""
    missing = sorted({package for program, package in programs.items() if not find(program)})
    if missing:
        raise CannotRun(f"{', '.join(missing)} not found (run `apt-get install {' '.join(missing)}` as root)")


def first(unpacked: pathlib.Path, pattern: str) -> pathlib.Path:
    for path in unpacked.glob(pattern):
        return path
    raise CannotRun(f"{unpacked} is incomplete (remove it)")


def ask_apt(*words: str, place: pathlib.Path | None = None) -> str:
    options = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    try:
        done = subprocess.run([words[0], *options, *words[1:]], cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=FETCH_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise CannotRun(f"`{' '.join(words)}` took longer than {FETCH_LIMIT_S} s") from None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise CannotRun(f"`{' '.join(words)}` failed: {reason} (run `apt-get update` as root)")
    return done.stdout


def fetch(cache: pathlib.Path) -> pathlib.Path:
    """Returns the directory with the unpacked packages of the kernel and of busybox, which are downloaded once."""
    need({"apt-get": "apt", "dpkg": "dpkg"})
    listed = ask_apt("apt-cache", "depends", "--recurse", "--important", KERNEL)
    names = sorted(set(re.findall(r"^linux-(?:image|binary|modules)-[0-9]\S*", listed, re.MULTILINE)))
    if not names:
        raise CannotRun(f"package {KERNEL} not found (run `apt-get update` as root)")
    unpacked = cache / names[0]
    if unpacked.is_dir():
        return unpacked
    try:
        cache.mkdir(parents=True, exist_ok=True)
        download = tempfile.TemporaryDirectory(prefix="download-", dir=cache)
    except OSError as error:
        raise UsageError(f"--cache {cache}: {error.strerror} (choose another directory)") from error
    with download as made:
        packages, tree = pathlib.Path(made), pathlib.Path(made) / "tree"
        ask_apt("apt-get", "-qq", "download", *names, "busybox-static", place=packages)
        for package in packages.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, tree], stdin=subprocess.DEVNULL, check=True, timeout=FETCH_LIMIT_S)
        with contextlib.suppress(OSError):  # another run has created it
            tree.rename(unpacked)
    return unpacked


def read_module(path: pathlib.Path) -> bytes:
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


def modules(unpacked: pathlib.Path) -> dict[str, bytes]:
    """Returns the modules of the guest in load order. Modules built into the kernel have no file."""
    paths = {path.name.split(".")[0].replace("-", "_"): path for path in unpacked.glob("**/lib/modules/*/kernel/**/*.ko*")}
    found: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in found or name not in paths:
            return
        content = read_module(paths[name])
        for needed in re.search(rb"\bdepends=([^\0]*)\0", content)[1].decode().split(","):
            add(needed.replace("-", "_"))
        found[name] = content

    for name in MODULES:
        add(name)
    return found


def libraries(program: str) -> list[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", listed)


def make_initramfs(unpacked: pathlib.Path, init: pathlib.Path, programs: list[str]) -> bytes:
    busybox = first(unpacked, "**/bin/busybox").absolute()
    loaded = modules(unpacked)
    files = {"init": init.read_bytes(), "bin/busybox": busybox.read_bytes(), "modules/order": "".join(
        f"{name}.ko\n" for name in loaded).encode()}
    files |= {f"modules/{name}.ko": content for name, content in loaded.items()}
    for program in programs:
        files[f"bin/{pathlib.Path(program).name}"] = pathlib.Path(program).read_bytes()
        files |= {path.lstrip("/"): pathlib.Path(path).read_bytes() for path in libraries(program)}
    with tempfile.TemporaryDirectory() as made:
        tree = pathlib.Path(made)
        for name, content in files.items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755)
        listed = "\n".join(sorted(str(path.relative_to(tree)) for path in tree.rglob("*")))
        return subprocess.run([busybox, "cpio", "-o", "-H", "newc", "-R", "0:0"], cwd=tree, input=listed.encode(),
                              capture_output=True, check=True, timeout=FETCH_LIMIT_S).stdout


def escaped(path: object) -> str:
    return str(path).replace(",", ",,")


def boots() -> list[tuple[list[str], int]]:
    """Returns QEMU's accelerators and the time limit for each attempt to boot. Guests hang with a KVM that does not work, as in
    some nested virtual machines, and sometimes under emulation."""
    emulated = ["-accel", "tcg"]
    return [(["-accel", "kvm", *emulated], 20)] * os.access("/dev/kvm", os.R_OK | os.W_OK) + [(emulated, 90)] * 3


def command(unpacked: pathlib.Path, initramfs: pathlib.Path, socket: pathlib.Path, reconnect_s: int, variables: str) -> list[str]:
    """Returns the QEMU command without accelerators, with the disk at an NBD socket and the console on its output."""
    kernel = first(unpacked, "boot/vmlinuz-*")
    return [
        "qemu-system-x86_64", "-machine", "q35", "-cpu", CPU, "-m", "256M", "-nodefaults", "-no-user-config",
        "-display", "none", "-no-reboot", "-kernel", str(kernel), "-initrd", str(initramfs),
        "-append", f"{KERNEL_LINE} {variables}", "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
        "-drive", f"if=none,id=disk,format=raw,file.driver=nbd,file.server.type=unix,file.server.path={escaped(socket)},"
                  f"file.reconnect-delay={reconnect_s}",
        "-device", "virtio-blk-pci,drive=disk"]
