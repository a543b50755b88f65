#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Installs the project to a prefix with unusual characters and copies that to another prefix. There programs link and run, and
the tools start, with the library of that prefix and without loader variables. Then uninstalls the first one. The commands and
installation scripts also work in a build directory with a blank and an apostrophe. They refuse to install before the build. A
clone or a build directory with a character that CMake or the linker does not support is rejected at once."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import suite

PROGRAMS = {
    "librpma": ("librpma.h", "return rpma_version() == 0;"),
    "librpmem": ("librpmem.h", "return rpmem_check_version(1, 3) != 0;"),
    "librpma_mirror": ("librpma_mirror.h", "return rpma_mirror_err_2str(0) == 0;"),
}
TOOLS = ["rpmemd", "rpma-mirror", "rpma-bench", "softrdma"]
PROGRAMS_OF_TOOLS = {"rpma-bench": "libexec/librpma-tools/rpma-bench-engine"}
SERVER = "libexec/rpmemd/rpmemd-listen"  # executed by rpmemd --listen


def environment(**more):
    """Returns the environment without variables that select a library."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "PKG_CONFIG", "PYTHON"))}
    return kept | {name: str(value) for name, value in more.items()}


def install(build, prefix):
    if not (build / "lib/librpma_mirror.so.0").exists() or not (build / "bin/rpma-bench").exists():
        suite.skip("this build has only some of the components")
    # A relative prefix is one in the current directory.
    suite.command("cmake", "--install", build, "--prefix", prefix.name, cwd=prefix.parent, env=environment())


def loads_own_library(prefix, program):
    listed = suite.command("ldd", program, env=environment())
    found = [line.split(" => ")[1] for line in listed.splitlines() if suite.LIBRARY in line and " => " in line]
    for path in found:
        if not path.startswith(str(prefix)):
            suite.fail(f"{program.name} loads {path}")


def check_programs(prefix, scratch):
    query = environment(PKG_CONFIG_PATH=prefix / "lib/pkgconfig")
    for name, (header, body) in PROGRAMS.items():
        source = scratch / f"{name}.c"
        source.write_text(f"#include <{header}>\nint main(void) {{ {body} }}\n")
        flags = subprocess.run(f'pkg-config --cflags --libs {name} | xargs printf "%s\\n"', shell=True, check=True,
                               capture_output=True, text=True, env=query).stdout.splitlines()
        program = scratch / name
        suite.command("cc", source, "-o", program, *flags, env=environment())
        suite.command(program, env=environment())
        loads_own_library(prefix, program)


def check_tools(prefix):
    for tool in TOOLS:
        suite.command(prefix / "bin" / tool, "--version", env=environment())
        loads_own_library(prefix, prefix / PROGRAMS_OF_TOOLS.get(tool, f"bin/{tool}"))
    suite.command(prefix / "bin/rpmemd", "--listen", "127.0.0.1:0", "--version", env=environment())
    loads_own_library(prefix, prefix / SERVER)
    suite.command(prefix / "bin/softrdma", "run", "--", "true", env=environment())
    for package in prefix.glob("lib/python3*/dist-packages"):
        version = suite.command(sys.executable, "-c", "import rpma; print(rpma.version())", env=environment(PYTHONPATH=package))
        print(f"rpma for Python runs on librpma {version.strip()}")


def check_scripts(source, generator, scratch):
    build, clone = scratch / "Müller's build (1)", scratch / "my clone (1)"
    clone.symlink_to(source)
    suite.command("cmake", "-G", generator, "-S", clone, "-B", build, env=environment(), timeout=600)
    for script in build.rglob("cmake_install.cmake"):
        for number, line in enumerate(script.read_text().splitlines(), 1):
            if build.name in re.sub(r'"[^"]*"|#.*', "", line):
                suite.fail(f"{script}:{number}: a path without quotes: {line.strip()}")
    if generator == "Ninja":
        commands = suite.command("ninja", "-C", build, "-t", "commands", "all", env=environment())
        parsed = subprocess.run(["sh", "-n"], input=commands, capture_output=True, text=True, check=False)
        if parsed.returncode != 0:
            suite.fail(f"a command of the build has a path without quotes: {parsed.stderr}")
    early = subprocess.run(["cmake", "--install", build, "--prefix", scratch / "early"], capture_output=True, text=True, check=False)
    advice = re.search(r"^ +(cmake --build .*)$", early.stderr, flags=re.MULTILINE)
    if early.returncode == 0 or (scratch / "early").exists() or not advice or shlex.split(advice[1])[-1] != str(build):
        suite.fail(f"cmake --install before the build, status {early.returncode}: {early.stderr}")


def check_rejected_paths(source, generator, scratch):
    for character in '#<>;,":$[]|':
        clone = scratch / f"clone {character}1"
        clone.symlink_to(source)
        for directories in (["-S", clone, "-B", scratch / "build"], ["-S", source, "-B", scratch / f"build {character}1"]):
            rejected = subprocess.run(["cmake", "-G", generator, *directories], capture_output=True, text=True, check=False)
            if rejected.returncode == 0 or f"it contains '{character}'" not in " ".join(rejected.stderr.split()):
                suite.fail(f"cmake with {directories}, status {rejected.returncode}: {rejected.stderr}")


def check_rejected_prefixes(build, scratch):
    for character in "$;:,'\"\\":
        prefix = scratch / f"prefix {character}1"
        rejected = subprocess.run(["cmake", "--install", build, "--prefix", prefix], capture_output=True, text=True, check=False)
        if rejected.returncode == 0 or f"it contains '{character}'" not in " ".join(rejected.stderr.split()) or prefix.exists():
            suite.fail(f"cmake --install --prefix '{prefix}', status {rejected.returncode}: {rejected.stderr}")


def check_uninstall(build, prefix):
    command = ("cmake", "--build", build, "--target", "uninstall")
    suite.command(*command, env=environment())
    left = [path for path in prefix.rglob("*") if not path.is_dir()]
    if left:
        suite.fail(f"uninstall left {left[0]}")
    for directory, words in (("", "found, for example"), ("relative", "not an absolute path")):
        useless = subprocess.run(command, env=environment(DESTDIR=directory), capture_output=True, text=True, check=False)
        if useless.returncode == 0 or words not in " ".join((useless.stdout + useless.stderr).split()):
            suite.fail(f"uninstall of nothing, status {useless.returncode}: {useless.stdout}{useless.stderr}")


def main():
    options = suite.parser(__doc__, "build", "source", "generator").parse_args()
    suite.need_tools("cmake", "pkg-config", "cc", "ldd")
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        check_scripts(options.source, options.generator, scratch)
        check_rejected_paths(options.source, options.generator, scratch)
        check_rejected_prefixes(options.build, scratch)
        first, prefix = scratch / "Müller [50 %h (1)", scratch / "Zoë & Co (v2) #2 @50 %"
        install(options.build, first)
        unit = (first / "lib/systemd/system/rpmemd.service").read_text()
        if f'ExecStart="{str(first).replace("%", "%%")}/bin/rpmemd"' not in unit:
            suite.fail("rpmemd.service starts a daemon outside the prefix")
        shutil.copytree(first, prefix, symlinks=True)
        check_programs(prefix, scratch)
        check_tools(prefix)
        check_uninstall(options.build, first)


if __name__ == "__main__":
    main()
