#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the hot path calls only the device, and that none of its functions contains a lock or a system call.

Callgrind shows which functions of librpma.so.0 the hot calls run, and their calls into other objects. The disassembly of
these functions must not contain instructions that lock the bus or enter the kernel. Each check must first find such
instructions in code that is known to contain them."""

import re
import shutil
import subprocess
import sys

import profile

CONTROL_FUNCTION = "control_locks_and_calls"

# x86-64: lock prefix, xchg with memory, kernel entry. AArch64: exclusive and LSE atomics, their helpers, kernel entry.
FORBIDDEN = re.compile(
    r"\block\b|\bxchg\s.*\(|\b(?:syscall|sysenter)\b|\bint\s+\$0x80|"
    r"\b(?:ldxr|stxr|ldaxr|stlxr|cas|casa|casal|casl|swp|swpa|swpal|swpl|ldadd|ldadda|ldaddal|ldaddl)[bh]?\s|"
    r"__aarch64_|\bsvc\s")


def disassemble(path):
    """Returns the instructions of each function of the object, by symbol."""
    output = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(path)],
                            capture_output=True, text=True, timeout=60, check=True).stdout
    functions, body = {}, []
    for line in output.splitlines():
        symbol = re.match(r"[0-9a-f]+ <(.+)>:$", line)
        if symbol:
            body = functions.setdefault(symbol[1], [])
        elif line.startswith(" "):
            body.append(line.partition(":")[2].strip())
    return functions


def forbidden_instructions(functions, names):
    return [f"{name}: {instruction}" for name in sorted(names)
            for instruction in functions[name] if FORBIDDEN.search(instruction)]


def foreign_calls(phase, provider):
    return {f"{name} in {target}" for target, name in phase.calls if target != provider}


def main():
    options = profile.arguments(__doc__).parse_args()
    if shutil.which("objdump") is None:
        profile.skip("objdump is not installed")
    provider = options.provider.name
    phases = [phase for native in (False, True) for phase in profile.run(options, options.library_dir, native)]
    hot = [phase for phase in phases if phase.name != profile.CONTROL]
    control = [phase for phase in phases if phase.name == profile.CONTROL]

    if not control or not all(foreign_calls(phase, provider) for phase in control):
        profile.fail("the profile does not show the allocation of the control call")
    program = disassemble(options.hot_calls)
    if len(forbidden_instructions(program, [CONTROL_FUNCTION])) < 2:
        profile.fail(f"the lock and the system call in {CONTROL_FUNCTION} were not found")

    faults = []
    for phase in hot:
        if not any(target == provider for target, _ in phase.calls):
            faults.append(f"{phase.name} ({phase.path}) never reached the device")
        faults += [f"{phase.name} ({phase.path}) calls {call}" for call in sorted(foreign_calls(phase, provider))]
    library = disassemble(options.library_dir / profile.LIBRARY)
    ran = set().union(*(phase.functions for phase in hot))
    unknown = ran - library.keys()
    faults += [f"{name} ran but is not in the disassembly (is the library stripped?)" for name in sorted(unknown)]
    faults += [f"contains {instruction}" for instruction in forbidden_instructions(library, ran - unknown)]

    for fault in faults:
        print(f"failed: {fault}")
    if not faults:
        print(f"{len({(phase.name, phase.path) for phase in hot})} calls, {len(ran)} functions: "
              "only the device is called, no lock, no system call")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
