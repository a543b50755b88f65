#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the header compiles alone, twice, and without warnings in C and C++, and that its includes and declarations remain."""

import pathlib
import re
import shutil
import tempfile

import suite

# Programs rely on these includes of the header.
INCLUDES = ["stddef.h", "stdint.h", "stdio.h", "stdbool.h", "infiniband/verbs.h"]
COMPILERS = {"gcc": ("c", ["c11"]), "clang": ("c", ["c11"]),
             "g++": ("c++", ["c++17", "c++20"]), "clang++": ("c++", ["c++17", "c++20"])}

# Names all members with their types. A member in the padding would change no size or offset.
MEMBERS = """#include <librpma.h>
struct rpma_conn_private_data copy(struct rpma_conn_private_data *data)
{
    void **ptr = &data->ptr;
    uint8_t *len = &data->len;
    struct rpma_conn_private_data all = {*ptr, *len};
    return all;
}
"""


def check(include, nodes):
    """Checks that the header still declares the functions released under the nodes."""
    released = "".join(f'#include "{suite.NODES[node]}"\n' for node in nodes)
    sources = {"alone": "#include <librpma.h>\n#include <librpma.h>\n", "released": f"#include <librpma.h>\n{released}",
               "members": MEMBERS}
    includes = re.findall(r"^#\s*include\s*[<\"](.*)[>\"]", (include / "librpma.h").read_text(), flags=re.MULTILINE)
    if includes != INCLUDES:
        suite.fail(f"the header includes {includes} instead of {INCLUDES}")
    compilers = [name for name in COMPILERS if shutil.which(name)]
    if not {COMPILERS[name][0] for name in compilers} == {"c", "c++"}:
        suite.skip(f"a C and a C++ compiler are needed, found {compilers}")
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in sources.items():
            source = pathlib.Path(scratch, f"{name}.c")
            source.write_text(text)
            for compiler in compilers:
                language, standards = COMPILERS[compiler]
                for standard in standards:
                    suite.command(compiler, "-x", language, f"-std={standard}", *suite.WARNINGS, "-fsyntax-only",
                                  f"-I{include}", f"-I{suite.HERE}", source)
                    print(f"{name}: {compiler} {standard}")


def main():
    check(suite.parser(__doc__, "include").parse_args().include, suite.NODES)


if __name__ == "__main__":
    main()
