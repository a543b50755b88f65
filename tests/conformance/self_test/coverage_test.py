#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails unless the cases use every function and every error code of the public header.

usage: coverage_test.py HEADER"""

import pathlib
import re
import sys

# A program cannot cause these errors: they need exhausted memory, a misbehaving provider, or a build without atomic
# operations.
OUT_OF_REACH = {"RPMA_E_NOMEM", "RPMA_E_UNKNOWN", "RPMA_E_AGAIN"}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    header = re.sub(r"/\*.*?\*/", "", pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), flags=re.DOTALL)
    root = pathlib.Path(__file__).resolve().parent.parent
    functions = set(re.findall(r"^(?:int|const char \*)\s*(rpma_\w+)\(", header, flags=re.MULTILINE))
    files = [*root.glob("cases/*.c"), *root.glob("support/*.c")]
    cases = "\n".join(path.read_text(encoding="utf-8") for path in files)
    called = set(re.findall(r"\brpma_\w+", cases))
    # Expands rpma_conn_cfg_get_##field with the fields of the tables.
    called |= {prefix + field for prefix in re.findall(r"\b(rpma_\w+_)##", cases)
               for field in re.findall(r"\w+", cases)}
    errors = set(re.findall(r"#define (RPMA_E_\w+)", header)) - OUT_OF_REACH
    expected = set(re.findall(r", (RPMA_E_\w+)\)", cases)) | (
        {"RPMA_E_PROVIDER"} if "assert_provider" in cases else set())
    missing = sorted(functions - called) + sorted(errors - expected)
    if not functions or missing:
        sys.exit(f"not judged: {', '.join(missing) or 'no function found'}")
    print(f"{len(functions)} functions and {len(errors)} error codes are covered")


if __name__ == "__main__":
    main()
