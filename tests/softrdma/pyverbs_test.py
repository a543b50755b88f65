#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: pyverbs_test.py SOFTRDMA MANUAL-PAGE
Runs rdma-core's tests of devices, from python3-pyverbs, on the device. No test may fail, and each skipped test must need a
feature that the manual page lists as missing."""

import gzip
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from support import skip

SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # the interpreter that Debian builds the modules for
# Tests of other devices. They call the libraries of those devices.
OTHERS = re.compile(r"test_(mlx5|efa|cuda)")
# Expressions for the reasons of skipped tests, and the missing feature as named in the manual page, or None if the
# machine lacks a prerequisite.
MISSING = [
    (r"ODP is not supported", "on-demand paging"),
    (r"Device memory is not supported", "device memory"),
    (r"Allocating dmabuf is not supported", None),
    (r"huge pages", None),
    (r"Multicast is not supported", "multicast"),
    (r"XRCD is not supported|Create QP type 9 is not supported", "XRC"),
    (r"Create QP type 8 is not supported|Create Raw Packet QP", "raw packets"),
    (r"Extended CQ is not supported", "tag matching"),  # reason reported by the tests of tag matching
    (r"Create UC QP", "unreliable connections"),
    (r"Importing a device is not supported", "importing objects"),
    (r"All gid indices populated", None),
]


def copy_suite(to):
    shutil.copytree(SUITE, to)
    for path in list(to.iterdir()):
        if OTHERS.match(path.name):
            path.unlink()
        elif path.suffix == ".gz":
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()


def listed_features(page):
    """Returns the features that the manual page lists as missing: the terms of its LIMITATIONS."""
    section = page.read_text(encoding="utf-8").partition("# LIMITATIONS")[2].partition("\n# ")[0]
    return {term.lower() for term in re.findall(r"^([^\s:].*)\n:   ", section, re.MULTILINE)}


def missing_feature(reason):
    """Returns the feature that a skipped test needs, or None. Raises ValueError for an unknown reason."""
    for pattern, feature in MISSING:
        if re.search(pattern, reason):
            return feature
    raise ValueError(f"unknown reason of a skipped test: {reason}")


def compare(reasons, listed):
    """Returns an error message for each difference between the features that tests miss and those that the page lists."""
    missed = set()
    faults = []
    for reason in set(reasons):
        try:
            missed.add(missing_feature(reason))
        except ValueError as unknown:
            faults.append(str(unknown))
    missed = {feature.lower() for feature in missed if feature is not None}
    faults += [f"the manual page does not list '{feature}', which tests need" for feature in sorted(missed - listed)]
    faults += [f"the manual page lists '{feature}', which no test needs" for feature in sorted(listed - missed)]
    return faults


def main():
    softrdma, page = sys.argv[1], pathlib.Path(sys.argv[2])
    if not SUITE.is_dir() or subprocess.run([PYTHON, "-c", "import pyverbs"], stderr=subprocess.DEVNULL).returncode:
        skip("python3-pyverbs is not installed")
    with tempfile.TemporaryDirectory() as work:
        suite = pathlib.Path(work) / "tests"
        copy_suite(suite)
        done = subprocess.run([softrdma, "run", "--", PYTHON, str(suite / "run_tests.py"), "--dev", "softrdma0", "-v"],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    reasons = re.findall(r"skipped ['\"](.*)['\"]", done.stdout)
    passed = len(re.findall(r"\.\.\. ok$", done.stdout, re.MULTILINE))
    faults = compare(reasons, listed_features(page))
    print(f"{passed} passed, {len(reasons)} skipped")
    if done.returncode != 0 or passed == 0:
        print(done.stdout[-8000:])
        faults.append(f"the suite ended with {done.returncode}")
    print(*faults, sep="\n")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
