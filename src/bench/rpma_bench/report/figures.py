# SPDX-License-Identifier: BSD-3-Clause
"""Figures of a report: curves, bars and ratios, computed from its entries."""

import dataclasses
import math

from .. import measure
from ..common import interval, number
from ..plan import REPLICAS
from ..results import APIS
from .entries import (ATTRIBUTES, METRICS, WIDE, Entry, library_names, operation, split, summarize, summary_of, text, texts,
                      usual_block_size, value_of, varying, without)

SECTIONS = {"compare": ("Against another library", "Libraries"), "latency": ("Latency", "Latency"),
            "percentiles": ("Latency by percentile", "Percentiles"), "bandwidth": ("Bandwidth and rate", "Bandwidth"),
            "scaling": ("Connections and threads", "Scaling"), "interfaces": ("librpma, raw verbs, TCP, memcpy", "Interfaces"),
            "dram-pmem": ("DRAM and persistent memory", "DRAM, PMem"),
            "apm-gpspm": ("Flushed by the initiator or by the target", "APM, GPSPM"),
            "mix": ("Reads and writes mixed", "Mix"), "cpuload": ("A busy target", "CPU load")}


@dataclasses.dataclass
class Series:
    label: str
    index: int  # index of its color and its mark
    tail: bool = False
    data: list = dataclasses.field(default_factory=list)  # (x, Summary)
    failed: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Axis:
    label: str
    unit: str
    scale: str  # log2, log10, linear or nines


@dataclasses.dataclass
class Figure:
    group: str
    title: str
    subtitle: str
    caption: str
    kind: str  # lines, bars or ratios
    x: Axis = None
    y: Axis = None
    series: list = dataclasses.field(default_factory=list)
    rows: list = dataclasses.field(default_factory=list)  # dictionaries; only for bars and ratios
    sides: tuple = ()


FILTERS = {
    "ours": lambda e, size: e.point["api"] == "librpma",
    "idle": lambda e, size: e.p["cpu_load"] == 0,
    "one thread": lambda e, size: e.p["threads"] == 1,
    "one connection": lambda e, size: e.p["connections"] == 1,
    "shallow": lambda e, size: e.p["depth"] == 1,
    "per thread": lambda e, size: e.p["threads"] == e.p["connections"],
    "mixed": lambda e, size: e.p.get("read_percent") is not None,
    "parts": lambda e, size: bool(e.half) or e.point["workload"] in ("read", "write_flush"),
    "plain": lambda e, size: e.p["flush_interval"] == 1 and e.point["workload"] in ("read", "write_flush"),
    "persistent": lambda e, size: e.point["workload"] == "gpspm" or e.p["flush"] == "persistent",
    "usual size": lambda e, size: e.p["block_size"] == size,
}
ALONE = ("idle", "one thread", "one connection")
REST = (*ALONE, "shallow")
OPERATIONS = ("operation", "mixture", "library", "run")
INTERFACES = ("api", "polling", "library", "run")
SIDES = ("api", "library", "run")
SERVERS = ("operation", "mixture", "polling", "library", "run")
TARGETS = ("memory", "operation", "library", "run")
MIXES = ("operation", "library", "run")
P50, P99, MEAN, RATE, BYTES = "latency_p50", "latency_p99", "latency_mean", "ops_per_s", "bytes_per_s"
# Figures of a report: group, title, metric, second metric of the line, axis and attributes that vary with it, filters,
# attributes of the lines, and contrasts. A figure is omitted if none of its contrasts varies. Without an axis it shows
# the percentiles of latency.
SELECTIONS = (
    ("latency", "Median latency of each operation", P50, None, ("block_size",), ("ours", *REST), OPERATIONS, ()),
    ("latency", "Latency side by side", P50, P99, ("block_size",), REST, INTERFACES, SIDES),
    ("percentiles", "Latency by percentile", P50, None, (), ("ours", *REST, "usual size"), SERVERS, ()),
    ("percentiles", "Latency by percentile side by side", P50, None, (), (*REST, "usual size"), INTERFACES, SIDES),
    ("bandwidth", "Bandwidth of each operation", BYTES, None, ("block_size",), ("ours", *ALONE), OPERATIONS, ()),
    ("bandwidth", "Bandwidth side by side", BYTES, None, ("block_size",), ALONE, INTERFACES, SIDES),
    ("bandwidth", "Operations per second over depth", RATE, None, ("depth",), ("ours", *ALONE), OPERATIONS, ()),
    ("bandwidth", "Latency over depth", P50, P99, ("depth",), ("ours", *ALONE), OPERATIONS, ()),
    ("bandwidth", "Operations per second over the flush interval", RATE, None, ("flush_interval",), ("ours", *ALONE), OPERATIONS, ()),
    ("scaling", "Operations per second over connections", RATE, None, ("connections",), ("ours", "idle", "one thread"), OPERATIONS, ()),
    ("scaling", "Latency over connections", P50, P99, ("connections",), ("ours", "idle", "one thread"), OPERATIONS, ()),
    ("scaling", "Processor time per operation over connections", "cpu_per_op", None, ("connections",),
     ("ours", "idle", "one thread"), OPERATIONS, ()),
    ("scaling", "Server's memory per connection", "memory_server", None, ("connections",), ("ours", "idle", "one thread"),
     OPERATIONS, ()),
    ("scaling", "Operations per second over threads", RATE, None, ("threads",), ("ours", "idle"), OPERATIONS, ()),
    ("scaling", "Operations per second over threads of one connection each", RATE, None, ("threads", "connections"),
     ("ours", "idle", "per thread"), OPERATIONS, ()),
    ("dram-pmem", "Latency by the target's memory", P50, P99, ("block_size",), ("ours", *REST, "plain"), TARGETS, ("memory",)),
    ("dram-pmem", "Bandwidth by the target's memory", BYTES, None, ("block_size",), ("ours", *ALONE, "plain"), TARGETS, ("memory",)),
    ("apm-gpspm", "Latency of flushing by the initiator (APM) and by the target (GPSPM)", P50, P99, ("block_size",),
     ("persistent",), SERVERS, ("operation",)),
    ("apm-gpspm", "Bandwidth of APM and of GPSPM", BYTES, None, ("block_size",), ("persistent",), SERVERS, ("operation",)),
    ("mix", "Latency of a mix and of its parts alone", MEAN, None, ("block_size",), ("ours", "parts"), OPERATIONS, ("operation",)),
    ("mix", "Bandwidth of a mix and of its parts alone", BYTES, None, ("block_size",), ("ours", "parts"), OPERATIONS, ("operation",)),
    ("mix", "Latency over the share of reads", MEAN, None, ("mixture",), ("ours", "mixed"), MIXES, ()),
    ("mix", "Operations per second over the share of reads", RATE, None, ("mixture",), ("ours", "mixed"), MIXES, ()),
    ("cpuload", "Latency over the target's load", P50, P99, ("cpu_load",), ("ours",), SERVERS, ()),
    ("cpuload", "Bandwidth over the target's load", BYTES, None, ("cpu_load",), ("ours",), SERVERS, ()),
)


def admits(filters, e, size):
    return (not e.half or "mixed" in filters or "parts" in filters) and all(FILTERS[f](e, size) for f in filters)


def percentiles_of(point):
    values = {}
    for r in point["repeats"]:
        for rank, ns in r["latency_ns"]["percentiles"]:
            if rank < 100:
                values.setdefault(rank, []).append(ns)
    return [(rank, summary_of(ns)) for rank, ns in sorted(values.items())]


def series_of(label, index, entries, x, metric, tail=False):
    created = Series(label, index, tail)
    if not x:
        created.data = percentiles_of(entries[-1].point)
        return created
    values = {}
    for e in entries:
        s = summarize(e.point, metric)
        if s:
            values[value_of(x[0], e)] = s
        elif e.point["status"] != "done" and not tail:
            created.failed.append(value_of(x[0], e))
    created.data = sorted(values.items())
    created.failed = [at for at in created.failed if at not in values]
    return created


def lines_of(entries, lines):
    """Returns label, index and entries of each line. An interface keeps its color in all figures if lines differ only
    in it."""
    distinct = varying(entries, lines)
    parts = sorted(split(entries, lines), key=lambda part: APIS.index(part[0].point["api"]))
    apis = [part[0].point["api"] for part in parts]
    by_api = len(parts) > 1 and len(set(apis)) == len(apis)
    return [(texts(distinct, part[0]) or operation(part[0]),
             APIS.index(part[0].point["api"]) if by_api else i, part)
            for i, part in enumerate(parts)], distinct


def x_axis(x):
    if not x:
        return Axis("percentile of the operations", "percent", "nines")
    if x[0] in ("cpu_load", "mixture"):
        return Axis(ATTRIBUTES[x[0]][0], "percent", "linear")
    return Axis(ATTRIBUTES[x[0]][0], "bytes" if x[0] == "block_size" else "", "log2")


def longest(series):
    return max((len(one.data) for one in series), default=0)


def span(counts):
    runs = sorted(set(counts))
    return f"{runs[0]} to {runs[-1]}" if len(runs) > 1 else str(runs[0]) if runs else "0"


def spread_text(series):
    """Returns the number of runs and their spread, for a caption."""
    summaries = [s for one in series if not one.tail for _, s in one.data]
    n = span(s.runs for s in summaries)
    if n == "1":
        return "One run of each point."
    spread = max((s.high / s.low for s in summaries if s.low > 0), default=1)
    wide = f"; hollow: the runs of a point differ by more than a factor of {WIDE}" if any(s.wide for s in summaries) else ""
    return f"Median of {n} runs; bars: lowest and highest, at most a factor of {spread:.2f} apart{wide}."


def line_figures(entries, size, selection):
    group, title, key, tail, x, filters, lines, contrasts = selection
    admitted = [e for e in entries if admits(filters, e, size)]
    # Old results have no percentiles, only means.
    if key == P50 and not any(summarize(e.point, METRICS[P50]) for e in admitted):
        key = MEAN
    metric, rest = METRICS[key], without(without(ATTRIBUTES, x), lines)
    created = []
    for panel in split(admitted, rest):
        measured = [e for e in panel if e.point["repeats"]]
        if (contrasts and not varying(measured, contrasts)) or ("parts" in filters and not any(e.half for e in measured)):
            continue
        series, (parts, distinct) = [], lines_of(panel, lines)
        for label, index, part in parts:
            main = series_of(label, index, part, x, metric)
            if main.data:
                series.append(main)
                if tail and (companion := series_of(label, index, part, x, METRICS[tail], tail=True)).data:
                    series.append(companion)
        # Omits series of one point: they stretch the axes, and the tables contain them.
        if longest(series) >= 2:
            series = [one for one in series if len(one.data) >= 2 or one.failed]
        if longest(series) >= max(len(x) + 1, 2):
            created.append((series, panel[0], without(without(without(ATTRIBUTES, x), distinct), ("run",))))
    # Omits figures of two points if others have longer curves.
    if any(longest(series) >= 3 for series, _, _ in created):
        created = [one for one in created if longest(one[0]) >= 3]
    firsts = [first for _, first, _ in created]
    better = "lower is better" if metric.lower_is_better else "higher is better"
    for series, first, shared in created:
        distinct = varying(firsts, shared)
        name = texts(distinct, first)
        dashed = " Dashed: 99th percentile." if any(one.tail for one in series) else ""
        yield Figure(group, f"{title}: {name}" if name else title, texts(without(shared, distinct), first),
                     spread_text(series) + dashed, "lines", x_axis(x),
                     Axis(f"{metric.name if x else 'latency'} ({better})", metric.unit, "log10"), series)


def ratio_row(label, ratio, low, high, ours, other, conclusive, lower_is_better, runs):
    words = measure.verdict_on(ratio, low, high, lower_is_better) if conclusive else "no conclusion"
    return {"label": label, "ratio": ratio, "low": low, "high": high, "ours": ours, "other": other, "words": words, "runs": runs,
            "style": words if words in ("better", "worse") else "even", "wide": high > WIDE * low}


def labelled(entries):
    said = ("operation", "api", "library", "run")
    more = without(varying(entries, ATTRIBUTES), said)
    return [", ".join(filter(None, (operation(e), texts(more, e)))) for e in entries]


def side(setup, names):
    return names.get(setup["library"], setup["library"]) if setup["library"] else text("api", Entry("", "", "", setup))


def compared_figures(run):
    """Returns the ratios of `rpma-bench compare`, in one figure for each metric."""
    refusal, names = measure.inconclusive_reason(run.result), library_names(run.result)
    for key in dict.fromkeys(pair["metric"] for pair in run.result["pairs"]):
        metric = METRICS.get(key)
        pairs = [p for p in run.result["pairs"] if p["metric"] == key and p["ratio"] > 0]
        if not metric or not pairs:
            continue
        entries = [Entry(run.name, "", "", p["ours"]) for p in pairs]
        sides = side(pairs[0]["ours"], names), side(pairs[0]["other"], names)
        rows = [ratio_row(label, p["ratio"], p["ratio_low"], p["ratio_high"], number(p["ours_value"], metric.unit),
                          number(p["other_value"], metric.unit), not refusal, metric.lower_is_better, p["runs"])
                for label, p in zip(labelled(entries), pairs)]
        better = "below 1" if metric.lower_is_better else "above 1"
        caption = f"No conclusion: {refusal}." if refusal else f"Dot: median of the ratios of {rows[0]['runs']} runs; line: their " \
            f"middle half; {better} is better."
        yield Figure("compare", f"Libraries compared: {metric.name}", f"{sides[0]} divided by {sides[1]}, runs in turns, log scale",
                     caption, "ratios", rows=rows, sides=sides)


def beside_verbs(runs, entries):
    refusal = next(filter(None, (measure.inconclusive_reason(run.result) for run in runs)), "")
    verbs = {(e.run, e.key): e for e in entries if e.point["api"] == "verbs"}
    found = []
    for e in entries:
        other = verbs.get((e.run, Entry("", e.half, "", e.point | {"api": "verbs"}).key))
        if e.point["api"] != "librpma" or not other:
            continue
        both = [(METRICS[P50].of(a), METRICS[P50].of(b)) for a, b in zip(e.point["repeats"], other.point["repeats"])]
        ratios = [a / b for a, b in both if a is not None and b]
        if ratios:
            s = summary_of(ratios)
            found.append((e, s, *(number(summary_of(values).median, "ns") for values in zip(*(pair for pair in both if None not in pair)))))
    if not found:
        return []
    rows = [ratio_row(label, s.median, s.low, s.high, value, base_value, not refusal, True, s.runs)
            for label, (_, s, value, base_value) in zip(labelled([one[0] for one in found]), found)]
    caption = f"No conclusion: {refusal}." if refusal else f"Dot: median of the ratios of {span(row['runs'] for row in rows)} runs; " \
        "line: lowest to highest; below 1 librpma is faster."
    return [Figure("interfaces", "Overhead of the library over raw verbs", "librpma divided by raw verbs, median latency, log scale",
                   caption, "ratios", rows=rows, sides=("librpma", "raw verbs"))]


def bar_figures(entries, size):
    """Compares the interfaces at equal work: work on different memory is not comparable."""
    metric = METRICS[P50]
    admitted = [e for e in entries if not e.half and e.p["block_size"] == size and e.at_rest() and e.p["access"] == "sequential"
                and e.point["workload"] not in REPLICAS and summarize(e.point, metric)]
    rows, lines = [], ("api", "polling", "library", "run")
    for panel in split(admitted, without(ATTRIBUTES, lines)):
        if varying(panel, ("api", "library", "run")):
            head = texts(without(varying(admitted, ATTRIBUTES), lines), panel[0]) or operation(panel[0])
            parts, _ = lines_of(panel, lines)
            for label, index, part in parts:
                s = summarize(part[-1].point, metric)
                rows.append({"group": head, "label": label, "index": index, "value": s.median, "low": s.low, "high": s.high,
                             "runs": s.runs, "wide": s.wide})
    if rows:
        yield Figure("interfaces", "Equal work over each interface", f"{number(size, 'bytes')}, one operation in flight on one connection",
                     f"Median latency, median of {rows[0]['runs']} runs; lower is better.", "bars", y=Axis(metric.name, metric.unit, "linear"),
                     rows=rows)


def figures_of(runs, entries, groups=()):
    size = usual_block_size(entries)
    created = [figure for selection in SELECTIONS for figure in line_figures(entries, size, selection)]
    created += [figure for run in runs for figure in compared_figures(run)]
    created += [*beside_verbs(runs, entries), *bar_figures(entries, size)]
    return [figure for figure in created if not groups or figure.group in groups]


def confidence_interval(ours, other, min_confidence=0.95):
    """Returns the ratio of two samples of runs, its interval and the confidence of the interval. Sorts the ratios of
    all pairs of runs, and omits an equal number at both ends, as the distribution of the rank sum allows (Mann and
    Whitney)."""
    ratios = sorted(a / b for a in ours for b in other)
    n, m = len(ours), len(other)
    # Number of arrangements of n and m values with a given rank sum, by adding one value after another.
    ways = [[1] + [0] * (n * m)] + [[0] * (n * m + 1) for _ in range(n)]
    for last in range(1, n + m + 1):
        for taken in range(min(n, last), 0, -1):
            shift = last - taken
            if shift <= m:
                for total in range(n * m, shift - 1, -1):
                    ways[taken][total] += ways[taken - 1][total - shift]
    below, left_out, reached = 0, 0, 0.0
    for k in range((n * m) // 2):
        below += ways[n][k]
        confidence = 1 - 2 * below / math.comb(n + m, n)
        if confidence < min_confidence and k > 0:
            break
        left_out, reached = k, max(confidence, 0.0)
    middle = ratios[len(ratios) // 2] if len(ratios) % 2 else (ratios[len(ratios) // 2 - 1] + ratios[len(ratios) // 2]) / 2
    return middle, ratios[left_out], ratios[-1 - left_out], reached


def campaigns_compared(runs, entries):
    """Returns rows of a table: points that several runs contain, each beside the first run that contains it."""
    metrics = [METRICS[key] for key in (P50, MEAN, RATE)]
    alike = {}
    for e in entries:
        alike.setdefault(e.key, {})[e.run] = e
    shared = [by_run for by_run in alike.values() if len(by_run) > 1]
    distinct = ["operation", *without(varying([e for by_run in shared for e in by_run.values()], ATTRIBUTES),
                                      ("operation", "run", "library"))]
    for by_run in shared:
        base, *others = by_run.values()
        has_p50 = all(summarize(e.point, METRICS[P50]) for e in by_run.values())
        for metric in metrics:
            if metric.key == (MEAN if has_p50 else P50) or not summarize(base.point, metric):
                continue
            for e in others:
                s = summarize(e.point, metric)
                if s and s.low > 0 and summarize(base.point, metric).low > 0:
                    yield {"what": texts(distinct, e)} | compared_row(base, e, metric)


def compared_row(base, e, metric):
    values, base_values = ([metric.of(r) for r in one.point["repeats"]] for one in (e, base))
    ratio, low, high, confidence = confidence_interval(values, base_values)
    enough = confidence >= 0.8
    return {"metric": metric.name, "run": e.run, "base": base.run,
            "value": number(summary_of(values).median, metric.unit), "base_value": number(summary_of(base_values).median, metric.unit),
            "ratio": interval(ratio, low, high) if enough else f"{ratio:.2f}",
            "confidence": f"{confidence:.0%}" if enough else "too few runs",
            "verdict": measure.verdict_on(ratio, low, high, metric.lower_is_better) if enough else ""}
