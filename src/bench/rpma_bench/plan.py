# SPDX-License-Identifier: BSD-3-Clause
"""Plans: the points to measure, and their timing."""

import copy
import dataclasses
import itertools

from .common import USAGE, Failure, number
from .results import APIS, setup_key

WORKLOADS = ("read", "write_flush", "gpspm", "aof", "send_recv", "write_with_imm", "atomic_write", "log_append", "mix", "connect",
             "rpmem_persist", "rpmem_flush_drain")
ANSWERED = ("gpspm", "aof", "send_recv", "write_with_imm")  # the server's program takes part
REPLICAS = ("rpmem_persist", "rpmem_flush_drain")
FLUSHED = ("write_flush", "gpspm", "aof", "log_append", "mix", "atomic_write")
# Placeholder for the memory of the target, which is known after the server has started.
TARGET = "target"
NETWORK = APIS[:3]
QUARTERS = [64, 4 << 10, 64 << 10, 1 << 20]
EIGHTHS = [64 * 4 ** i for i in range(8)]
SWEEPS = {
    "block-size": {"block_size": EIGHTHS},
    "depth": {"depth": [2 ** i for i in range(8)]},
    "connections": {"connections": [2 ** i for i in range(10)]},
    "threads": {"threads": [1, 2, 4, 8], "connections": [8]},
    "flush-interval": {"flush_interval": [2 ** i for i in range(7)]},
    "read-percent": {"read_percent": [0, 10, 30, 50, 70, 90, 100]},
    "cpu-load": {"cpu_load": [0, 25, 50, 75, 90, 99]},
    "polling": {"polling": ["busy", "event"]},
}
PLAIN = {"connections": [1], "threads": [1], "depth": [1], "block_size": [4096], "flush": ["visibility"], "memory": [None],
         "flush_interval": [1], "polling": ["busy"], "access": ["sequential"], "read_percent": [70], "cpu_load": [0],
         "api": ["librpma"]}
RANGES = {"block_size": ("block size", 8, 64 << 20), "depth": ("depth", 1, 4096), "connections": ("connections", 1, 4096),
          "threads": ("threads", 1, 256), "flush_interval": ("flush interval", 1, 1024), "cpu_load": ("CPU load", 0, 99),
          "read_percent": ("read percentage", 0, 100)}


@dataclasses.dataclass
class Timing:
    repeats: int = 3
    duration_s: float = 1
    warm_up_s: float = 2

    def estimate_s(self, points):
        return points * (0.3 + min(0.4, self.warm_up_s) + self.repeats * (self.duration_s + 0.1))


@dataclasses.dataclass
class Plan:
    profile: str
    setups: list
    timing: Timing


def check_axes(axes):
    for name, (words, low, high) in RANGES.items():
        for value in axes.get(name, ()):
            if not low <= value <= high:
                raise Failure(f"{words} {value} is out of range ({low} to {high})", USAGE)
    for value in axes.get("block_size", ()):
        if value % 8:
            raise Failure(f"block size {value} is not a multiple of 8", USAGE)


def normalized(workload, values):
    """Sets unused parameters of a workload to their default, so that equal measurements have equal setups."""
    p = {name: values[name] for name in ("block_size", "depth", "connections", "threads", "flush", "flush_interval", "polling",
                                         "access", "read_percent", "cpu_load")}
    p["target"] = values["memory"] or (TARGET if p["flush"] == "persistent" else "dram")
    if workload not in FLUSHED:
        p["flush"] = "none"
    elif workload != "atomic_write" and p["flush"] == "none":
        p["flush"] = "visibility"
    if workload not in ("write_flush", "rpmem_flush_drain"):
        p["flush_interval"] = 1
    if workload in REPLICAS:
        p |= {"depth": 1, "polling": "busy"}
    if workload != "mix":
        p["read_percent"] = None
    if workload == "atomic_write":
        p["block_size"] = 8
    if workload == "connect":
        p |= {"block_size": 0, "depth": 1, "connections": p["threads"]}
    return {"workload": workload, "api": values["api"], "library": "ours" if values["api"] == "librpma" else "", "parameters": p}


def distinct(setups):
    return list({setup_key(one): one for one in setups}.values())


def expand(workloads, **axes):
    """Returns all combinations of the axes without duplicates."""
    check_axes(axes)
    axes = PLAIN | axes
    names = list(PLAIN)
    setups = []
    for workload, *values in itertools.product(workloads, *(axes[name] for name in names)):
        if workload not in WORKLOADS:
            raise Failure(f"unknown workload '{workload}' (choose from {', '.join(WORKLOADS)})", USAGE)
        one = dict(zip(names, values))
        if one["threads"] > one["connections"]:
            raise Failure(f"{one['threads']} threads exceed {one['connections']} connections: each thread needs one", USAGE)
        setups.append(normalized(workload, one))
    return distinct(setups)


def sweep(axis, workloads, **axes):
    if axis not in SWEEPS:
        raise Failure(f"unknown axis '{axis}' (choose from {', '.join(SWEEPS)})", USAGE)
    return expand(workloads, **(axes | SWEEPS[axis]))


def replicas(sizes):
    return expand(["rpmem_persist"], block_size=sizes) + expand(["rpmem_flush_drain"], block_size=sizes, flush_interval=[32])


def quick():
    return (expand(["read", "write_flush"], api=APIS, block_size=QUARTERS)
            + expand(["send_recv", "write_with_imm", "gpspm", "aof", "log_append", "atomic_write"], api=["librpma", "verbs"])
            + expand(["mix", "connect"]) + replicas([64, 4096])
            + expand(["write_flush", "gpspm", "aof", "log_append"], flush=["persistent"])
            + expand(["read", "write_flush"], depth=[16]) + expand(["write_flush"], connections=[4, 16]))


def standard():
    work = ["read", "write_flush", "send_recv"]
    return (expand(work, api=APIS, block_size=EIGHTHS)
            + expand(["write_with_imm", "gpspm", "aof", "log_append", "atomic_write", "mix", "connect"], api=APIS)
            + replicas(QUARTERS)
            + expand(["read", "write_flush", "gpspm", "aof", "log_append"], flush=["persistent"], memory=[TARGET],
                     block_size=[256, 4096, 64 << 10])
            + [one for axis in ("depth", "connections", "threads") for one in sweep(axis, work)]
            + sweep("cpu-load", ["write_flush", "gpspm"], polling=["busy", "event"])
            + sweep("flush-interval", ["write_flush"]) + sweep("read-percent", ["mix"]))


def full():
    return (standard()
            + expand(WORKLOADS, api=NETWORK, block_size=QUARTERS, depth=[1, 4, 16], access=["sequential", "random"],
                     polling=["busy", "event"])
            + expand(["write_flush", "gpspm", "aof", "log_append", "mix", "atomic_write"], flush=["visibility", "persistent"],
                     memory=["dram", TARGET], block_size=EIGHTHS[:7]))


def comparison():
    return distinct(expand(["write_flush", "read"], block_size=QUARTERS, depth=[1, 16])
                    + expand(["write_flush"], block_size=[64, 4096], connections=[4, 16])
                    + expand(["send_recv", "write_with_imm", "gpspm", "aof", "atomic_write", "log_append", "mix", "connect"]))


PROFILES = {"quick": (quick, Timing(2, 0.4, 0.6)), "standard": (standard, Timing(3, 1.5, 2)), "full": (full, Timing(5, 5, 5))}


def profile(name):
    if name not in PROFILES:
        raise Failure(f"unknown profile '{name}' (choose quick, standard or full)", USAGE)
    setups, timing = PROFILES[name]
    return Plan(name, distinct(setups()), copy.copy(timing))


def describe(setup):
    p = setup["parameters"]
    words = [setup["workload"], number(p["block_size"], "bytes") if p["block_size"] else "", setup["api"],
             f"({setup['library']})" if setup["library"] not in ("", "ours") else "",
             "persistent" if p["flush"] == "persistent" else "", p["target"] if p["target"] != "dram" else ""]
    for name, plain in ("depth", 1), ("connections", 1), ("threads", 1), ("flush_interval", 1):
        words.append(f"{name.replace('_', ' ')} {p[name]}" if p[name] != plain else "")
    words += [f"reads {p['read_percent']} %" if p.get("read_percent") is not None else "",
              p["polling"] if p["polling"] != "busy" else "", p["access"] if p["access"] != "sequential" else "",
              f"load {p['cpu_load']} %" if p["cpu_load"] else ""]
    return " ".join(filter(None, words))
