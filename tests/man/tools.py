#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the sections of each page of a program, and that its options are those of --help.

usage: tools.py PAGES_DIRECTORY PROGRAMS_DIRECTORY"""

import pathlib
import re
import subprocess
import sys

# In the order of man-pages(7). Sections in brackets are optional, and pages may have others after DESCRIPTION.
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "[COMMANDS]", "[OPTIONS]", "EXIT STATUS", "[ENVIRONMENT]", "[FILES]", "EXAMPLES",
            "SEE ALSO"]


def faults_of_order(headings: list[str]) -> list[str]:
    known = [name.strip("[]") for name in SECTIONS]
    places = [known.index(name) for name in headings if name in known]
    missing = [name for name in SECTIONS if name[0] != "[" and name not in headings]
    return [f"the section {name} is missing" for name in missing] + (
        [f"the sections are not in the order {' '.join(SECTIONS)}"] if places != sorted(places) else [])


def help_of(program: pathlib.Path, *command: str) -> str:
    """Returns the help of the program and of each of its subcommands."""
    done = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=False, timeout=20)
    if done.returncode != 0:
        sys.exit(f"{program} {' '.join(command)} --help ended with {done.returncode}: {done.stderr}")
    # rpmemd prints its help on standard error, because its standard output is a protocol channel.
    text = done.stdout or done.stderr
    _, _, listed = text.partition("Subcommands:\n")
    names = re.findall(r"^ +([a-z][\w-]*)(?: .*)?$", listed, flags=re.MULTILINE)
    return text + "".join(help_of(program, *command, name) for name in names)


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    pages, programs = map(pathlib.Path, sys.argv[1:])
    faults = []
    checked = 0
    for page in sorted(pages.glob("*.1.md")):
        name = page.name.removesuffix(".1.md")
        text = page.read_text(encoding="utf-8")
        faults += [f"{page.name}: {fault}" for fault in faults_of_order(re.findall(r"^# (.+)$", text, flags=re.MULTILINE))]
        if not (programs / name).exists():
            print(f"{name} is not part of this build")
            continue
        checked += 1
        offered = options_in(help_of(programs / name))
        described = options_in(re.sub(r"^    .*$|`[^`]*`", "", text, flags=re.MULTILINE).replace("*", "").replace("\\", ""))
        faults += [f"{page.name}: {option} is in --help only" for option in sorted(offered - described)]
        faults += [f"{page.name}: {option} is not in --help" for option in sorted(described - offered)]
    print("\n".join(faults) or f"{checked} programs, nothing found")
    return 1 if faults or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
