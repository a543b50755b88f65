#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a result file with every kind of figure that a report can draw. The numbers come from a formula.

usage: report_sample.py FILE
"""

import json
import math
import sys

SIZES = [64, 256, 1024, 4096, 16384, 65536, 262144, 1048576]
APIS = {"librpma": 1.0, "verbs": 0.99, "tcp": 0.8, "memcpy": 0.01}
RANKS = [50, 90, 99, 99.9, 99.99, 99.999]


def parameters(**changes):
    return {"block_size": 4096, "depth": 1, "connections": 1, "threads": 1, "flush": "none", "flush_interval": 1,
            "polling": "busy", "access": "sequential", "cpu_load": 0, "target": "dram"} | changes


def latency_at(mean, rank):
    return mean * (0.9 + 0.12 * (-math.log10(1 - rank / 100)) ** 2)


def measure(mean, in_flight, size):
    per_s = in_flight * 1e9 / mean
    steps = [100 * (1 - 10 ** (-i / 12)) for i in range(1, 62)]
    counts = [int(2e6 * (b - a) / 100) for a, b in zip([0] + steps, steps)]
    histogram = [[round(latency_at(mean, rank), 1), n] for rank, n in zip(steps, counts) if n > 0]
    return {"operations": int(2 * per_s), "ops_per_s": per_s, "bytes_per_s": per_s * size,
            "latency_ns": {"min": mean * 0.7, "mean": mean, "max": mean * 6, "stddev": mean / 5,
                           "percentiles": [[rank, latency_at(mean, rank)] for rank in RANKS], "histogram": histogram}}


def point(workload, api, mean, changes, halves=False):
    setup = parameters(**changes)
    in_flight = setup["depth"] * setup["connections"]
    repeats = []
    for drift in (1.0, 1.01, 0.985):
        one = {"duration_s": 2, **measure(mean * drift * in_flight ** 0.7, in_flight, setup["block_size"]),
               "cpu_s": {"client": 1.1, "server": 0.7},
               "memory_per_connection_bytes": {"client": 70000, "server": 66000 + 2e6 / setup["connections"]},
               "verified": True}
        if halves:
            one["reads"] = measure(mean * drift * 0.8, in_flight * 0.7, setup["block_size"])
            one["writes"] = measure(mean * drift * 1.5, in_flight * 0.3, setup["block_size"])
        repeats.append(one)
    return {"workload": workload, "api": api, "library": "ours" if api == "librpma" else "", "parameters": setup,
            "status": "done", "reason": "", "repeats": repeats}


def cost(size):
    return 14000 + size * 0.9


def points():
    for api, factor in APIS.items():
        for size in SIZES:
            yield point("read", api, cost(size) * factor, {"block_size": size})
            for flush, extra in ("visibility", 1.6), ("persistent", 1.8):
                yield point("write_flush", api, cost(size) * factor * extra, {"block_size": size, "flush": flush})
    for size in SIZES:
        yield point("write_flush", "librpma", cost(size) * 2.6,
                    {"block_size": size, "flush": "persistent", "target": "pmem"})
        yield point("gpspm", "librpma", cost(size) * 2.1, {"block_size": size, "flush": "persistent"})
        yield point("gpspm", "librpma", cost(size) * 3.1,
                    {"block_size": size, "flush": "persistent", "polling": "event"})
        yield point("mix", "librpma", cost(size) * 1.3,
                    {"block_size": size, "read_percent": 70, "flush": "persistent"}, halves=True)
    for workload, size in ("send_recv", 64), ("atomic_write", 8), ("log_append", 64), ("write_with_imm", 64):
        yield point(workload, "librpma", cost(size) * 1.2, {"block_size": size})
    for depth in 2, 4, 8, 16, 32:
        for workload in "read", "write_flush":
            flush = "persistent" if workload == "write_flush" else "none"
            yield point(workload, "librpma", cost(4096), {"depth": depth, "flush": flush})
    for connections in 2, 4, 16, 64, 256, 512:
        yield point("read", "librpma", cost(4096), {"connections": connections})
    for threads in 1, 2, 4, 8:
        yield point("read", "librpma", cost(4096) / threads ** 0.8, {"connections": 8, "threads": threads})
    for threads in 2, 4:
        yield point("read", "librpma", cost(4096), {"connections": threads, "threads": threads})
    for interval in 2, 4, 8, 16, 32, 64:
        yield point("write_flush", "librpma", cost(4096) * (0.6 + 1.2 / interval),
                    {"flush": "persistent", "flush_interval": interval})
    for percent in 0, 10, 30, 50, 90, 100:
        yield point("mix", "librpma", cost(4096) * (1.8 - percent / 125), {"read_percent": percent,
                                                                           "flush": "persistent"}, halves=True)
    yield point("connect", "librpma", 290000, {"block_size": 0})
    for load in 25, 50, 75, 99:
        yield point("write_flush", "librpma", cost(4096) * (1 + load / 80), {"flush": "persistent", "cpu_load": load})
        yield point("gpspm", "librpma", cost(4096) * (2 + load / 20), {"flush": "persistent", "cpu_load": load})
    lost = point("read", "librpma", 1, {"connections": 1024})
    yield lost | {"status": "failed", "reason": "the server closed the connection after 12 s", "repeats": []}
    yield lost | {"parameters": parameters(target="pmem"), "status": "skipped", "reason": "PMem not found",
                  "repeats": []}


def pairs():
    cases = [("read", {}, 0.93), ("read", {"block_size": 65536}, 1.004), ("write_flush", {"flush": "persistent"}, 0.88),
             ("write_flush", {"flush": "persistent", "depth": 16}, 1.06)]
    for workload, changes, ratio in cases:
        sides = [{"workload": workload, "api": "librpma", "library": label, "parameters": parameters(**changes)}
                 for label in ("ours", "debian")]
        yield {"ours": sides[0], "other": sides[1], "metric": "latency_p50", "ours_value": 15000 * ratio,
               "other_value": 15000, "ratio": ratio, "ratio_low": ratio * 0.98, "ratio_high": ratio * 1.03, "runs": 9}


def results():
    host = {"cpu": "Example CPU 3.0 GHz", "cores": 2, "memory_bytes": 8 << 30, "os": "Debian GNU/Linux 12",
            "kernel": "6.1.0", "governor": "performance", "load": 0.1}
    return {"format": "rpma-bench-results", "version": 1, "profile": "standard", "complete": False,
            "started": "2026-01-31T12:00:00Z", "duration_s": 754.2,
            "environment": {"client": host, "server": host, "same_host": True, "device": "softrdma0",
                            "transport": "softrdma (TCP)", "persistence_level": "survives a crash of the program",
                            "target_memory": "anonymous DRAM", "rdma_core": "44.0", "tool": "rpma-bench 1.4.0",
                            "notes": ["Both ends share two processors."]},
            "libraries": [{"label": "ours", "file": "librpma.so.0", "version": "1.4.0"},
                          {"label": "debian", "file": "/usr/lib/librpma.so.0", "version": "1.3.0"}],
            "points": list(points()), "pairs": list(pairs())}


if len(sys.argv) != 2:
    sys.exit(__doc__)
with open(sys.argv[1], "w", encoding="utf-8") as out:
    json.dump(results(), out)
