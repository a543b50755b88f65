# SPDX-License-Identifier: BSD-3-Clause
"""A campaign: one file describes two machines, a matrix of points and an environment; one command measures and reports it."""

import contextlib
import copy
import dataclasses
import json
import os
import pathlib
import shlex
import time
import tomllib

from . import fio, measure, plan, results
from .common import CANNOT_RUN, USAGE, Failure, PeerGone, count, duration, read_text, replace_file
from .ends import Ends, hardware_address
from .sites import RemoteSite, Site, numa, serve_site

HOOKS = {"before": [str], "during": [str], "after": [str]}
AXES = {"workload": [str], "api": [str], "block_size": [int], "depth": [int], "connections": [int], "threads": [int], "flush": [str],
        "flush_interval": [int], "polling": [str], "access": [str], "read_percent": [int], "cpu_load": [int], "memory": [str]}
CONFIG = {
    "title": str, "label": str, "library": str, "transport": ("auto", "kernel", "softrdma"),
    "server": HOOKS | {"ssh": str, "ssh_command": str, "program": str, "address": str, "target": str, "numa_node": int,
                       "direct_write": ("auto", "on", "off"), "ddio": ("on", "off")},
    "client": HOOKS | {"numa_node": int},
    "matrix": [AXES | {"profile": str, "like": str, "driver": ("rpma-bench", "fio")}],
    "timing": {"repeats": int, "duration_s": float, "warm_up_s": float},
    "fio": {"program": str, "server_program": str, "engines": str, "server_engines": str, "port": int},
    "report": None,
}
TYPES = {str: (str, "a text"), int: (int, "a whole number"), float: ((int, float), "a number")}
QUICK_S, QUICK_POINTS = 600, 120


def add_commands(verbs):
    parser = verbs.add_parser("campaign", help="measure a campaign, which a file describes, on two machines")
    parser.add_argument("file", help="the campaign as TOML or JSON (see rpma-bench(1))")
    parser.add_argument("-o", "--out", metavar="DIRECTORY", help="results, outputs of commands, reports (default: the name of the file)")
    parser.add_argument("--resume", action="store_true", help="continue the campaign in that directory")
    parser.add_argument("--label", help="name of the environment, if it was changed since the first part")
    parser.add_argument("--like", choices=("rpma_fio_bench",), help="the matrix of 590 points of librpma's old script")
    parser.add_argument("--quick", action="store_true", help="measure some points of the matrix in short runs, for at most 10 minutes")
    parser.add_argument("--plan", action="store_true", help="only print the points and the expected time")
    parser.set_defaults(run=run)
    # The command that a campaign starts on the remote machine over ssh.
    verbs.add_parser("site").set_defaults(run=serve_site)


def check_config(value, shape, place):
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise Failure(f"{place}: is not a table", USAGE)
        for name, inner in value.items():
            if name not in shape:
                raise Failure(f"{place}: unknown key \"{name}\" (choose from {', '.join(shape)})", USAGE)
            if shape[name] is not None:
                check_config(inner, shape[name], f"{place}: {name}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise Failure(f"{place}: is not a list", USAGE)
        for one in value:
            check_config(one, shape[0], place)
    elif isinstance(shape, tuple):
        if value not in shape:
            raise Failure(f"{place}: is not one of {', '.join(shape)}", USAGE)
    elif isinstance(value, bool) or not isinstance(value, TYPES[shape][0]):
        raise Failure(f"{place}: is not {TYPES[shape][1]}", USAGE)


def read_config(path):
    text = read_text(path)
    try:
        config = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path}: is neither TOML nor JSON: {error}", USAGE) from error
    check_config(config, CONFIG, path)
    from .report.command import check_template  # noqa: PLC0415
    config["report"] = check_template(config.get("report", {}), path)
    timing = plan.Timing(**config.get("timing", {}))
    if not (1 <= timing.repeats <= 1000 and 0.01 <= timing.duration_s <= 3600 and 0 <= timing.warm_up_s <= 3600):
        raise Failure(f"{path}: timing: choose 1 to 1000 repeats, a duration of 0.01 to 3600 s and a warm-up of at most 3600 s", USAGE)
    return config, timing


def like_rpma_fio_bench(cores):
    """The matrix of `rpma_fio_bench.sh ADDRESS all all all`: each sweep of each operation. Points that two sweeps share are
    measured in both, as the script did."""
    sizes, powers = [256, 1024, *(4096 << i for i in range(7))], [2 ** i for i in range(8)]
    loads, lat, bw = [0, 25, 50, 75, 99], {"depth": [1]}, {"depth": [2]}
    sweeps = [lat | {"block_size": sizes}, bw | {"block_size": sizes}, {"depth": powers}, {"depth": list(range(1, 11))},
              *(bw | {"threads": [n], "connections": [n]} for n in (1, 2, 4, 8, 12, 16, 32, 64)), lat | {"cpu_load": loads},
              bw | {"block_size": [64 << 10], "cpu_load": loads}, bw | {"threads": [cores], "connections": [cores], "cpu_load": loads}]
    operations = [(workload, access) for workload in ("read", "write_flush", "mix", "gpspm") for access in ("sequential", "random")]
    operations += [("aof", "sequential"), ("log_append", "sequential")]
    return [one for workload, access in operations for sweep in sweeps for one in plan.expand([workload], access=[access], **sweep)]


def matrix_of(config, like, cores):
    """Returns pairs of a setup and the program that measures it: rpma-bench or fio."""
    points = []
    for part in [{"like": like}] if like else config.get("matrix") or [{"profile": "quick"}]:
        axes = {name: value for name, value in part.items() if name in AXES}
        for name, words in ("api", results.APIS), ("flush", results.FLUSHES), ("polling", results.POLLINGS), ("access", results.ACCESSES):
            if unknown := [word for word in axes.get(name, ()) if word not in words]:
                raise Failure(f"matrix: unknown {name} '{unknown[0]}' (choose from {', '.join(words)})", USAGE)
        workloads = axes.pop("workload", None)
        if sum((bool(part.get("profile")), bool(part.get("like")), bool(axes or workloads))) != 1:
            raise Failure("matrix: a part has a profile, the name of a script, or workloads and axes (choose one)", USAGE)
        if part.get("like", "rpma_fio_bench") != "rpma_fio_bench":
            raise Failure(f"matrix: like: unknown script '{part['like']}' (choose rpma_fio_bench)", USAGE)
        setups = (plan.profile(part["profile"]).setups if part.get("profile") else like_rpma_fio_bench(cores) if part.get("like")
                  else plan.expand(workloads or ["read", "write_flush", "send_recv"], **axes))
        points += [(one, part.get("driver", "rpma-bench")) for one in copy.deepcopy(setups)]
    return points


def thinned(points, timing):
    """Returns evenly spread points and shorter timing, so that the measurement takes ten minutes."""
    if len(points) > QUICK_POINTS:
        points = [points[i * len(points) // QUICK_POINTS] for i in range(QUICK_POINTS)]
    timing = plan.Timing(min(timing.repeats, 3), min(timing.duration_s, 0.5), min(timing.warm_up_s, 0.2))
    while timing.estimate_s(len(points)) > QUICK_S * 0.7 and timing.duration_s > 0.05:
        timing.duration_s /= 2
    return points, timing


class Campaign:
    def __init__(self, programs, options, config, timing, stack):
        self.programs, self.options, self.config, self.timing, self.stack = programs, options, config, timing, stack
        self.server_config, self.client_config = config.get("server", {}), config.get("client", {})
        self.directory = pathlib.Path(options.out or pathlib.Path(options.file).with_suffix("").name)
        self.path = str(self.directory / "results.json")
        self.client = Site(programs)
        stack.callback(self.client.close)
        self.deadline = time.monotonic() + QUICK_S - 30 if options.quick else None

    def connect(self):
        """Connects to the remote machine, and starts the server there."""
        config, server = self.config, self.server_config
        if server.get("ssh"):
            if not server.get("address"):
                raise Failure(f"{self.options.file}: server: \"address\" is missing (the address of its RDMA device)", USAGE)
            self.server = RemoteSite(server.get("ssh_command", "ssh"), server["ssh"], server.get("program", "rpma-bench"),
                                     self.programs.version)
            self.stack.callback(self.server.close)
        else:
            self.server = self.client
        hardware = "" if config.get("transport") == "softrdma" else hardware_address()
        self.softrdma = config.get("transport") == "softrdma" or (config.get("transport", "auto") == "auto" and not hardware)
        self.address = server.get("address") or hardware or "127.0.0.1"
        self.ddio = self.server.ddio(server.get("ddio"))
        target = server.get("target", "none")
        words = ["server", "--address", self.address, "--port", 0, "--direct-write", server.get("direct_write", "auto")]
        words += ["--target", target] if target != "none" else []
        self.node = self.client_config.get("numa_node")
        port = self.server.serve(words, self.softrdma, server.get("numa_node"))
        self.ends = self.stack.enter_context(Ends(
            self.programs, server=self.address, port=port, softrdma=self.softrdma, library=config.get("library", ""),
            target=target if target != "none" and not server.get("ssh") else "", prefix=numa(self.node)))
        if not server.get("ssh"):  # both ends are on this machine
            self.ends.same_host = self.ends.target["here"] = self.ends.environment["same_host"] = True
        notes = self.ends.environment["notes"]
        notes += [f"DDIO of the server: {self.ddio}."] if self.ddio else []
        for name, node in ("client", self.node), ("server", server.get("numa_node")):
            notes += [f"The {name} ran on NUMA node {node}."] if node is not None else []

    def points(self):
        cores = self.ends.environment["server"].get("cores") or 1
        chosen = matrix_of(self.config, self.options.like, cores)
        resolved = []
        for setup, driver in chosen:
            setup = measure.resolve_setups([setup], self.ends)[0]
            resolved.append(measure.to_do(setup) | {"driver": driver, "section": 0})
        return resolved

    def begin(self, points):
        """Returns a new result, or with --resume the stored one. A changed environment starts a new section."""
        started = measure.begin_results("campaign", self.ends)
        section = {"label": self.options.label or self.config.get("label", ""), "environment": started["environment"],
                   "timing": dataclasses.asdict(self.timing)}
        if not self.options.resume:
            if os.path.exists(self.path):
                raise Failure(f"{self.path}: exists (continue it with --resume, or choose another directory with --out)", USAGE)
            return started | {"points": points, "sections": [section]}
        result = results.load(self.path)
        if not result.get("sections"):
            raise Failure(f"{self.path}: is not of a campaign", USAGE)
        planned = [(results.setup_key(p), p.get("driver")) for p in result["points"]]
        if planned != [(results.setup_key(p), p["driver"]) for p in points]:
            raise Failure(f"{self.path}: has other points than {self.options.file} (restore the matrix, or start a new campaign)", USAGE)
        measure.check_same_environment(result, self.ends, self.path)
        last = result["sections"][-1]
        if changes := differences(last.get("timing") or section["timing"], section["timing"]):
            raise Failure(f"{self.path}: the timing changed: {'; '.join(changes)} (restore it, or start a new campaign)", USAGE)
        changes = differences(last["environment"], section["environment"])
        if changes and self.options.label is None:
            raise Failure(f"{self.path}: the environment changed: {'; '.join(changes)} (restore it, or name the new one with --label)", USAGE)
        if changes or (self.options.label is not None and self.options.label != last["label"]):
            result["sections"].append(section)
        return result

    def hooks(self, when, number, environment):
        """Runs the configured commands around a point on both machines and stores their output."""
        for name, site, config in ("client", self.client, self.client_config), ("server", self.server, self.server_config):
            for i, command in enumerate(config.get(when, [])):
                done = site.run(command, environment)
                self.keep(number, f"{name}-{when}-{i}", f"$ {command}\n{done['output']}# status {done['status']}\n")
                if done["status"] != 0:
                    raise Failure(f"{when} the point, {name}: '{command}' ended with status {done['status']}")

    def keep(self, number, name, text):
        replace_file(self.directory / "commands" / f"{number:04}-{name}.log", text)

    @contextlib.contextmanager
    def companions(self, number, environment):
        """Runs the configured commands concurrently with the point."""
        started = []
        try:
            for name, site, config in ("client", self.client, self.client_config), ("server", self.server, self.server_config):
                for i, command in enumerate(config.get("during", [])):
                    started.append((name, i, command, site, site.start(command, environment)))
            yield
        finally:
            for name, i, command, site, identity in started:
                self.keep(number, f"{name}-during-{i}", f"$ {command}\n{site.stop(identity)['output']}")

    def measure_point(self, number, point):
        environment = {"POINT_NUMBER": str(number), "POINT_SETUP": plan.describe(point)}
        try:
            self.hooks("before", number, environment)
            with self.companions(number, environment):
                if point["driver"] == "fio":
                    self.measure_with_fio(number, point)
                else:
                    measure.measure_point(self.ends, self.timing, point)
            self.hooks("after", number, environment)
        except PeerGone:
            raise
        except Failure as failure:
            point |= {"status": "failed", "reason": str(failure)}

    def measure_with_fio(self, number, point):
        point["repeats"] = []
        if reason := fio.skip_reason(point) or measure.skip_reason(point, self.ends.target):
            point |= {"status": "skipped", "reason": reason}
            return
        own, facts = self.config.get("fio", {}), self.ends.environment
        place = {"address": self.address, "port": own.get("port", 7204), "target": self.server_config.get("target", ""),
                 "direct_write": self.ends.target["direct_write"], "cores": facts["server"].get("cores") or 1,
                 "start": ["softrdma", "run", "--"] if self.softrdma else [], "program": own.get("program", "fio"),
                 "server_program": own.get("server_program", "fio"), "engines": own.get("engines", ""),
                 "server_engines": own.get("server_engines", own.get("engines", "")), "node": self.node,
                 "server_node": self.server_config.get("numa_node")}
        runs, outputs = fio.run_point(self.client, self.server, point, place, self.timing)
        self.keep(number, "fio", outputs)
        point |= {"status": "done", "reason": "", "repeats": runs}

    def measure(self, result):
        pending = [(i, p) for i, p in enumerate(result["points"]) if measure.is_pending(p)]
        estimate, before, start = self.timing.estimate_s(len(pending)), result["duration_s"], time.monotonic()
        print(f"{count(len(pending), 'point')}, about {duration(estimate)}; results in {self.path}", flush=True)
        bar = measure.Progress(len(pending), estimate)
        for done, (number, point) in enumerate(pending):
            left = duration(bar.left_s(done, time.monotonic() - start))
            bar.show(done, plan.describe(point))
            if self.deadline and time.monotonic() > self.deadline:
                point |= {"status": "skipped", "reason": "not measured: the time limit of --quick expired"}
                continue
            point["section"] = len(result["sections"]) - 1
            try:
                self.measure_point(number, point)
            finally:
                result["duration_s"] = before + time.monotonic() - start
                result["complete"] = not any(measure.is_pending(p) for p in result["points"])
                results.save(self.path, result)
                bar.clear()
            print(f"[{done + 1}/{len(pending)}, {left} left] {measure.table_line(point)}", flush=True)
        result["complete"] = not any(measure.is_pending(p) for p in result["points"])
        results.save(self.path, result)


def differences(before, now, place=""):
    """Lists the members that differ, except the load of the machines."""
    found = []
    for name in [*before, *(name for name in now if name not in before)]:
        a, b = before.get(name), now.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{name}'s " if name in ("client", "server") else place)
        elif a != b and name != "load":
            words = [" ".join(v) if isinstance(v, list) else str(v) for v in (a, b)]
            found.append(f"{place}{name.replace('_', ' ')} was '{words[0]}' and is '{words[1]}'")
    return found


def run(programs, options):
    config, timing = read_config(options.file)
    if options.plan:
        points = matrix_of(config, options.like, os.cpu_count())
        points, timing = thinned(points, timing) if options.quick else (points, timing)
        for setup, driver in points:
            print(plan.describe(setup) + (f" ({driver})" if driver == "fio" else ""))
        print(f"{count(len(points), 'point')}, about {duration(timing.estimate_s(len(points)))}")
        return 0
    with contextlib.ExitStack() as stack:
        campaign = Campaign(programs, options, config, timing, stack)
        campaign.connect()
        points = campaign.points()
        if options.quick:
            points, campaign.timing = thinned(points, timing)
        if not options.resume:
            try:
                (campaign.directory / "commands").mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise Failure(f"{campaign.directory}: cannot create: {error.strerror}", CANNOT_RUN) from error
        result = campaign.begin(points)
        command = shlex.join(["rpma-bench", "campaign", options.file, "--out", str(campaign.directory), "--resume"])
        again = f"continue with {command}"
        options.interrupted = f"the completed points are in {campaign.path} ({again})"
        results.save(campaign.path, result)
        try:
            campaign.measure(result)
        except PeerGone as gone:
            raise Failure(f"{gone}; the completed points are in {campaign.path} ({again})") from gone
    from .report import command as reporting  # noqa: PLC0415
    for kind, extension in ("html", "html"), ("markdown", "md"):
        reporting.write_report([campaign.path], str(campaign.directory / f"report.{extension}"), kind, config.get("title"),
                               template=config["report"])
    if not result["complete"]:
        raise Failure(f"{campaign.path}: some points failed (see FAILED above; {again})")
    return 0
