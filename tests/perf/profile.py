# SPDX-License-Identifier: BSD-3-Clause
"""Runs hot_calls under callgrind and reads the events inside librpma.so.0 in each of its phases."""

import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from common import fail, skip  # noqa: E402,F401

LIBRARY = "librpma.so.0"
CONTROL = "control"

# instructions: executed inside the library. functions: executed functions of the library. calls: pairs (object,
# function) of calls to other objects.
Phase = collections.namedtuple("Phase", "name path count instructions functions calls")


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--library-dir", required=True, type=pathlib.Path, help="directory of our librpma.so.0")
    parser.add_argument("--hot-calls", required=True, type=pathlib.Path, help="the program that makes the calls")
    parser.add_argument("--provider", required=True, type=pathlib.Path, help="the null provider to preload")
    return parser


def parse(text):
    """Returns the self cost of the library, its executed functions and its calls to other objects, from a callgrind dump."""
    names = {"ob": {}, "fn": {}}

    def resolve(kind, value):
        number, name = re.fullmatch(r"\((\d+)\)(?: (.*))?", value).groups()
        if name is not None:
            names[kind][number] = name
        return names[kind][number]

    instructions, functions, calls = 0, set(), set()
    current = {"ob": "", "fn": ""}
    callee = {}
    inclusive = False
    for line in text.splitlines():
        assignment = re.match(r"(c?)(ob|fn)=(.*)", line)
        inside = pathlib.PurePath(current["ob"]).name == LIBRARY
        if assignment:
            target = callee if assignment[1] else current
            target[assignment[2]] = resolve(assignment[2], assignment[3])
        elif line.startswith("calls="):
            called_object = callee.get("ob", current["ob"])
            if inside and called_object != current["ob"]:
                calls.add((pathlib.PurePath(called_object).name, callee["fn"]))
            callee = {}
            inclusive = True
        elif re.match(r"[0-9+*-]", line):
            if inside and not inclusive:
                instructions += int(line.split()[1])
                functions.add(re.sub(r"'\d+$", "", current["fn"]))
            inclusive = False
    return instructions, functions, calls


def run(options, library_dir, native):
    """Runs hot_calls once with the librpma.so.0 in `library_dir`."""
    if shutil.which("valgrind") is None:
        skip("valgrind is not installed")
    environment = dict(os.environ, LD_LIBRARY_PATH=str(library_dir.resolve()), NULL_PROVIDER_NATIVE="1" if native else "0")
    environment.pop("RPMA_FLUSH_METHOD", None)
    with tempfile.TemporaryDirectory() as scratch:
        provider = pathlib.Path(scratch, "provider.so")  # LD_PRELOAD cannot contain a path with a blank
        provider.symlink_to(options.provider.resolve())
        environment["LD_PRELOAD"] = str(provider)
        dump = pathlib.Path(scratch, "callgrind")
        result = subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", "--demangle=no", "--skip-plt=yes",
             "--toggle-collect=measured_phase", "--dump-after=measured_phase", f"--callgrind-out-file={dump}",
             str(options.hot_calls.resolve())],
            env=environment, capture_output=True, text=True, timeout=100, check=False)
        if "debuginfo reader" in result.stderr:
            skip("this valgrind cannot read the debug information of this compiler")
        if result.returncode != 0:
            fail(f"{options.hot_calls.name} with {library_dir} ended with {result.returncode}: {result.stderr.strip()}")
        return [Phase(name, path, int(count), *parse(pathlib.Path(f"{dump}.{part}").read_text()))
                for part, (name, path, count) in enumerate((line.split() for line in result.stdout.splitlines()), 1)]
