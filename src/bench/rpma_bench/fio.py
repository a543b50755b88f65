# SPDX-License-Identifier: BSD-3-Clause
"""Measures points with fio and librpma's engines instead of rpma-bench's own loop."""

import json

from .common import Failure

ENGINES = {"read": "apm", "write_flush": "apm", "mix": "apm", "gpspm": "gpspm", "aof": "aof", "log_append": "aof"}
RANKS = (50, 90, 99, 99.9, 99.99, 99.999)


def skip_reason(setup):
    """Returns the reason why fio does not support the point; empty if it does."""
    p = setup["parameters"]
    if setup["workload"] not in ENGINES or setup["api"] != "librpma":
        return f"fio lacks an engine for {setup['workload']} over {setup['api']}"
    return "" if p["connections"] == p["threads"] else "a thread of fio has one connection"


def common(setup, side, address, port, engines):
    p, engine = setup["parameters"], ENGINES[setup["workload"]]
    name = f"librpma_{engine}_{side}"
    words = [f"--ioengine=external:{engines}/{name}.so" if engines else f"--ioengine={name}", "--thread", "--create_serialize=0", f"--serverip={address}", f"--port={port}",
             f"--numjobs={p['threads']}", f"--busy_wait_polling={int(p['polling'] == 'busy')}", f"--iodepth={p['depth']}"]
    return words + ([f"--mode={'sw' if setup['workload'] == 'aof' else 'hw'}"] if engine == "aof" else [])


def server_words(setup, port, place):
    p = setup["parameters"]
    target = place["target"]
    name = "malloc" if p["target"] == "dram" else target if target.startswith("/dev/") else f"{target}/rpma-bench-fio"
    words = ["--name=server", *common(setup, "server", place["address"], port, place["server_engines"]), "--size=64MiB", f"--filename={name}", "--idle_timeout=60",
             f"--direct_write_to_pmem={int(place['direct_write'])}", "--exitall"]
    if p["cpu_load"]:
        words += ["--name=cpuio", "--ioengine=cpuio", f"--cpuload={p['cpu_load']}", f"--numjobs={place['cores']}", "--time_based", "--runtime=1h"]
    return words


def client_words(setup, port, place, duration_s, ramp_s):
    p = setup["parameters"]
    operation = {"read": "read", "mix": "rw"}.get(setup["workload"], "write")
    words = ["--output-format=json", "--name=client", *common(setup, "client", place["address"], port, place["engines"]), "--group_reporting",
             f"--rw={'rand' if p['access'] == 'random' else ''}{operation}", f"--bs={p['block_size']}", f"--sync={int(p['depth'] == 1)}",
             "--time_based", f"--runtime={int(duration_s * 1000)}ms", f"--ramp_time={int(ramp_s * 1000)}ms", "--connect_timeout=30",
             "--disable_clat=1", "--lat_percentiles=1", f"--percentile_list={':'.join(map(str, RANKS))}"]
    return words + ([f"--rwmixread={p['read_percent']}"] if p["read_percent"] is not None else [])


def measure_of(job):
    latency = job["lat_ns"]
    percentiles = [[float(rank), float(ns)] for rank, ns in latency.get("percentile", {}).items() if ns]
    return {"operations": job["total_ios"], "ops_per_s": job["iops"], "bytes_per_s": float(job["bw_bytes"]), "latency_ns": {
        "min": latency["min"], "mean": latency["mean"], "max": latency["max"], "stddev": latency["stddev"],
        "percentiles": sorted(percentiles), "histogram": []}}


def run_of(output):
    """Parses the output of a client."""
    try:
        job = json.loads(output[output.index("{"):output.rindex("}") + 1])["jobs"][0]
        halves = {name: measure_of(job[key]) for name, key in (("reads", "read"), ("writes", "write")) if job[key]["total_ios"]}
        whole = next(iter(halves.values()))
        if len(halves) == 2:
            reads, writes = halves.values()
            whole = {name: reads[name] + writes[name] for name in ("operations", "ops_per_s", "bytes_per_s")}
            whole["latency_ns"] = {"percentiles": [], "histogram": [], "mean": (
                reads["latency_ns"]["mean"] * reads["operations"] + writes["latency_ns"]["mean"] * writes["operations"]) / whole["operations"]}
        return whole | (halves if len(halves) == 2 else {}) | {"duration_s": job["job_runtime"] / 1000, "cpu_s": {},
                                                               "memory_per_connection_bytes": {}, "verified": None}
    except (ValueError, KeyError, IndexError, TypeError, StopIteration) as error:
        words = output.strip().splitlines()
        raise Failure(f"fio reported no operations: {words[-1] if words else 'no output'}") from error


def run_point(client, server, setup, place, timing):
    """Returns the runs of a point and the output of fio. place contains the addresses and options of both processes."""
    runs, outputs = [], []
    for repeat in range(timing.repeats):
        port = place["port"] + repeat % 8 * 256  # a port may linger after its run
        serving = server.start([*place["start"], place["server_program"], *server_words(setup, port, place)], {}, place["server_node"])
        try:
            running = client.start([*place["start"], place["program"], *client_words(
                setup, port, place, timing.duration_s, min(timing.warm_up_s, timing.duration_s))], {}, place["node"])
            done = client.stop(running, timing.duration_s + timing.warm_up_s + 90)
        finally:
            served = server.stop(serving, 10)
        outputs += [f"# client: status {done['status']}\n{done['output']}", f"# server: status {served['status']}\n{served['output']}"]
        if done["status"] != 0:
            words = [line for line in (done["output"] + served["output"]).splitlines() if "fio:" in line or "rpma" in line]
            raise Failure(f"fio failed: {words[-1] if words else 'status ' + str(done['status'])}")
        runs.append(run_of(done["output"]))
    return runs, "\n".join(outputs)
