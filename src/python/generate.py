#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the C source of the Python extension, which contains all functions and constants of a librpma.h.

usage: generate.py LIBRPMA_H OUTPUT_C
"""

import pathlib
import re
import sys

import cffi

# Declarations of libibverbs that the interface of librpma uses. The compiler determines the offsets of the fields.
VERBS = """
struct ibv_context;
struct ibv_wc {
    uint64_t wr_id;
    int status;
    int opcode;
    uint32_t vendor_err;
    uint32_t byte_len;
    uint32_t imm_data;
    uint32_t qp_num;
    unsigned int wc_flags;
    ...;
};
const char *ibv_wc_status_str(int status);
#define IBV_WC_WITH_IMM ...
#define IBV_ADVISE_MR_ADVICE_PREFETCH ...
#define IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE ...
#define IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ...
#define IBV_ADVISE_MR_FLAG_FLUSH ...
"""
# A log function of C receives a format and its arguments, which Python cannot process. The message is formatted first.
LOG = """
extern "Python" void log_message(int, const char *, int, const char *, const char *);
int set_log_to_python(bool to_python);
"""
SOURCE = """
#include <stdarg.h>
#include <stdio.h>

#include <librpma.h>

static void log_message(int, const char *, int, const char *, const char *);

static void forward_log(enum rpma_log_level level, const char *file_name, const int line_no, const char *function_name,
        const char *message_format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, message_format);
    vsnprintf(message, sizeof(message), message_format, args);
    va_end(args);
    log_message((int)level, file_name, line_no, function_name, message);
}

static int set_log_to_python(bool to_python)
{
    return rpma_log_set_function(to_python ? forward_log : RPMA_LOG_USE_DEFAULT_FUNCTION);
}
"""


def declarations(header: str) -> str:
    """Converts the header to the C subset of cffi: without comments and conditions. gcc determines the values of constants."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    constants = re.findall(r"^#define ((?:LIB)?RPMA_\w+) .*\d", text, flags=re.MULTILINE)
    text = re.sub(r'^#ifdef __cplusplus\n.*?^#endif', "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^#.*(?:\\\n.*)*$", "", text, flags=re.MULTILINE)
    return text + "".join(f"#define {name} ...\n" for name in constants)


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    builder = cffi.FFI()
    builder.cdef(VERBS + declarations(pathlib.Path(sys.argv[1]).read_text()) + LOG)
    builder.set_source("rpma._rpma", SOURCE)
    builder.emit_c_code(sys.argv[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
