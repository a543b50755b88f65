# SPDX-License-Identifier: BSD-3-Clause
"""Points as rows of a report: their attributes as text, their metrics, and groups of them."""

import dataclasses
import math
import statistics

from ..common import count, number
from ..plan import REPLICAS
from ..results import setup_key, setup_of

API_NAMES = {"librpma": "librpma", "verbs": "raw verbs", "tcp": "plain TCP", "memcpy": "memcpy"}
OPERATIONS = {"write_flush": "write + flush", "gpspm": "GPSPM", "aof": "AoF", "send_recv": "send/receive",
              "write_with_imm": "write with immediate", "atomic_write": "atomic write", "log_append": "log append",
              "rpmem_flush_drain": "rpmem_flush + rpmem_drain"}
# Location of the target's data. Operations of librpmem use a mapped file, all others private memory unless stated.
MEMORIES = {"dram": "private DRAM", "pmem": "PMem", "file": "mapped file"}
# Runs of a point that differ by more than this factor are marked.
WIDE = 2


@dataclasses.dataclass(frozen=True)
class Run:
    name: str
    result: dict


@dataclasses.dataclass
class Entry:
    run: str
    half: str
    library: str
    point: dict

    @property
    def p(self):
        return self.point["parameters"]

    @property
    def key(self):
        return setup_key(setup_of(self.point) | {"library": ""}) + self.half

    def at_rest(self):
        return all(self.p[name] == plain for name, plain in (("depth", 1), ("connections", 1), ("threads", 1), ("cpu_load", 0)))


def operation(e):
    words = OPERATIONS.get(e.point["workload"], e.point["workload"])
    if e.point["workload"] == "write_flush" and e.p["flush"] != "none":
        words += f" ({e.p['flush']})"
    return f"{words}, {e.half}" if e.half else words


def memory(e):
    if e.point["workload"] in REPLICAS:
        return "mapped file of the replica"
    return MEMORIES.get(e.p["target"], e.p["target"])


def mixture(e):
    percent = e.p.get("read_percent")
    return "" if percent is None else f"{percent}/{100 - percent}"


# Name of each attribute, and the function that formats it for an entry, in the order of labels.
ATTRIBUTES = {
    "operation": ("operation", operation),
    "mixture": ("share of reads", mixture),
    "api": ("interface", lambda e: API_NAMES[e.point["api"]]),
    "library": ("library", lambda e: e.library),
    "run": ("run", lambda e: e.run),
    "memory": ("memory", memory),
    "access": ("access", lambda e: e.p["access"]),
    "polling": ("polling", lambda e: "busy polling" if e.p["polling"] == "busy" else "waiting for events"),
    "flush_interval": ("writes for each flush", lambda e: f"a flush every {e.p['flush_interval']}" if e.p["flush_interval"] != 1 else ""),
    "cpu_load": ("load of the target's processors", lambda e: f"{e.p['cpu_load']} % CPU load" if e.p["cpu_load"] else ""),
    "block_size": ("block size", lambda e: number(e.p["block_size"], "bytes") if e.p["block_size"] else ""),
    "depth": ("depth: operations in flight", lambda e: f"depth {e.p['depth']}"),
    "connections": ("connections", lambda e: count(e.p["connections"], "connection")),
    "threads": ("client's threads", lambda e: count(e.p["threads"], "thread") if e.p["threads"] != 1 else ""),
}


def text(attribute, e):
    return ATTRIBUTES[attribute][1](e)


def texts(attributes, e):
    return ", ".join(filter(None, (text(a, e) for a in attributes)))


def value_of(attribute, e):
    return e.p["read_percent"] or 0 if attribute == "mixture" else e.p[attribute]


def percentile(rank):
    return lambda r: next((ns for at, ns in r["latency_ns"]["percentiles"] if at == rank), None)


def latency(name):
    return lambda r: r["latency_ns"].get(name)


def cpu_for(r, number_of):
    client = r["cpu_s"].get("client")
    return None if not number_of or client is None else (client + (r["cpu_s"].get("server") or 0)) * 1e9 / number_of


@dataclasses.dataclass(frozen=True)
class Metric:
    key: str
    name: str
    unit: str
    lower_is_better: bool
    of: object


METRICS = {metric[0]: Metric(*metric) for metric in (
    *((f"latency_p{str(rank).replace('.', '_')}", "median latency" if rank == 50 else f"{rank}th percentile of latency", "ns", True,
       percentile(rank)) for rank in (50, 90, 99, 99.9, 99.99, 99.999)),
    ("latency_min", "lowest latency", "ns", True, latency("min")),
    ("latency_mean", "mean latency", "ns", True, latency("mean")),
    ("latency_max", "highest latency", "ns", True, latency("max")),
    ("latency_stddev", "standard deviation of latency", "ns", True, latency("stddev")),
    ("ops_per_s", "operations per second", "per_s", False, lambda r: r.get("ops_per_s")),
    ("bytes_per_s", "bandwidth", "bytes_per_s", False, lambda r: r.get("bytes_per_s")),
    ("cpu_per_op", "processor time per operation", "ns", True, lambda r: cpu_for(r, r["operations"])),
    ("cpu_busy", "processors busy, both ends", "percent", True, lambda r: cpu_for(r, (r.get("duration_s") or 0) * 1e7)),
    ("memory_client", "client's memory per connection", "bytes", True, lambda r: r["memory_per_connection_bytes"].get("client")),
    ("memory_server", "server's memory per connection", "bytes", True, lambda r: r["memory_per_connection_bytes"].get("server")),
)}


@dataclasses.dataclass(frozen=True)
class Summary:
    median: float
    low: float
    high: float
    runs: int

    @property
    def wide(self):
        return self.high > WIDE * self.low


def summary_of(values):
    return Summary(statistics.median(values), min(values), max(values), len(values))


def summarize(point, metric):
    values = [metric.of(r) for r in point["repeats"]]
    return summary_of(values) if values and None not in values else None


def library_names(result):
    """Names libraries by version, and also by path if two have the same version."""
    libraries = result["libraries"]
    versions = [one["version"].partition(" (build")[0] for one in libraries]
    return {one["label"]: f"librpma {version}" + (f" at {one['file']}" if versions.count(version) > 1 and one["file"] else "")
            for one, version in zip(libraries, versions)}


def entries_of(runs):
    names = {run.name: library_names(run.result) for run in runs}
    used = {(run.name, p["library"]) for run in runs for p in run.result["points"] if p["api"] == "librpma"}
    several = len({names[run].get(label, label) for run, label in used}) > 1
    entries = []
    for run in runs:
        for point in run.result["points"]:
            library = names[run.name].get(point["library"], point["library"]) if several and point["api"] == "librpma" else ""
            entries.append(Entry(run.name, "", library, point))
            for half in "reads", "writes":
                if point["repeats"] and all(r.get(half) for r in point["repeats"]):
                    part = point | {"repeats": [r | r[half] for r in point["repeats"]]}
                    entries.append(Entry(run.name, half, library, part))
    return entries


def split(entries, by):
    """Groups entries by these attributes, in the order of the first entry of each group."""
    parts = {}
    for e in entries:
        parts.setdefault(tuple(text(a, e) for a in by), []).append(e)
    return list(parts.values())


def varying(entries, among):
    return [a for a in among if len({text(a, e) for e in entries}) > 1]


def without(attributes, some):
    return [a for a in attributes if a not in some]


def usual_block_size(entries):
    sizes = [e.p["block_size"] for e in entries if e.at_rest()]
    return min(sizes, key=lambda size: abs(math.log2(max(size, 1)) - 12), default=0)
