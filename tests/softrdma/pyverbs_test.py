#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: pyverbs_test.py SOFTRDMA MANUAL-PAGE
Runs the tests that rdma-core has for devices, which come with python3-pyverbs, on the device: none fails, and each that is
skipped misses a feature that the manual page names as missing."""

import gzip
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # which Debian's modules are built for
# Of other devices, whose libraries they call.
OTHERS = re.compile(r"test_(mlx5|efa|cuda)")
# What a test says when it is skipped, and the words of the manual page for it; None: it is the machine that lacks
# something.
MISSING = [
    (r"ODP is not supported", "on-demand paging"),
    (r"Device memory is not supported", "device memory"),
    (r"Allocating dmabuf is not supported", None),
    (r"huge pages", None),
    (r"doesn't have net interface", "network interfaces in sysfs"),
    (r"XRCD is not supported|Create QP type [89] is not supported", "XRC"),
    (r"Create (MW|memory window)", "memory windows"),
    (r"Extended QP is not supported", "memory windows"),
    (r"Parent Domain is not supported", "parent domains"),
    (r"Rereg MR is not supported", "changing a region"),
    (r"Extended CQ is not supported", "extended completion queues"),
    (r"Create UC QP", "unreliable-connection"),
    (r"Create Raw Packet QP", "raw packets"),
    (r"Create (RC|UD) QP with(out)? extended attrs is not supported", "creation flags"),
    (r"Importing a device is not supported", "importing"),
    (r"All gid indices populated", None),
]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def copy_suite(to):
    shutil.copytree(SUITE, to)
    for path in list(to.iterdir()):
        if OTHERS.match(path.name):
            path.unlink()
        elif path.suffix == ".gz":
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()


def missing_feature(reason, manual):
    """An error message, or None."""
    for pattern, words in MISSING:
        if re.search(pattern, reason):
            return None if words is None or words.lower() in manual else f"the manual page does not name '{words}'"
    return f"skipped for a reason that is not known: {reason}"


def main():
    softrdma, page = sys.argv[1], pathlib.Path(sys.argv[2])
    if not SUITE.is_dir() or subprocess.run([PYTHON, "-c", "import pyverbs"], stderr=subprocess.DEVNULL).returncode:
        skip("python3-pyverbs is not installed")
    manual = re.sub(r"\s+", " ", page.read_text(encoding="utf-8").partition("# NOT MODELLED")[2].partition("\n# ")[0])
    with tempfile.TemporaryDirectory() as work:
        suite = pathlib.Path(work) / "tests"
        copy_suite(suite)
        done = subprocess.run([softrdma, "run", "--", PYTHON, str(suite / "run_tests.py"), "--dev", "softrdma0", "-v"],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    reasons = re.findall(r"skipped ['\"](.*)['\"]", done.stdout)
    passed = len(re.findall(r"\.\.\. ok$", done.stdout, re.MULTILINE))
    faults = sorted({fault for reason in reasons if (fault := missing_feature(reason, manual.lower()))})
    print(f"{passed} passed, {len(reasons)} skipped")
    if done.returncode != 0 or passed == 0:
        print(done.stdout[-8000:])
        faults.append(f"the suite ended with {done.returncode}")
    print(*faults, sep="\n")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
