#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Users' programs build against the installed library with pkg-config and find_package, also after it was moved."""

import os
import pathlib
import shutil
import tempfile

import suite

COMPONENTS = ("runtime", "devel")


def install(build, destination):
    """Installs into `destination` and returns the prefix below it."""
    for component in COMPONENTS:
        suite.command("cmake", "--install", build, "--component", component,
                      env=dict(os.environ, DESTDIR=str(destination)))
    prefixes = {path.parent.parent for path in destination.rglob("include/librpma.h")}
    if len(prefixes) != 1:
        suite.fail(f"librpma.h is installed in {len(prefixes)} places")
    return prefixes.pop()


def through_pkg_config(prefix, scratch):
    pc = suite.only(prefix, "librpma.pc")
    query = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent))
    version = suite.command("pkg-config", "--modversion", "librpma", env=query).strip()
    flags = suite.command("pkg-config", "--cflags", "--libs", "librpma", env=query).split()
    program = scratch / "consumer_c"
    suite.command("cc", "-std=c11", *suite.WARNINGS, suite.HERE / "consumer/consumer.c", "-o", program, *flags)
    return program, version


def through_find_package(prefix, scratch, generator):
    build = scratch / "consumer-build"
    suite.command("cmake", "-G", generator, "-S", suite.HERE / "consumer", "-B", build,
                  f"-DCMAKE_PREFIX_PATH={prefix}")
    suite.command("cmake", "--build", build)
    return build / "consumer_cpp"


def main():
    options = suite.parser(__doc__, "build", "generator").parse_args()
    suite.need_tools("cmake", "pkg-config", "cc", "readelf")
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        prefix = scratch / "moved"
        shutil.move(install(options.build, scratch / "staged"), prefix)
        shutil.rmtree(scratch / "staged")
        library = suite.only(prefix, suite.LIBRARY)
        link = suite.only(prefix, "librpma.so")
        if not link.is_symlink() or link.resolve() != library.resolve():
            suite.fail(f"{link.name} does not resolve to {library.name}")
        for tag in ("RPATH", "RUNPATH"):
            suite.expect_equal(tag, suite.dynamic_entries(library, tag), [])
        program, version = through_pkg_config(prefix, scratch)
        for consumer in (program, through_find_package(prefix, scratch, options.generator)):
            suite.command(consumer, env=dict(os.environ, LD_LIBRARY_PATH=str(library.parent)))
            print(f"{consumer.name} built against the moved librpma {version} and ran")
        for text in [*prefix.rglob("*.pc"), *prefix.rglob("*.cmake")]:
            if str(scratch) in text.read_text() or str(options.build.resolve()) in text.read_text():
                suite.fail(f"{text.name} contains a directory of this build")


if __name__ == "__main__":
    main()
