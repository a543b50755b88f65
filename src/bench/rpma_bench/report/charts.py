# SPDX-License-Identifier: BSD-3-Clause
"""Figures as SVG. Elements of class "point" contain the text that the page shows at the pointer."""

import dataclasses
import math
import textwrap
from html import escape

from ..common import interval, number, tick
from ..measure import NOISE

WIDTH, HEIGHT = 460, 290
LEFT, RIGHT, TOP, BOTTOM = 66, WIDTH - 16, 26, HEIGHT - 44
LINE = 15  # distance of two lines of text
COLORS = 8
# Seven shapes and eight colors: 56 series differ in one of them. Two shades of blue have different shapes. Dashes distinguish
# the second eight series from the first.
SHAPES = ("m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0", "m-3.2-3.2h6.4v6.4h-6.4z", "m0-4.2l4 7h-8z",
          "m0-4.4l4.4 4.4l-4.4 4.4l-4.4-4.4z", "m-4-2.8h8l-4 7z", "m-3.8-3.8h7.6l-7.6 7.6h7.6z",
          "m-1.3-3.9h2.6v2.6h2.6v2.6h-2.6v2.6h-2.6v-2.6h-2.6v-2.6h2.6z")
# Ratio of maximum to minimum below which a linear scale from zero replaces a logarithmic one.
NARROW = 4


def decade_of(value):
    return 10 ** math.floor(math.log10(value) + 1e-9)


def round_down(value, unit):
    """Returns the largest of 1, 2, 5, 10, 20 ..., or of the powers of two for bytes, that is not above value."""
    if unit == "bytes":
        return 2 ** math.floor(math.log2(value) + 1e-9)
    decade = decade_of(value)
    return next((digit * decade for digit in (5, 2) if digit * decade <= value * (1 + 1e-9)), decade)


def next_above(value, unit):
    return value * (2 if unit == "bytes" else 2.5 if 1.5 < value / decade_of(value) < 3 else 2)


def round_up(value, unit):
    down = round_down(value, unit)
    return down if down >= value * (1 - 1e-9) else next_above(down, unit)


def can_show(scale, value):
    return value < 100 if scale == "nines" else scale == "linear" or value > 0


class Projection:
    """Maps the values of an axis to coordinates."""

    def __init__(self, axis, values, start, end):
        self.unit, self.scale, self.start, self.end = axis.unit, axis.scale, start, end
        self.values = sorted(set(values)) or [0, 1]
        low, high = self.values[0], self.values[-1]
        if self.scale == "log10" and high < low * NARROW:
            self.scale = "linear"
        if self.scale == "log10":
            low, high = round_down(low, self.unit), round_up(high, self.unit)
        elif self.scale in ("linear", "nines"):
            if self.scale == "linear" and self.unit != "percent" and high > 0:
                high = round_up(high * 1.02, self.unit)
            low = 0
        self.first, self.last = self.place(low), self.place(high)
        if self.first == self.last:
            self.first, self.last = self.first - 0.5, self.last + 0.5
        self.name = axis.label + ("" if self.scale == "linear" else ", log scale")

    def place(self, value):
        return {"log2": lambda: math.log2(value), "log10": lambda: math.log10(value), "linear": lambda: value,
                "nines": lambda: -math.log10(1 - value / 100)}[self.scale]()

    def __call__(self, value):
        return self.start + (self.end - self.start) * (self.place(value) - self.first) / (self.last - self.first)

    def marks(self):
        """Returns round values, at most as many as are easily read."""
        if self.scale == "nines":
            return [mark for mark in (0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999) if self.place(mark) <= self.last * (1 + 1e-9)]
        if self.scale == "linear":
            if self.last <= 0:
                return [0]
            step = round_down(self.last / 4, self.unit)
            return [step * i for i in range(int(self.last / step * (1 + 1e-9)) + 1)]
        marks, mark = [], 10 ** self.first
        while math.log10(mark) <= self.last + 1e-9:
            marks.append(mark)
            mark = next_above(mark, self.unit)
        if len(marks) <= 9:
            return marks
        if self.unit == "bytes":
            return marks[::len(marks) // 9 + 1]
        return [mark for mark in marks if abs(mark / decade_of(mark) - 1) < 1e-6]

    def ticks(self, across=False):
        """Returns coordinates with labels. A value without space for its label keeps its tick."""
        free_from, measured = -1e9, across and self.scale in ("log2", "linear")
        for value in self.values if measured else self.marks():
            label = f"{value:.7g}" if self.scale == "nines" else tick(value, self.unit)
            at, half = self(value), 6.2 * len(label) / 2
            fits = not across or at - half >= free_from
            yield at, label if fits else ""
            if fits:
                free_from = at + half + 6.2


class Svg:
    def __init__(self, height, figure=None, identity="", box=WIDTH, kind="any"):
        self.parts = [f'<svg viewBox="0 0 {box} {height:g}" class="{kind}" role="img" aria-labelledby="{identity}-t {identity}-d">'
                      f'<title id="{identity}-t">{escape(figure.title)}</title><desc id="{identity}-d">{escape(figure.caption)}</desc>'
                      if figure else f'<svg viewBox="0 0 {box} {height:g}" class="key" aria-hidden="true">']

    def add(self, text):
        self.parts.append(text)

    def line(self, kind, x1, y1, x2, y2):
        self.add(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def rect(self, kind, x, y, width, height):
        self.add(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>')

    def text(self, x, y, words, kind):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(words)}</text>')

    def point(self, kind, words, x, y):
        """Starts the group of a point with a wide, invisible shape, which is easy to hit with the pointer."""
        self.add(f'<g class="point {kind}" data-words="{escape(words)}"><title>{escape(words)}</title>'
                 f'<circle class="target" cx="{x:.1f}" cy="{y:.1f}" r="9"/>')

    def end(self):
        self.add("</g>")

    def mark(self, kind, shape, x, y):
        self.add(f'<path class="{kind}" d="M{x:.1f} {y:.1f}{SHAPES[shape % len(SHAPES)]}"/>')

    def finish(self):
        return "\n".join([*self.parts, "</svg>"])


def color(index, more):
    return f"c{index % COLORS} {more}" + (" second" if index >= COLORS and more.startswith("line") else "")


def spread(s, unit):
    runs = f"{s['runs'] if isinstance(s, dict) else s.runs} run" + ("" if (s["runs"] if isinstance(s, dict) else s.runs) == 1 else "s")
    low, high = (s["low"], s["high"]) if isinstance(s, dict) else (s.low, s.high)
    return f" ({number(low, unit)} to {number(high, unit)}, {runs})" if low < high else f" ({runs})"


def draw_line(out, figure, line, x, y):
    shown = [(at, s) for at, s in line.data if can_show(x.scale, at) and can_show(y.scale, s.median)]
    path = "L".join(f"{x(at):.1f} {y(s.median):.1f}" for at, s in shown)
    out.add(f'<path class="{color(line.index, "line tail" if line.tail else "line")}" d="M{path}"/>')
    for at, s in shown:
        unit = figure.y.unit
        label = line.label + (", 99th percentile" if line.tail else "")
        where = f"{at:.6g} %" if x.scale == "nines" else number(at, figure.x.unit)
        out.point("tail" if line.tail else "", f"{label}\n{where}: {number(s.median, unit)}{spread(s, unit)}", x(at), y(s.median))
        low = s.low if can_show(y.scale, s.low) else s.median
        if low < s.high and not line.tail:
            out.line(color(line.index, "spread"), x(at), y(low), x(at), y(s.high))
        out.mark(color(line.index, "mark wide" if s.wide else "mark"), line.index, x(at), y(s.median))
        out.end()
    for at in line.failed:
        if can_show(x.scale, at):
            out.point("", f"{line.label}\n{number(at, figure.x.unit)}: not measured", x(at), BOTTOM)
            out.text(x(at), BOTTOM + 5, "✕", color(line.index, "failed middle"))
            out.end()


def draw_lines(figure, identity, ceiling):
    xs, ys = [], []
    for line in figure.series:
        xs += [at for at in line.failed if can_show(figure.x.scale, at)]
        for at, s in line.data:
            if can_show(figure.x.scale, at) and can_show(figure.y.scale, s.median):
                xs.append(at)
                ys += [v for v in (s.median, s.low, s.high) if can_show(figure.y.scale, v)]
    bounded = ceiling and figure.y.unit == "bytes_per_s"
    ys += [ceiling] if bounded else []
    out = Svg(HEIGHT, figure, identity)
    x, y = Projection(figure.x, xs, LEFT + 10, RIGHT - 10), Projection(figure.y, ys, BOTTOM, TOP + 4)
    for at, label in y.ticks():
        out.line("grid", LEFT, at, RIGHT, at)
        out.text(LEFT - 7, at + 4, label, "tick end")
    for at, label in x.ticks(across=True):
        out.line("grid", at, TOP, at, BOTTOM)
        out.text(at, BOTTOM + 17, label, "tick middle")
    out.line("axis", LEFT, BOTTOM, RIGHT, BOTTOM)
    out.text(6, 13, y.name, "name")
    out.text((LEFT + RIGHT) / 2, HEIGHT - 8, x.name, "name middle")
    if bounded:
        out.line("ceiling", LEFT, y(ceiling), RIGHT, y(ceiling))
        out.text(RIGHT, y(ceiling) + 13, f"ceiling {number(ceiling, 'bytes_per_s')}", "tick end halo")
    # Draws the first line, which is the subject of the figure, on top of the others.
    for tails in True, False:
        for line in reversed(figure.series):
            if line.tail == tails:
                draw_line(out, figure, line, x, y)
    return out.finish()


def draw_bars(figure, identity):
    row, head, gap, left, right = 19, 22, 10, 178, WIDTH - 78
    groups = {}
    for bar in figure.rows:
        groups.setdefault(bar["group"], []).append(bar)
    highest = max(bar["value"] for bar in figure.rows) or 1
    out, y = Svg(4 + sum(head + gap + row * len(bars) for bars in groups.values()), figure, identity), 0
    for name, bars in groups.items():
        out.text(6, y + 15, name, "name")
        y += head
        for bar in bars:
            length = (right - left) * bar["value"] / highest
            out.point("", f"{name}, {bar['label']}\n{number(bar['value'], figure.y.unit)}{spread(bar, figure.y.unit)}", left, y + 9)
            out.text(left - 7, y + 13, bar["label"], "tick end")
            out.rect(color(bar["index"], "bar"), left, y + 2, max(length, 1), row - 5)
            out.end()
            out.text(left + length + 6, y + 13, number(bar["value"], figure.y.unit) + (" !" if bar["wide"] else ""), "value")
            y += row
        y += gap
    return out.finish()


@dataclasses.dataclass
class Layout:
    """Positions in a figure of ratios. `label`, `value` and `mark` are offsets from the top of a row."""
    width: int
    left: int
    right: int
    row: int
    label: int
    value: int
    mark: int
    columns: int  # characters of a line of a label


RATIO_LAYOUTS = {"wide": Layout(900, 340, 640, 22, 15, 15, 11, 200),
                 "narrow": Layout(360, 16, 344, 54, 14, 29, 41, 50)}
RATIOS_HEAD = 26


def draw_ratios(figure, identity, kind):
    """Draws ratios on a logarithmic scale, on which 2 and 1/2 have the same distance from 1. The wide kind has a label, a mark
    and a value in each row. The narrow kind has them below each other, for narrow windows."""
    form, head = RATIO_LAYOUTS[kind], RATIOS_HEAD
    logs = [abs(math.log(v)) for r in figure.rows for v in (r["ratio"], r["low"], r["high"]) if v > 0]
    reach = min(max([math.log(1.12), *(1.05 * v for v in logs)]), math.log(8))

    def x(ratio):
        place = max(-reach, min(reach, math.log(ratio))) if ratio > 0 else -reach
        return (form.left + form.right) / 2 + (form.right - form.left) / 2 * place / reach

    labels = [textwrap.wrap(r["label"], form.columns) for r in figure.rows]
    height = head + sum(form.row + LINE * (len(lines) - 1) for lines in labels) + 6
    out = Svg(height, figure, f"{identity}-{kind}", form.width, kind)
    out.rect("noise", x(1 - NOISE), head, x(1 + NOISE) - x(1 - NOISE), height - head)
    for mark in 0.125, 0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 4, 8:
        fine, middle = mark in (0.8, 0.9, 1.1, 1.2), mark in (0.7, 1.5)
        if abs(math.log(mark)) > reach or (fine and reach > math.log(1.3)) or (middle and reach > math.log(3)):
            continue
        out.line("axis" if mark == 1 else "grid", x(mark), head, x(mark), height)
        out.text(x(mark), head - 8, f"{mark:g}", "tick middle")
    top = head
    for r, lines in zip(figure.rows, labels):
        for words in lines:
            out.text(*((form.left - 14, top + form.label, words, "end") if kind == "wide" else (4, top + form.label, words, "halo")))
            top += LINE
        top -= LINE
        out.text(form.right + 14 if kind == "wide" else 4, top + form.value, f"{interval(r['ratio'], r['low'], r['high'])} {r['words']}",
                 "value halo")
        y = top + form.mark
        out.point(r["style"], f"{r['label']}\n{r['ours']} and {r['other']}\n{interval(r['ratio'], r['low'], r['high'])}, {r['runs']} runs",
                  x(r["ratio"]), y)
        out.line("spread", x(r["low"]), y, x(r["high"]), y)
        out.mark("mark wide" if r["wide"] else "mark", 0, x(r["ratio"]), y)
        out.end()
        top += form.row
    return out.finish()


def draw(figure, identity, ceiling=None):
    if figure.kind == "lines":
        return draw_lines(figure, identity, ceiling)
    if figure.kind == "bars":
        return draw_bars(figure, identity)
    return "\n".join(draw_ratios(figure, identity, kind) for kind in RATIO_LAYOUTS)


def draw_key(line):
    out = Svg(12, box=30)
    out.add(f'<path class="{color(line.index, "line")}" d="M1 6H29"/>')
    out.mark(color(line.index, "mark"), line.index, 15, 6)
    return out.finish()


def draw_schematic(environment):
    """Draws both machines and their connection."""
    class Words:
        title, caption = "Set-up", "The machines that were measured and what connects them"
    out = Svg(120, Words, "setup", 640)

    def box(x, name, host, more):
        memory = host.get("memory_bytes")
        out.rect("machine", x, 8, 220, 104)
        lines = [host.get("cpu") or "not recorded", f"{host.get('cores') or '?'} processors" + (f", {number(memory, 'bytes')}" if memory else ""),
                 host.get("os") or "", more]
        out.text(x + 12, 28, name, "name")
        for i, words in enumerate(filter(None, lines)):
            out.text(x + 12, 48 + 18 * i, words if len(words) < 36 else words[:34] + "…", "tick")

    e = environment
    box(4, "client", e["client"], e["device"])
    box(416, "server", e["server"] or e["client"], e["target_memory"])
    out.line("axis", 224, 60, 416, 60)
    out.text(320, 50, "one machine" if e["same_host"] else "two machines", "name middle")
    words = e["transport"] or "transport not recorded"
    out.text(320, 78, words if len(words) < 34 else words[:32] + "…", "tick middle")
    return out.finish()
