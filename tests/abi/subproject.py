#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A user's project includes librpma with FetchContent. The project keeps its own build type, builds without the optional
parts and their packages, and its installation does not contain librpma."""

import pathlib
import tempfile

import suite


def main():
    options = suite.parser(__doc__, "source", "generator").parse_args()
    with tempfile.TemporaryDirectory() as directory:
        build = pathlib.Path(directory) / "build"
        # Hides the optional packages, which are installed on most machines that run this test.
        hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("CLI11", "nlohmann_json", "fmt", "Python3", "Protobuf")]
        configure = ["cmake", "-G", options.generator, "-S", suite.HERE / "consumer", "-B", build,
                     f"-DSUBPROJECT={options.source}", *hidden]
        # Requested parts whose packages are missing are omitted, and one line reports the reason.
        output = suite.command(*configure, *(f"-DRPMA_BUILD_{part}=ON" for part in ("RPMEM", "BENCH", "PYTHON", "TESTS")))
        for part, name, package in (("RPMEM", "CLI11", "libcli11-dev"), ("BENCH", "CLI11", "libcli11-dev"),
                                    ("PYTHON", "Python3", "python3"), ("TESTS", "Python3", "python3")):
            line = f"RPMA_BUILD_{part}: left out: {name} not found (install Debian's {package}, or set -DRPMA_BUILD_{part}=OFF)"
            if output.count(line) != 1:
                suite.fail(f"'{line}' is not exactly once in:\n{output}")
        suite.command(*configure, *(f"-URPMA_BUILD_{part}" for part in ("RPMEM", "BENCH", "PYTHON", "TESTS")))
        suite.command("cmake", "--build", build, timeout=900)
        built = [path.name for path in build.rglob("lib*.so*")]
        if "librpma.so.0" not in built or any(name.startswith("librpmem") for name in built):
            suite.fail(f"the target all of the project builds {built}")
        suite.command(build / "consumer_cpp")
        suite.command("cmake", "--install", build, "--prefix", f"{directory}/prefix")
        installed = [path for path in pathlib.Path(directory, "prefix").rglob("*") if path.is_file()]
        if installed:
            suite.fail(f"the project installs {installed[0]}")


if __name__ == "__main__":
    main()
