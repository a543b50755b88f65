#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rpma.hpp compiles alone, twice and without warnings, with each installed compiler and standard, with and without exceptions.

usage: header.py INCLUDE   (the directory of rpma.hpp)"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = "#include <rpma.hpp>\n#include <rpma.hpp>\ntemplate class rpma::result<rpma::connection>;\n"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wold-style-cast", "-Werror"]
STANDARDS = ["c++20", "c++2b"]  # c++2b: name of c++23 before its publication
FLAVOURS = [[], ["-fno-exceptions", "-fno-rtti"]]


def main():
    compilers = [compiler for compiler in ("g++", "clang++") if shutil.which(compiler)]
    if not compilers:
        print("skipped: g++ and clang++ are not installed")
        return 77
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch, "header.cpp")
        source.write_text(SOURCE)
        for command in ([compiler, f"-std={standard}", *flavour] for compiler in compilers for standard in STANDARDS
                        for flavour in FLAVOURS):
            result = subprocess.run([*command, *WARNINGS, f"-I{sys.argv[1]}", "-fsyntax-only", source],
                                    stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
            print(" ".join(command), "" if result.returncode == 0 else f"\n{result.stderr}")
            failed |= result.returncode != 0
        for compiler in compilers:
            result = subprocess.run([compiler, "-std=c++17", f"-I{sys.argv[1]}", "-fsyntax-only", "-include", "rpma.hpp", "-xc++",
                                     "/dev/null"],
                                    stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
            if result.returncode == 0 or result.stderr.count("error: ") != 1 or "rpma.hpp needs C++20" not in result.stderr:
                print(f"{compiler} -std=c++17 does not report the standard that is needed:\n{result.stderr}")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
