# SPDX-License-Identifier: BSD-3-Clause
"""Command blocks of the documents for users: README.md, examples/README.md and EXAMPLES of the manual pages. A block of
commands is fenced and marked sh; every other fenced block has another mark."""

import dataclasses
import pathlib
import re

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Block:
    document: str  # path in the source tree
    line: int
    language: str
    text: str
    introduction: str  # paragraph before the block

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def first_line(self) -> str:
        return self.text.splitlines()[0]


class BadDocument(Exception):
    """A code block lacks the mark that shows whether it is a command."""


def examples_of(text: str) -> tuple[int, str]:
    """Returns the line of the section EXAMPLES of a manual page, and its text."""
    found = re.search(r"^# EXAMPLES?\n(.*?)(?=^# |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return (found.start(1), found.group(1)) if found else (0, "")


def fenced(path: pathlib.Path) -> list[Block]:
    whole = path.read_text(encoding="utf-8")
    document = str(path.relative_to(SOURCE))
    start, text = examples_of(whole) if path.parent.name == "man" else (0, whole)
    unfenced = re.search(r"(?:\A|\n\n)( {4}\S.*)", FENCE.sub("", text))
    if unfenced:
        raise BadDocument(f"{document}: code that is not fenced: {unfenced.group(1).strip()}")
    blocks = []
    for found in FENCE.finditer(text):
        line = whole.count("\n", 0, start + found.start()) + 1
        if not found.group(1):
            raise BadDocument(f"{document}:{line}: unmarked code (use ```sh for commands, ```text for other text)")
        introduction = text[:found.start()].rstrip().rpartition("\n\n")[2]
        blocks.append(Block(document, line, found.group(1), found.group(2), introduction))
    return blocks


def documents() -> list[pathlib.Path]:
    """Returns the documents in the order in which users follow them."""
    return [SOURCE / "README.md", SOURCE / "examples/README.md", *sorted((SOURCE / "man").glob("*.md"))]


def all_blocks() -> list[Block]:
    return [block for path in documents() for block in fenced(path)]
