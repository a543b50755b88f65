#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A project of a user takes the source of librpma with FetchContent. Its build type stays its own, it builds without the
optional parts and their packages, and its installation does not contain librpma."""

import argparse
import pathlib
import tempfile

import suite


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, type=pathlib.Path, help="the source of librpma")
    parser.add_argument("--generator", required=True, help="of the consumer's CMake project")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        build = pathlib.Path(directory) / "build"
        # The optional packages are installed on most machines that run this test: hide them.
        hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("CLI11", "nlohmann_json", "fmt", "Python3")]
        suite.command("cmake", "-G", options.generator, "-S", suite.HERE / "consumer", "-B", build,
                      f"-DSUBPROJECT={options.source}", *hidden)
        suite.command("cmake", "--build", build, "--target", "consumer_cpp", timeout=900)
        suite.command(build / "consumer_cpp")
        suite.command("cmake", "--install", build, "--prefix", f"{directory}/prefix")
        installed = [path for path in pathlib.Path(directory, "prefix").rglob("*") if path.is_file()]
        if installed:
            suite.fail(f"the project installs {installed[0]}")


if __name__ == "__main__":
    main()
