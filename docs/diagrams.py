# SPDX-License-Identifier: BSD-3-Clause
"""Draws the Mermaid diagrams of the documents as SVG: sequence diagrams alone, flowcharts with Graphviz."""

import html
import re
import subprocess
import textwrap

MIN_WIDTH, CHARACTER, LINE, PAD = 190, 8, 18, 12
ARROW = re.compile(r"(\w+)(-?->>)(\w+): (.*)")
# Inside of a page, a style without the class would change other drawings.
STYLE = """<style>
.sequence text { fill: currentColor; font: 13px sans-serif; text-anchor: middle } .sequence .actor { font-weight: bold }
.sequence line, .sequence rect, .sequence path { stroke: currentColor; fill: none } .sequence .life { stroke-dasharray: 2 4; opacity: .6 }
.sequence .dashed { stroke-dasharray: 6 4 } .sequence .note { fill: var(--md-code-bg-color, #f4f4f4) }
.sequence .loop { stroke-dasharray: 4 4; opacity: .7 } .sequence .head { fill: currentColor; stroke: none }
</style>"""


def lines_of(text: str, width: int) -> list[str]:
    return [line for part in text.split("<br/>") for line in textwrap.wrap(part.strip(), max(width // CHARACTER, 12)) or [""]]


def column_width(source: str) -> int:
    """Width of a column in which the longest word is not divided."""
    words = re.split(r"\s|<br/>", " ".join(re.findall(r"(?:: | as )(.*)", source)))
    return max(MIN_WIDTH, CHARACTER * max(map(len, words)) + 16)


class Sequence:
    """A drawing that grows downwards: one column for each participant."""

    def __init__(self, source: str):
        self.width = column_width(source)
        self.columns: dict[str, int] = {}
        self.names: dict[str, str] = {}
        self.parts: list[str] = []
        self.loops: list[tuple[int, str]] = []
        self.y = 60
        for line in map(str.strip, source.splitlines()):
            self.draw(line)

    def text(self, x: float, y: float, lines: list[str], kind: str = "") -> None:
        self.parts += [f'<text x="{x:.0f}" y="{y + LINE * at:.0f}" class="{kind}">{html.escape(line)}</text>' for at, line in enumerate(lines)]

    def place(self, name: str) -> int:
        if name not in self.columns:
            self.columns[name] = self.width // 2 + self.width * len(self.columns)
            self.names.setdefault(name, name)
        return self.columns[name]

    def draw(self, line: str) -> None:
        if participant := re.fullmatch(r"participant (\w+)(?: as (.*))?", line):
            self.names[participant[1]] = participant[2] or participant[1]
            self.place(participant[1])
        elif arrow := ARROW.fullmatch(line):
            self.message(self.place(arrow[1]), self.place(arrow[3]), arrow[2].startswith("--"), arrow[4])
        elif note := re.fullmatch(r"Note over (\w+)(?:, ?(\w+))?: (.*)", line):
            self.note(self.place(note[1]), self.place(note[2] or note[1]), note[3])
        elif loop := re.fullmatch(r"loop (.*)", line):
            self.loops.append((self.y, loop[1]))
            self.y += LINE + PAD
        elif line == "end":
            top, text = self.loops.pop()
            self.parts.append(f'<rect class="loop" x="6" y="{top}" width="{self.width * len(self.columns) - 12}" height="{self.y - top}"/>')
            self.text(self.width * len(self.columns) / 2, top + LINE, [text])
            self.y += PAD
        elif line not in ("", "sequenceDiagram"):
            raise ValueError(f"sequence diagram: unknown statement: {line}")

    def message(self, start: int, end: int, dashed: bool, text: str) -> None:
        kind = "dashed" if dashed else ""
        lines = lines_of(text, (abs(end - start) or self.width) - 10)
        self.y += LINE * len(lines)
        if start == end:
            self.text(start + self.width / 2, self.y - LINE * (len(lines) - 1), lines)
            self.parts.append(f'<path class="{kind}" d="M{start} {self.y + 6}h30v14h-22"/>')
            self.parts.append(f'<path class="head" d="M{start + 2} {self.y + 20}l9 -4v8z"/>')
            self.y += 32
            return
        self.text((start + end) / 2, self.y - LINE * (len(lines) - 1), lines)
        back = 9 if end < start else -9
        self.y += 8
        self.parts.append(f'<line class="{kind}" x1="{start}" y1="{self.y}" x2="{end + back}" y2="{self.y}"/>')
        self.parts.append(f'<path class="head" d="M{end} {self.y}l{back} -4v8z"/>')
        self.y += PAD

    def note(self, first: int, last: int, text: str) -> None:
        left, right = min(first, last) - self.width / 2 + 8, max(first, last) + self.width / 2 - 8
        lines = lines_of(text, int(right - left))
        height = LINE * len(lines) + 8
        self.parts.append(f'<rect class="note" x="{left:.0f}" y="{self.y + 4}" width="{right - left:.0f}" height="{height}" rx="3"/>')
        self.text((left + right) / 2, self.y + LINE + 2, lines)
        self.y += height + PAD

    def svg(self) -> str:
        width = self.width * len(self.columns)
        lives = [f'<line class="life" x1="{x}" y1="50" x2="{x}" y2="{self.y}"/>' for x in self.columns.values()]
        for name, x in self.columns.items():
            lives.append(f'<rect x="{x - self.width / 2 + 8:.0f}" y="6" width="{self.width - 16}" height="44" rx="4"/>')
            lines = lines_of(self.names[name], self.width - 16)
            self.text(x, 33 - LINE * (len(lines) - 1) / 2, lines, "actor")
        return (f'<svg xmlns="http://www.w3.org/2000/svg" class="sequence" role="img" viewBox="0 0 {width} {self.y + 8}" width="{width}">{STYLE}'
                + "".join([*lives, *self.parts]) + "</svg>")


def flowchart(source: str) -> str:
    """The drawing of Graphviz in the colors of the page."""
    labels = dict(re.findall(r"(\w+)\[([^\]]+)\]", source))
    graph = ["digraph { rankdir=TB; bgcolor=transparent; node [shape=box, style=rounded, fontname=sans, fontsize=11, margin=0.3];"]
    for line in re.sub(r"\[[^\]]+\]", "", source).splitlines()[1:]:
        edge = re.fullmatch(r"\s*(\w+) (?:-->|-\. (\w+) \.->) (\w+)", line)
        if edge:
            graph.append(f'{edge[1]} -> {edge[3]}' + (f' [style=dashed, fontname=sans, fontsize=10, label="{edge[2]}"]' if edge[2] else ""))
        elif line.strip():
            raise ValueError(f"flowchart: unknown statement: {line}")
    graph += [f'{name} [label="{label}"]' for name, label in labels.items()]
    drawn = subprocess.run(["dot", "-Tsvg"], input="\n".join([*graph, "}"]), capture_output=True, text=True, check=True).stdout
    drawn = re.sub(r'\b(fill|stroke)="black"', r'\1="currentColor"', drawn[drawn.index("<svg"):])
    return re.sub(r"<text ", '<text fill="currentColor" ', re.sub(r"<title>.*?</title>|<!--.*?-->", "", drawn, flags=re.DOTALL))


def svg(source: str) -> str:
    drawn = Sequence(source).svg() if source.startswith("sequenceDiagram") else flowchart(source)
    return re.sub(r"\s*\n\s*", " ", drawn)
