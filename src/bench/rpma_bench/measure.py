# SPDX-License-Identifier: BSD-3-Clause
"""Measures the points of a plan one after another, or two sides in turns, and keeps the result file up to date."""

import os
import shlex
import statistics
import sys
import time

from . import plan, results
from .common import USAGE, Failure, PeerGone, count, duration, interval, number, quartiles
from .ends import Ends, hardware_address

TO_DO = "not measured yet"
FEW_CORES = 4  # two polling threads and the threads of a software device
NAME_WIDTH = 50
# Smaller differences are noise on most machines.
NOISE = 0.03
# Limit for the ratio of the upper to the lower bound of a pair's interval. Wider intervals are caused by disturbances.
WIDEST = 1.5
REMEDY = "stop other work on the machine, or measure longer (--repeats 45), and measure again"


class Progress:
    """Progress bar on a terminal."""

    def __init__(self, points, estimate_s):
        self.points, self.estimate_s, self.started = points, estimate_s, time.monotonic()
        self.on_terminal = sys.stderr.isatty()

    def left_s(self, done, elapsed_s):
        """Estimates the remaining time from the plan, or from the pace of the finished points if that is slower."""
        planned = self.estimate_s / max(self.points, 1)
        return (max(planned, elapsed_s / done) if done else planned) * (self.points - done)

    def show(self, done, text):
        if self.on_terminal:
            full = 24 * done // max(self.points, 1)
            left = int(self.left_s(done, time.monotonic() - self.started))
            print(f"\r\033[K[{'#' * full}{'.' * (24 - full)}] {done}/{self.points}  {left // 60}:{left % 60:02} left  {text}",
                  end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.on_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def was_busy(host):
    return bool(host.get("load") and host.get("cores") and host["load"] > 0.5 * host["cores"])


def inconclusive_reason(result):
    """Returns why the result allows no verdict; empty if it does."""
    for host in (result["environment"][end] for end in ("client", "server")):
        if was_busy(host):
            return f"the load was {host['load']:.1f} on {host['cores']} processors when the run began: {REMEDY}"
    wide = sum(pair["ratio_high"] > WIDEST * pair["ratio_low"] for pair in result["pairs"])
    if wide * 4 <= len(result["pairs"]):
        return ""
    return f"the runs of {wide} of {len(result['pairs'])} comparisons differ too much among themselves: {REMEDY}"


def verdict_on(ratio, low, high, lower_is_better):
    """Returns the verdict of a ratio. An interval that contains 1 means no difference."""
    if low <= 1 <= high or abs(ratio - 1) <= NOISE:
        return "no difference"
    return "better" if (ratio < 1) == lower_is_better else "worse"


def skip_reason(setup, target):
    """Returns why the point cannot be measured here; empty if it can."""
    p, workload, api = setup["parameters"], setup["workload"], setup["api"]
    if api == "memcpy" and workload in (*plan.ANSWERED, "connect"):
        return "memcpy has only one end"
    if workload in plan.REPLICAS and api != "librpma":
        return "librpmem uses librpma only"
    if workload in plan.REPLICAS and not target["here"]:
        return "the replica is kept on this machine: measure it with rpma-bench local"
    if p["target"] not in ("dram", target["word"]):
        return "the server lacks a file or PMem (start it with --target)"
    if p["flush"] == "persistent" and api in ("librpma", "verbs") and workload not in ("gpspm", "aof") and not target["direct_write"]:
        return "the server does not write directly to PMem (see --direct-write)"
    return ""


def is_crowded(environment):
    return environment["same_host"] and (environment["server"].get("cores") or FEW_CORES) < FEW_CORES


def resolve_setups(setups, ends):
    """Sets the parameters that depend on the machines: the kind of the target, and polling if both ends have processors."""
    for one in setups:
        p = one["parameters"]
        if p["target"] == plan.TARGET and ends.target["word"] != "dram":
            p["target"] = ends.target["word"]
        answered = one["api"] == "tcp" or one["workload"] in plan.ANSWERED
        if is_crowded(ends.environment) and answered and one["api"] != "memcpy":
            p["polling"] = "event"
    return plan.distinct(setups)


def begin_results(profile, ends):
    result = results.empty(profile, ends.environment)
    result["libraries"] = [{"label": "ours", **ends.library_facts}]
    notes, cores = result["environment"]["notes"], result["environment"]["server"].get("cores")
    if ends.same_host:
        notes.append("Both ends ran on one machine and shared its processors.")
    if is_crowded(ends.environment):
        notes.append(f"With {cores} processors, programs that poll at both ends compete for them: where the server's "
                     "program takes part, both ends slept for completions.")
    return result


def to_do(setup):
    return {**setup, "status": "skipped", "reason": TO_DO, "repeats": []}


def is_pending(point):
    return point["status"] == "failed" or point["reason"] == TO_DO


def measure_point(ends, timing, point):
    """Measures a point and stores the results in it. Raises only PeerGone."""
    point["repeats"] = []
    if reason := skip_reason(point, ends.target):
        point |= {"status": "skipped", "reason": reason}
        return
    try:
        ends.open(results.setup_of(point))
        ends.warm_up(timing.warm_up_s)
        for _ in range(timing.repeats):
            point["repeats"].append(ends.run(timing.duration_s))
        ends.close()
    except PeerGone as gone:
        point |= {"status": "failed", "reason": str(gone)}
        raise
    except Failure as failure:
        point |= {"status": "failed", "reason": str(failure)}
        ends.close()
        return
    verified = all(one["verified"] is not False for one in point["repeats"])
    point |= {"status": "done", "reason": ""} if verified else {"status": "failed", "reason": "data mismatch: the read data differs from the written data"}


def percentile(one, rank):
    return next((ns for at, ns in one["latency_ns"]["percentiles"] if at == rank), None)


def table_line(point):
    name = f"{plan.describe(point):<{NAME_WIDTH}}"
    if point["status"] != "done":
        return f"{name} {'FAILED' if point['status'] == 'failed' else 'skipped'}: {point['reason']}"
    columns = (10, "ns", lambda r: percentile(r, 50)), (10, "ns", lambda r: percentile(r, 99)), \
        (10, "per_s", lambda r: r["ops_per_s"]), (12, "bytes_per_s", lambda r: r["bytes_per_s"])
    for width, unit, get in columns:
        values = [value for one in point["repeats"] if (value := get(one)) is not None]
        name += f" {number(statistics.median(values), unit) if values else '-':>{width}}"
    return name


def run_points(ends, timing, result, path, write=print):
    """Measures the points that are not done. Returns false if a point failed."""
    pending = [point for point in result["points"] if is_pending(point)]
    bar, before, started = Progress(len(pending), timing.estimate_s(len(pending))), result["duration_s"], time.monotonic()

    def save():
        result["duration_s"] = before + time.monotonic() - started
        result["complete"] = not any(map(is_pending, result["points"]))
        results.save(path, result)

    save()
    write(f"{'':<{NAME_WIDTH}} {'p50':>10} {'p99':>10} {'ops':>10} {'bandwidth':>12}")
    for done, point in enumerate(pending):
        bar.show(done, plan.describe(point))
        try:
            measure_point(ends, timing, point)
        except PeerGone as gone:
            raise Failure(f"{gone}; the completed points are in {path} (continue with --resume {shlex.quote(path)})") from gone
        finally:
            save()
            bar.clear()
            if not is_pending(point) or point["status"] == "failed":
                write(table_line(point), flush=True)
    return result["complete"]


def usual_target():
    place = os.environ.get("TMPDIR") or "/var/tmp"
    return place if os.access(place, os.W_OK) else ""


def where(programs, options):
    """Keyword arguments of Ends."""
    kept = {"library": options.lib}
    if getattr(options, "server", None):
        return kept | {"server": options.server, "port": options.port, "softrdma": options.transport == "softrdma",
                       "target": ""}
    hardware = "" if options.transport == "softrdma" else hardware_address()
    if options.transport == "kernel" and not hardware and not options.address:
        raise Failure("no RDMA device has an active port with an IPv4 address (see `rdma link show`, or use --transport softrdma)", 77)
    softrdma = options.transport != "kernel" and not hardware
    if softrdma:
        reason = programs.shm_unavailable_reason()
        print("No RDMA device with an active port: both ends run on softrdma, a software device.")
        if reason:
            print(f"The path for programs of one host is {reason}.")
    target = {"auto": usual_target(), "none": ""}.get(options.target, options.target)
    return kept | {"softrdma": softrdma, "host": options.address or hardware or "127.0.0.1", "target": target}


def result_file(options):
    return options.out or f"rpma-bench-{results.now_utc().replace(':', '')}.json"


def resume(path, timing):
    earlier = results.load(path)
    if not earlier["points"] or earlier["pairs"]:
        raise Failure(f"{path}: cannot resume: it contains no planned points", USAGE)
    done = next((point["repeats"] for point in earlier["points"] if point["status"] == "done" and point["repeats"]), None)
    if done:
        timing.repeats, timing.duration_s = len(done), round(done[0].get("duration_s") or 1, 2)
    return earlier


def check_same_environment(earlier, ends, path):
    before, now = earlier["libraries"][0]["version"] if earlier["libraries"] else "none", ends.library_facts["version"]
    device, here = earlier["environment"]["device"], ends.environment["device"]
    if device != here or before != now:
        raise Failure(f"{path}: measured on {device} with librpma {before}, not on {here} with {now} (start a new run)", USAGE)


def check_same_plan(earlier, requested, path):
    """Rejects a profile or axes that contradict those of the run to resume."""
    if requested is not None and earlier["profile"] != requested.profile:
        raise Failure(f"{path}: measured with the profile {earlier['profile']}, not {requested.profile} (omit the profile, or "
                      "start a new run)", USAGE)
    if requested is not None and requested.profile == "custom":
        raise Failure(f"{path}: contains its own points (omit workloads and axes, or start a new run)", USAGE)


def measure(programs, options, requested, explicit):
    """Implements local, client and sweep. explicit: the user chose the plan."""
    timing = requested.timing
    earlier = None
    if getattr(options, "resume", None):
        earlier = resume(options.resume, timing)
        check_same_plan(earlier, requested if explicit else None, options.resume)
    path = options.resume if earlier else result_file(options)
    with Ends(programs, **where(programs, options)) as ends:
        if earlier:
            check_same_environment(earlier, ends, path)
            result = earlier
        else:
            result = begin_results(requested.profile, ends)
            result["points"] = list(map(to_do, resolve_setups(requested.setups, ends)))
            e = ends.environment
            pace = "on this busy machine more than" if was_busy(e["client"]) else "about"
            print(f"Device {e['device']} ({e['transport']}), target {ends.target['description']}; "
                  f"{count(len(result['points']), 'point')}, {pace} {duration(timing.estimate_s(len(result['points'])))}")
        options.interrupted = f"the completed points are in {path} (continue with --resume {shlex.quote(path)})"
        run_points(ends, timing, result, path)
    return result, path


def library_text(library):
    return f"librpma {library['version']}, {library['file']}"


def add_pairs(result, ours, other):
    for metric, get in ("latency_p50", lambda r: percentile(r, 50)), ("ops_per_s", lambda r: r["ops_per_s"]):
        both = [(get(a), get(b)) for a, b in zip(ours["repeats"], other["repeats"])]
        both = [(a, b) for a, b in both if a is not None and b]
        if both:
            low, middle, high = quartiles([a / b for a, b in both])
            result["pairs"].append({
                "ours": results.setup_of(ours), "other": results.setup_of(other), "metric": metric,
                "ours_value": statistics.median(a for a, _ in both), "other_value": statistics.median(b for _, b in both),
                "ratio": middle, "ratio_low": low, "ratio_high": high, "runs": len(both)})


def measure_both(sides, points, timing):
    """Measures both sides alternately. The side that starts a pair alternates too, so that a drift favors neither."""
    try:
        for ends, point in zip(sides, points):
            ends.open(results.setup_of(point))
        for ends in sides:
            ends.warm_up(timing.warm_up_s)
        turns = list(zip(sides, points))
        for _ in range(timing.repeats):
            for ends, point in turns:
                point["repeats"].append(ends.run(timing.duration_s))
                if point["repeats"][-1]["verified"] is False:
                    raise Failure("data mismatch: the read data differs from the written data")
            turns.reverse()
        status, reason = "done", ""
    except PeerGone:
        raise
    except Failure as failure:
        status, reason = "failed", str(failure)
    for ends, point in zip(sides, points):
        point |= {"status": status, "reason": reason}
        ends.close()


def comparison_line(point, pairs):
    name = f"{plan.describe(point):<46}"
    if point["status"] != "done":
        return f"{name} {'FAILED' if point['status'] == 'failed' else 'skipped'}: {point['reason']}"
    for metric in "latency_p50", "ops_per_s":
        pair = next((p for p in pairs if p["metric"] == metric), None)
        name += (f" {pair['ours_value'] / 1000:>10.2f} {pair['other_value'] / 1000:>10.2f} "
                 f"{interval(pair['ratio'], pair['ratio_low'], pair['ratio_high']):>21}" if pair else f" {'-':>43}")
    return name


def conclusion(result):
    reason = inconclusive_reason(result)
    if reason:
        return f"No conclusion: {reason}"
    words = []
    for metric in sorted({pair["metric"] for pair in result["pairs"]}):
        verdicts = [verdict_on(p["ratio"], p["ratio_low"], p["ratio_high"], metric == "latency_p50") for p in result["pairs"]
                    if p["metric"] == metric]
        words.append(f"{metric}: " + ", ".join(f"{verdicts.count(v)} {v}" for v in ("better", "worse", "no difference")))
    return "; ".join(words)


def compare(programs, options, requested):
    if not options.against:
        raise Failure("--against is missing (a librpma.so.0, a directory that contains one (Debian's: the output of "
                      "utils/fetch-debian-librpma DIRECTORY), verbs or tcp)", USAGE)
    other_api = options.against if options.against in ("verbs", "tcp") else "librpma"
    place, path, timing = where(programs, options), result_file(options), requested.timing
    other_environment = place | ({"library": options.against} if other_api == "librpma" else {})
    with Ends(programs, **place) as ours, Ends(programs, **other_environment) as other:
        setups = resolve_setups(requested.setups, ours)
        result = begin_results("compare", ours)
        label = "other" if other_api == "librpma" else options.against
        if label == "other":
            result["libraries"].append({"label": label, **other.library_facts})
        print(f"ours  {library_text(result['libraries'][0])}\n"
              f"other {label if label != 'other' else library_text(result['libraries'][1])}\n"
              "Ratio: this library divided by the other, median of the runs (middle half of the runs). Below 1 the latency is better, above 1 "
              "the rate.")
        head = f" {'ours':>10} {'other':>10} {'ratio':>21}" * 2
        print(f"{'':<46} {'p50, µs':^43} {'thousand operations per second':^43}\n{'':<46}{head}")
        options.interrupted = f"the completed comparisons are in {path}"
        result["complete"] = True
        bar, started = Progress(len(setups), 2 * timing.estimate_s(len(setups))), time.monotonic()
        for done, setup in enumerate(setups):
            bar.show(done, plan.describe(setup))
            points = [to_do(setup | {"api": api, "library": side if api == "librpma" else ""})
                      for api, side in (("librpma", "ours"), (other_api, label))]
            reason = skip_reason(points[0], ours.target) or skip_reason(points[1], other.target)
            for point in points:
                point["reason"] = reason
            pairs = len(result["pairs"])
            if not reason:
                measure_both((ours, other), points, timing)
                if points[0]["status"] == "done":
                    add_pairs(result, *points)
            result["complete"] &= points[0]["status"] != "failed"
            result["points"] += points
            result["duration_s"] = time.monotonic() - started
            results.save(path, result)
            bar.clear()
            print(comparison_line(points[0], result["pairs"][pairs:]), flush=True)
        print(conclusion(result))
    return result, path
