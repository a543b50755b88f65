# SPDX-License-Identifier: BSD-3-Clause
"""Reports the RDMA devices and the persistent memory of this machine, and how to add what is missing."""

import dataclasses
import json
import os
import pathlib
import resource
import shutil
import subprocess

import ddio
from runner import pmem, transport
from runner.command_line import SHORTAGES, Parser

TIMEOUT_S = 10
NO_LIMIT = "unlimited"
DEVICES = pathlib.Path("/dev/infiniband")
MODULES = pathlib.Path("/lib/modules") / os.uname().release
SOFTWARE_DEVICES = {"rdma_rxe": "SoftRoCE (rxe)", "siw": "SoftiWARP (siw)"}
ENOUGH_MEMLOCK = 64 << 20
NUMA_BALANCING = pathlib.Path("/proc/sys/kernel/numa_balancing")
ENOUGH_FILES = 1024


@dataclasses.dataclass(frozen=True)
class Finding:
    topic: str
    state: str  # ok, fail (`fix` corrects it) or none (not available, without a fix)
    text: str
    fix: str | None = None


def query_devices(*command: str | pathlib.Path) -> tuple[list[dict], str | None]:
    """Returns the devices that a program can open, or the error. `command` starts device-facts."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        return (json.loads(answer.stdout), None) if answer.returncode == 0 else ([], answer.stderr.strip())
    except OSError as error:
        return [], f"{error.filename or command[0]}: {error.strerror}"
    except (subprocess.TimeoutExpired, ValueError) as error:
        return [], f"device-facts: invalid output or timeout: {error}"


def fix_of(reason: str | None, remedy: str) -> str:
    """Returns the remedy, unless the reason is a lack of descriptors or memory."""
    if reason and any(os.strerror(shortage) in reason for shortage in SHORTAGES):
        return "raise the limits: `ulimit -n 1024`, `ulimit -v unlimited`"
    return remedy


def port_text(port: dict) -> str:
    state = "active" if port["active"] else "down"
    return f"port {port['number']} {state}, {port['link']}, GIDs {', '.join(port['gids']) or 'none'}"


def device_text(device: dict) -> str:
    if "error" in device:
        return f"{device['name']}: {device['error']}"
    return f"{device['name']}: " + "; ".join(map(port_text, device["ports"]))


def is_active(device: dict) -> bool:
    return any(port["active"] and port["gids"] for port in device.get("ports", []))


def capabilities(device: dict) -> list[Finding]:
    """Returns the optional capabilities of a device, with the library's alternative to each missing one."""
    substitutes = {
        "odp": ("on-demand paging", "RDMA hardware without it registers device DAX, but no files on a DAX file system"),
        "flush_persistent": ("native flush", "librpma flushes by reading after writing"),
        "atomic_write": ("native atomic write", "librpma writes 8 bytes inline"),
    }
    return [
        Finding(f"{device['name']}, {name}", "ok" if device[key] else "none",
                "supported" if device[key] else f"not supported: {instead}")
        for key, (name, instead) in substitutes.items() if key in device]


def group_of(path: str) -> str:
    """Returns the group that gets access to a device: its own group, or for root the group that udev rules commonly use."""
    try:
        owner = pathlib.Path(path).group()
    except (KeyError, OSError):
        return "rdma"
    return "rdma" if owner == "root" else owner


def kernel_devices(device_facts: pathlib.Path) -> tuple[list[Finding], bool]:
    names = [path.name for path in sorted(transport.SYSFS.glob("*"))]
    if not names:
        return [Finding("RDMA devices", "fail", "not found in the kernel",
                        "run programs on softrdma, which needs none: `softrdma run -- PROGRAM`; or load SoftRoCE: "
                        "`modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0`")], False

    devices, reason = query_devices(device_facts)
    findings = [Finding("RDMA device", "ok", device_text(device)) if is_active(device) else
                Finding("RDMA device", "fail", device_text(device), "give its network interface an address and set it "
                        "up: `ip link set eth0 up && ip addr add 192.168.0.1/24 dev eth0`") for device in devices]
    missing = sorted(set(names) - {device["name"] for device in devices})
    if missing:
        findings.append(Finding(
            "RDMA devices", "fail", f"not visible to libibverbs: {', '.join(missing)}{f': {reason}' if reason else ''}",
            fix_of(reason, "load ib_uverbs and rdma_ucm (`modprobe -a ib_uverbs rdma_ucm`) and install the packages "
                           "ibverbs-providers and rdma-core")))
    closed = [str(path) for path in DEVICES.glob("*")
              if path.name.startswith(("uverbs", "rdma_cm")) and not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        findings.append(Finding("RDMA devices", "fail", f"no permission for {', '.join(closed)}",
                                f"join their group: `adduser $USER {group_of(closed[0])}`, and log in again; or grant a group access "
                                "in a udev rule: `SUBSYSTEM==\"infiniband*\", GROUP=\"rdma\", MODE=\"0660\"` in "
                                "/etc/udev/rules.d/90-rdma.rules, which lasts as chmod does not"))
    findings += [finding for device in devices for finding in capabilities(device)]
    connectable = {name for name, address in transport.active_hardware() if address}
    return findings, any(is_active(device) and device["name"] in connectable for device in devices)


def softrdma(device_facts: pathlib.Path, beside: pathlib.Path) -> tuple[list[Finding], bool]:
    launcher = str(beside) if beside.is_file() else shutil.which("softrdma")
    remedy = "install the package softrdma, or build and install this project"
    if not launcher:
        return [Finding("softrdma", "fail", f"not found in {beside.parent} and PATH", remedy)], False
    devices, reason = query_devices(launcher, "run", "--", device_facts)
    usable = [device for device in devices if is_active(device)]
    if not usable:
        return [Finding("softrdma", "fail", reason or "device without an active port", fix_of(reason, remedy))], False
    findings = [Finding("softrdma", "ok", device_text(device)) for device in usable]
    return findings + [finding for device in usable for finding in capabilities(device)], True


def software_devices() -> list[Finding]:
    findings = []
    builtin = MODULES / "modules.builtin"
    builtin_text = builtin.read_text(encoding="ascii") if builtin.exists() else ""
    for module, name in SOFTWARE_DEVICES.items():
        kind = "rxe" if module == "rdma_rxe" else "siw"
        link = f"`rdma link add {kind}0 type {kind} netdev eth0`"
        if (pathlib.Path("/sys/module") / module).exists() or f"/{module}.ko" in builtin_text:
            findings.append(Finding(name, "ok", f"in the kernel; a device is made with {link}"))
        elif next(MODULES.glob(f"kernel/drivers/infiniband/sw/*/{module}.ko*"), None):
            findings.append(Finding(name, "fail", "module installed, not loaded", f"`modprobe {module}`, then {link}"))
        else:
            findings.append(Finding(name, "fail", f"module {module} not found for this kernel ({os.uname().release})",
                                    "use softrdma, or a kernel that has it: Debian linux-image-amd64, Ubuntu "
                                    "linux-modules-extra-$(uname -r)"))
    return findings


def limit_text(value: int, unit: int = 1, name: str = "") -> str:
    return NO_LIMIT if value == resource.RLIM_INFINITY else f"{value // unit}{name}"


def limits(has_hardware: bool) -> list[Finding]:
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    text = limit_text(locked, 1024, " KiB")
    if locked == resource.RLIM_INFINITY or locked >= ENOUGH_MEMLOCK:
        memlock = Finding("memlock limit", "ok", text)
    elif not has_hardware:
        memlock = Finding("memlock limit", "none", f"{text}: enough for softrdma, which locks nothing")
    else:
        memlock = Finding("memlock limit", "fail", f"{text}: RDMA hardware locks all memory that is registered",
                          "`ulimit -l unlimited`; permanently: `* - memlock unlimited` in /etc/security/limits.conf")
    files, max_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY or files >= ENOUGH_FILES:
        return [memlock, Finding("open files limit", "ok", limit_text(files))]
    return [memlock, Finding("open files limit", "fail", f"{files}: each connection takes several descriptors",
                             f"`ulimit -n {min(ENOUGH_FILES, max_files) if max_files > files else ENOUGH_FILES}`")]


def persistent_memory() -> list[Finding]:
    findings = []
    for mount in pmem.dax_mounts():
        works = pmem.has_map_sync(mount.path)
        if works is None:
            findings.append(Finding("persistent memory", "fail", f"{mount.path}: {mount.kind} with DAX, not writable",
                                    f"`chown $USER {mount.path}`"))
        elif works:
            findings.append(Finding("persistent memory", "ok", f"{mount.path}: {mount.kind} with DAX, MAP_SYNC works"))
        else:
            findings.append(Finding("persistent memory", "fail", f"{mount.path}: {mount.kind} with DAX, MAP_SYNC does "
                                    "not work", "put ext4 or xfs on a namespace of mode fsdax: `ndctl list`"))
    for device in sorted(pathlib.Path("/dev").glob("dax*")):
        usable = os.access(device, os.R_OK | os.W_OK)
        findings.append(Finding("persistent memory", "ok" if usable else "fail", f"{device}: device DAX",
                                None if usable else f"`chown $USER {device}`"))
    for device in sorted(pathlib.Path("/dev").glob("pmem*")):
        if not any(mount.source == str(device) for mount in pmem.mounts()):
            findings.append(Finding("persistent memory", "fail", f"{device}: not mounted",
                                    f"`mkfs.ext4 {device} && mount -o dax {device} /mnt/pmem` (erases {device})"))
    return findings or [Finding(
        "persistent memory", "fail", "neither a DAX file system nor device DAX",
        "use ordinary files, durable through msync; or emulate it in DRAM: boot with memmap=1G!4G, then "
        "`mkfs.ext4 /dev/pmem0 && mount -o dax /dev/pmem0 /mnt/pmem`")]


def cache_injection() -> list[Finding]:
    """Reports DDIO, which direct write to persistent memory needs off."""
    names = ddio.rdma_devices()
    if not names:
        return [Finding("DDIO", "none", "no RDMA device on PCI: not relevant")]
    findings = []
    for name in names:
        state, reason = ddio.finding(name)
        if reason:
            findings.append(Finding("DDIO", "none", f"{name}: unknown: {reason}"))
        elif state == "on":
            findings.append(Finding("DDIO", "fail", f"{name}: on: writes of peers go to the cache of the processor, and direct write "
                                    "to persistent memory is not possible", "`rpma-ddio off`, until the next reboot, or the BIOS"))
        else:
            findings.append(Finding("DDIO", "ok", f"{name}: off: direct write to persistent memory is possible"))
    return findings


def read_fact(path: pathlib.Path) -> str | None:
    """Returns the text of a file of sysfs or procfs, or None if it does not exist or has no value."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def tuning() -> list[Finding]:
    """Reports settings that slow down RDMA hardware; docs/tuning.md explains them."""
    findings = []
    for name in ddio.rdma_devices():
        device = ddio.SYSFS / "class/infiniband" / name / "device"
        link = {fact: read_fact(device / fact) for fact in (f"{kind}_link_{what}" for kind in ("current", "max") for what in ("width", "speed"))}
        current, maximum = (f"x{link[f'{kind}_link_width']}, {link[f'{kind}_link_speed']}" for kind in ("current", "max"))
        if None not in link.values():
            findings.append(Finding("PCIe link", "ok", f"{name}: {current}") if current == maximum else
                            Finding("PCIe link", "fail", f"{name}: {current} of {maximum}", "put the card into a slot with the full width"))
        findings.append(Finding("NUMA node", "ok", f"{name}: {read_fact(device / 'numa_node') or 'unknown'}"))
    if not findings:
        return []
    governors = {fact for path in (ddio.SYSFS / "devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor") if (fact := read_fact(path))}
    if governors:
        findings.append(Finding("CPU governor", "ok", "performance") if governors == {"performance"} else
                        Finding("CPU governor", "fail", ", ".join(sorted(governors)), "`cpupower frequency-set -g performance`"))
    if read_fact(NUMA_BALANCING) == "1":
        findings.append(Finding("NUMA balancing", "fail", "on: it samples memory by page faults", "`sysctl kernel.numa_balancing=0`"))
    return findings


def print_text(findings: list[Finding], verdict: str) -> None:
    width = max(len(finding.topic) for finding in findings)
    for finding in findings:
        print(f"{finding.state:<5} {finding.topic:<{width}}  {finding.text}")
        if finding.fix:
            print(f"      {'':<{width}}  fix: {finding.fix}")
    print(f"\n{verdict}")


def examine(device_facts: pathlib.Path, launcher: pathlib.Path, form: str) -> int:
    of_kernel, has_hardware = kernel_devices(device_facts)
    of_softrdma, has_softrdma = softrdma(device_facts, launcher)
    findings = [*of_kernel, *of_softrdma, *software_devices(), *limits(has_hardware), *persistent_memory(),
                *cache_injection(), *tuning()]
    names = [name for name, usable in (("RDMA hardware", has_hardware), ("softrdma", has_softrdma)) if usable]
    verdict = f"ready: programs run over {' and '.join(names)}" if names else \
        "not ready: neither RDMA hardware nor softrdma is usable; see the fixes above"
    if form == "json":
        print(json.dumps({"ready": bool(names), "transports": names,
                          "findings": [dataclasses.asdict(finding) for finding in findings]}, indent=2))
    else:
        print_text(findings, verdict)
    return 0 if names else 1


def main(device_facts: pathlib.Path, launcher: pathlib.Path, version: str) -> int:
    parser = Parser(
        prog="rpma-doctor", description=__doc__,
        epilog="Exit status: 0 programs can use RDMA here, 1 they cannot, 2 wrong command line.")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="format of the report (default: text)")
    parser.add_argument("--version", action="version", version=f"rpma-doctor {version}")
    return examine(device_facts, launcher, parser.parse_args().format)
