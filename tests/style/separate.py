#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails if a source of src/ has a compiler warning in a build with RPMA_UNITY=OFF, where another source of its group does not
include headers before it.

Usage: separate.py SOURCE-DIRECTORY BUILD-DIRECTORY [PART-OF-A-PATH...]"""

import json
import os
import pathlib
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DRPMA_UNITY=OFF", "-DRPMA_WERROR=ON", "-DRPMA_BUILD_TESTS=OFF",
             "-DRPMA_BUILD_EXAMPLES=OFF", "-DRPMA_BUILD_MAN=OFF", "-DRPMA_BUILD_PYTHON=OFF", "-DCMAKE_C_COMPILER_LAUNCHER=",
             "-DCMAKE_CXX_COMPILER_LAUNCHER="]


def findings(command: dict[str, str]) -> str:
    """Returns the messages of the compiler, which only analyzes the source."""
    arguments = shlex.split(command["command"])
    output = arguments.index("-o")
    arguments[output:output + 2] = ["-fsyntax-only"]
    result = subprocess.run(arguments, cwd=command["directory"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            errors="replace", check=False)
    return result.stderr or (f"{command['file']}: the compiler failed\n" if result.returncode else "")


def main(root: pathlib.Path, build: pathlib.Path, parts: list[str]) -> int:
    for arguments in (["-S", root, "-B", build, *CONFIGURE], ["--build", build, "--target", "rpma_generated_sources"]):
        subprocess.run(["cmake", *arguments], stdout=subprocess.DEVNULL, check=True)
    commands = [command for command in json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
                if command["file"].startswith(f"{root}/src/") and (not parts or any(part in command["file"] for part in parts))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [text for text in pool.map(findings, commands) if text]
    print(*found, f"{len(commands)} sources, {len(found)} with findings", sep="\n")
    return 1 if found or not commands else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]))
