#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails unless the cases use every function and every error code of the public header, and a test passes NULL for every
pointer parameter that must not be NULL.

usage: coverage_test.py HEADER"""

import pathlib
import re
import sys

# A program cannot cause these errors: they need exhausted memory, a misbehaving provider, or a build without atomic
# operations.
OUT_OF_REACH = {"RPMA_E_NOMEM", "RPMA_E_UNKNOWN", "RPMA_E_AGAIN"}

# NULL is a valid value of these parameters, and of each op_context. Without conn_ptr, the request is consumed:
# conn_req.without_an_output_an_outgoing_request_is_consumed.
MAY_BE_NULL = {("rpma_srq_new", "cfg"), ("rpma_conn_req_new", "cfg"), ("rpma_ep_next_conn_req", "cfg"),
               ("rpma_conn_req_connect", "pdata"), ("rpma_conn_req_connect", "conn_ptr"), ("rpma_conn_wait", "is_rcq"),
               ("rpma_log_set_function", "log_function")}


def pointers_of(header):
    """Returns the function and the name of each parameter that must not be NULL."""
    for function, parameters in re.findall(r"^(?:int|unsigned|const char \*)\s*(rpma_\w+)\(([^)]*)\)", header, re.MULTILINE):
        for parameter in parameters.split(","):
            name = re.search(r"(\w+)\s*(\[.*)?$", parameter)[1]
            if re.search(r"[*[]|rpma_log_function", parameter) and name != "op_context":
                yield function, name


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
    paths = ("cases/null_arguments.def", "../unit/arguments_test.c")
    lists = "".join((root / path).read_text(encoding="utf-8") for path in paths)
    tested = set(re.findall(r"(?:NULL_ARGUMENTS?|REFUSED)\((rpma_\w+), (\w+),", lists))
    tested |= set(re.findall(r"NULL_ARGUMENTS\((rpma_\w+), \w+, (\w+)\)", lists))
    pointers = set(pointers_of(header))
    missing = sorted(functions - called) + sorted(errors - expected)
    missing += [f"NULL for {name} of {function}" for function, name in sorted(pointers ^ (tested | MAY_BE_NULL))]
    if not functions or missing:
        sys.exit(f"not judged: {', '.join(missing) or 'no function found'}")
    print(f"{len(functions)} functions and {len(errors)} error codes are covered")


if __name__ == "__main__":
    main()
