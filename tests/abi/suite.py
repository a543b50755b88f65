# SPDX-License-Identifier: BSD-3-Clause
"""Functions shared by the scripts of this suite: results, commands, symbols of shared objects, and the released interface."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "support"))
from common import fail, skip  # noqa: E402,F401

# Nodes of the version script, and the headers that declare their functions.
NODES = {"LIBRPMA_1.0": "released_1_0.h", "LIBRPMA_1.4": "released_1_4.h"}
LIBRARY = "librpma.so.0"
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wpedantic", "-Werror"]


def parser(description, *names):
    """Returns a parser with these options. All are required, and are paths except that of the generator."""
    created = argparse.ArgumentParser(description=description)
    for name in names:
        created.add_argument(f"--{name}", required=True, type=str if name == "generator" else pathlib.Path)
    return created


def need_tools(*names):
    for name in names:
        if shutil.which(name) is None:
            skip(f"{name} is not installed")


def command(*words, timeout=100, **options):
    """Returns the output of a command, which must succeed."""
    words = [str(word) for word in words]
    result = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False, **options)
    if result.returncode != 0:
        fail(f"{' '.join(words)} ended with {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def only(directory, pattern):
    """Returns the path below the directory that matches the pattern. There must be exactly one."""
    found = list(directory.rglob(pattern))
    if len(found) != 1:
        fail(f"{pattern} is installed {len(found)} times")
    return found[0]


def expect_equal(what, found, expected):
    """Compares two collections without regard to order and prints the difference."""
    if sorted(found) != sorted(expected):
        fail(f"{what}: unexpected {sorted(set(found) - set(expected))}, missing {sorted(set(expected) - set(found))}, "
             f"{len(list(found))} instead of {len(list(expected))}")


def prototypes(header):
    """Returns the prototypes in a C header by function name, without comments. Each ends in ';'."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header.read_text(), flags=re.DOTALL)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    text = re.sub(r'extern\s+"C"\s*\{', "", text)
    found = {}
    for declaration in re.findall(r"[^;{}]*;", text):
        name = re.search(r"\b(rpma_\w+)\s*\(", declaration)
        if name and "typedef" not in declaration:
            found[name[1]] = " ".join(declaration.split())
    return found


def released_functions(node):
    return set(prototypes(HERE / NODES[node]))


def all_functions():
    return set().union(*map(released_functions, NODES))


def dynamic_entries(path, tag):
    """Returns the values of one tag of the dynamic section, in order."""
    lines = command("readelf", "-W", "-d", path).splitlines()
    return [re.sub(r".*\[(.*)\]$", r"\1", line.split(") ", 1)[1].strip()) for line in lines if f"({tag})" in line]


def dynamic_symbols(path, defined):
    """Returns the types of the dynamic symbols that the object defines, or else needs, by name with version."""
    symbols = {}
    for line in command("readelf", "-W", "--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].rstrip(":").isdigit() and (fields[6] != "UND") == defined:
            symbols[fields[7]] = fields[3]
    return symbols


def exported_symbols(path):
    """Like dynamic_symbols(), but with version nodes under their plain names: readelf prints a version for them too."""
    return {name if name.startswith("rpma_") else name.partition("@")[0]: kind
            for name, kind in dynamic_symbols(path, defined=True).items()}


class Debian:
    """Debian's librpma0 and librpma-dev, unpacked below a directory."""

    def __init__(self, directory):
        libraries = list(directory.glob(f"usr/lib/*/{LIBRARY}"))
        self.include = directory / "usr/include"
        if not libraries or not (self.include / "librpma.h").exists():
            skip(f"Debian's librpma0 and librpma-dev are not below {directory}")
        self.library = libraries[0]
        self.header = self.include / "librpma.h"
