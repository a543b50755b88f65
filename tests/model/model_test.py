#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Explores mirror.pml exhaustively, and each mutant of it until spin finds the fault.

Usage: model_test.py MODEL. Needs spin and gcc; skipped without them."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048"]
CORRECT = {"FLUSHES": 2, "OPENS": 1, "FAULTS": 3}
MUTANT = {"FLUSHES": 2, "OPENS": 1, "FAULTS": 2}


def explore(model, limits, mutant=None):
    """Returns the report of the verifier."""
    macros = [f"-D{name}={value}" for name, value in limits.items()] + ([f"-D{mutant}"] if mutant else [])
    with tempfile.TemporaryDirectory() as directory:
        def run(*words):
            return subprocess.run(words, cwd=directory, check=True, text=True, capture_output=True, timeout=300).stdout
        run("spin", *macros, "-a", model)
        run("gcc", *FLAGS, "-o", "pan", "pan.c")
        return run("./pan", "-m200000")


def is_correct(report):
    return "errors: 0" in report and "max search depth too small" not in report and "Search not completed" not in report


def main():
    model = os.path.abspath(sys.argv[1])
    missing = [program for program in ("spin", "gcc") if shutil.which(program) is None]
    if missing:
        print(f"skipped: {' and '.join(missing)} not installed: utils/install-dependencies --tests")
        return 77
    with open(model, encoding="utf-8") as source:
        mutants = sorted(set(re.findall(r"\bMUTANT_\w+", source.read())))
    assert len(mutants) >= 12, mutants
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        correct = pool.submit(explore, model, CORRECT)
        reports = {name: pool.submit(explore, model, MUTANT, name) for name in mutants}
        for name, report in reports.items():
            found = re.search(r"assertion violated (.*?) \(at depth", report.result())
            print(f"{name}: {'caught by ' + found[1].strip() if found else 'NOT CAUGHT'}")
            failed += found is None
        states = re.search(r"(\d+) states, stored", correct.result())
        good = is_correct(correct.result())
        print(f"the protocol: {states[1] if states else 'no'} states, {'correct' if good else 'WRONG'}")
        if not good:
            print(correct.result())
    return 1 if failed or not good else 0


if __name__ == "__main__":
    sys.exit(main())
