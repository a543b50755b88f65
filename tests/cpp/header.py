#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rpma.hpp compiles alone, twice and without warnings, with each installed compiler and standard, with and without exceptions.

usage: header.py INCLUDE   (the directory of rpma.hpp)"""

import itertools
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "abi"))
from suite import command, fail, skip  # noqa: E402

SOURCE = "#include <rpma.hpp>\n#include <rpma.hpp>\ntemplate class rpma::result<rpma::connection>;\n"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wold-style-cast", "-Werror"]
STANDARDS = ["c++20", "c++2b"]  # c++2b: name of c++23 before its publication
FLAVOURS = [[], ["-fno-exceptions", "-fno-rtti"]]


def main():
    include = f"-I{sys.argv[1]}"
    compilers = [compiler for compiler in ("g++", "clang++") if shutil.which(compiler)]
    if not compilers:
        skip("g++ and clang++ are not installed")
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch, "header.cpp")
        source.write_text(SOURCE)
        for compiler, standard, flavour in itertools.product(compilers, STANDARDS, FLAVOURS):
            command(compiler, f"-std={standard}", *flavour, *WARNINGS, include, "-fsyntax-only", source, timeout=300)
            print(compiler, standard, *flavour)
    for compiler in compilers:
        old = [compiler, "-std=c++17", include, "-fsyntax-only", "-include", "rpma.hpp", "-xc++", "/dev/null"]
        result = subprocess.run(old, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
        if result.returncode == 0 or result.stderr.count("error: ") != 1 or "rpma.hpp needs C++20" not in result.stderr:
            fail(f"{compiler} -std=c++17 does not report the standard that is needed:\n{result.stderr}")


if __name__ == "__main__":
    main()
