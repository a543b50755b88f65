#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The suite builds as a project of its own against an installed librpma, and the installed program runs.

usage: standalone_test.py BUILD_DIRECTORY GENERATOR"""

import os
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "abi"))
from suite import command, only  # noqa: E402


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, generator = sys.argv[1:]
    source = pathlib.Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        for component in ("runtime", "devel"):
            command("cmake", "--install", build, "--component", component,
                    env=dict(os.environ, DESTDIR=str(scratch / "librpma")))
        pkg_config = only(scratch / "librpma", "librpma.pc").parent
        environment = dict(os.environ, PKG_CONFIG_PATH=str(pkg_config))
        command("cmake", "-G", generator, "-S", source, "-B", scratch / "build",
                f"-DCMAKE_INSTALL_PREFIX={scratch / 'suite'}", env=environment)
        command("cmake", "--build", scratch / "build", "--parallel", "2")
        command("cmake", "--install", scratch / "build", "--component", "tools")
        program = only(scratch / "suite" / "bin", "rpma-conformance")
        library = only(scratch / "librpma", "librpma.so.0").parent
        names = command(program, "--list", "--deviations", "librpma-1.2.0", env=dict(os.environ, LD_LIBRARY_PATH=str(library))).splitlines()
        if len(names) < 300 or len(set(names)) != len(names):
            sys.exit(f"{len(names)} cases, {len(set(names))} of different names; at least 300 are expected")
        print(f"{len(names)} cases")


if __name__ == "__main__":
    main()
