#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares instructions executed inside librpma.so.0 per successful call with those of the original and with the baseline."""

import json
import pathlib
import platform
import sys

import profile

# Counts of the original 1.3.0 with native flush and native atomic write, gcc 12.2 -O3, x86-64.
REFERENCE = {
    "read": 81, "write": 86, "write_with_imm": 92, "send": 73, "recv": 35, "get_wc": 31,
    "flush emulated": 132, "flush native": 116, "atomic_write emulated": 82, "atomic_write native": 57,
}
REFERENCE_COMPILER, REFERENCE_MACHINE = "GNU", "x86_64"
LIMIT = 0.65
TOLERANCE = 0.03


def count(options, library_dir):
    """Returns the instructions per call of each row. Calls with only one path are counted in both runs of the program."""
    counts = {}
    for native in (False, True):
        phases = iter(profile.run(options, library_dir, native))
        for first, second in zip(phases, phases):
            if first.name == profile.CONTROL:
                continue
            row = first.name if first.path == "only" else f"{first.name} {first.path}"
            per_call = (second.instructions - first.instructions) / (second.count - first.count)
            if counts.setdefault(row, per_call) != per_call:
                profile.fail(f"{row}: {counts[row]:g} instructions on one run and {per_call:g} on the other")
    return counts


def print_table(counts, debian, baseline):
    def number(value):
        return "-" if value is None else f"{value:g}"

    def ratio(row, other):
        return "-" if not other.get(row) else f"{counts[row] / other[row]:.2f}"

    print(f"{'instructions per call':<24}{'build':>6}{'baseline':>10}{'Debian':>8}{'ratio':>7}"
          f"{'1.3.0':>7}{'ratio':>7}{'limit':>7}")
    for row in sorted(counts, key=lambda name: (list(REFERENCE) + [name]).index(name)):
        limit = f"{LIMIT:.2f}" if row in REFERENCE else "-"
        print(f"{row:<24}{number(counts[row]):>6}{number(baseline.get(row)):>10}{number(debian.get(row)):>8}"
              f"{ratio(row, debian):>7}{number(REFERENCE.get(row)):>7}{ratio(row, REFERENCE):>7}{limit:>7}")


def above_limit(counts, build, exceptions):
    if platform.machine() != REFERENCE_MACHINE or not build.startswith(REFERENCE_COMPILER):
        print(f"limit not applied: the 1.3.0 figures are for {REFERENCE_COMPILER} and {REFERENCE_MACHINE}")
        return []
    above = [row for row, reference in REFERENCE.items() if counts[row] > LIMIT * reference]
    for row in set(above) & exceptions.keys():
        print(f"{row}: above the limit, accepted: {exceptions[row]}")
    return [f"{row}: {counts[row]:g} is above {LIMIT:.2f} x {REFERENCE[row]}" for row in above if row not in exceptions]


def regressions(counts, baseline):
    faults = []
    for row, before in baseline.items():
        if row not in counts:
            faults.append(f"{row}: in the baseline but not measured")
        elif counts[row] > before * (1 + TOLERANCE):
            faults.append(f"{row}: {counts[row]:g} instructions, {before:g} in the baseline")
        elif counts[row] < before * (1 - TOLERANCE):
            print(f"{row}: improved from {before:g} to {counts[row]:g}, build the target perf_baseline to keep it")
    return faults


def main():
    parser = profile.arguments(__doc__)
    parser.add_argument("--baseline", required=True, type=pathlib.Path, help="our numbers, a JSON file")
    parser.add_argument("--build", required=True, help="compiler and build type, the key in the baseline")
    parser.add_argument("--debian", required=True, type=pathlib.Path, help="where Debian's librpma0 is unpacked")
    parser.add_argument("--update", action="store_true", help="write our numbers of this build into the baseline")
    options = parser.parse_args()

    stored = json.loads(options.baseline.read_text())
    key = f"{options.build} {platform.machine()}"
    baseline = stored["instructions"].get(key, {})
    counts = count(options, options.library_dir)
    missing = REFERENCE.keys() - counts.keys()
    if missing:
        profile.fail(f"not measured: {', '.join(sorted(missing))}")
    debian_libraries = list(options.debian.glob(f"usr/lib/*/{profile.LIBRARY}"))
    if not debian_libraries:
        print(f"Debian's librpma0 is not below {options.debian}: its column stays empty")
    debian = count(options, debian_libraries[0].parent) if debian_libraries else {}
    print_table(counts, debian, baseline)

    if options.update:
        stored["instructions"][key] = counts
        options.baseline.write_text(json.dumps(stored, indent=2, sort_keys=True) + "\n")
        print(f"updated: {key}")
        return 0
    if not baseline:
        print(f"no baseline for {key}, only the limit applies; the target perf_baseline adds one")
    faults = regressions(counts, baseline) + above_limit(counts, options.build, stored["exceptions"])
    for fault in faults:
        print(f"failed: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
