# SPDX-License-Identifier: BSD-3-Clause
"""The command line."""

import argparse
import contextlib
import os
import resource
import shlex
import signal
import sys

from . import measure, plan, results
from .common import FAILED, USAGE, Failure
from .ends import Programs

AXES = ("workload", "api", "block_size", "depth", "connections", "threads", "flush", "flush_interval", "polling", "access",
        "read_percent", "cpu_load", "memory")


class Interrupted(BaseException):
    def __init__(self, number):
        super().__init__()
        self.number = number


class Parser(argparse.ArgumentParser):
    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message):
        unknown = message.partition("invalid choice: ")[2].partition(" (choose")[0].strip("'")
        if message.startswith("argument VERB: ") and unknown:
            message = f"unknown subcommand {unknown}"
        raise Failure(f"{message} (see rpma-bench --help)", USAGE)


def port(text):
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port from 0 to 65535")
    return int(text)


def ranged(kind, low, high):
    def convert(text):
        value = kind(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not from {low} to {high}")
        return value
    convert.__name__ = "number"
    return convert


def size(text):
    """Converts a size such as 4096, 4K, 4KiB or 1M to bytes."""
    digits = text.rstrip("KMGiB")
    suffix = text[len(digits):]
    scale = "BKMG".find(suffix[:1] or "B")
    if not digits.isascii() or not digits.isdigit() or scale < 0 or suffix[1:] not in ("", "iB", "B") or int(digits) > 2**34:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size like 4096, 4K or 1M")
    return int(digits) << 10 * scale


def listed(kind, words=None, name=""):
    def convert(text):
        values = [kind(word) for word in text.split(",")]
        for value in values:
            if words and value not in words:
                raise argparse.ArgumentTypeError(f"unknown {name} '{value}' (choose from {', '.join(words)})")
        return values
    convert.__name__ = "list"
    return convert


def add_axes(parser):
    group = parser.add_argument_group("axes (lists, separated by commas)")
    def axis(*names, kind=int, words=None, name="", text):
        group.add_argument(*names, type=listed(kind, words, name), help=text, metavar="LIST")
    axis("-w", "--workload", kind=str, words=plan.WORKLOADS, name="workload", text=", ".join(plan.WORKLOADS))
    axis("--api", kind=str, words=results.APIS, name="api", text="librpma, verbs, tcp, memcpy")
    axis("-b", "--block-size", kind=size, text="bytes, or 4K, 1M")
    axis("-d", "--depth", text="operations in flight on a connection")
    axis("-c", "--connections", text="total number of connections")
    axis("-t", "--threads", text="threads of the client, and of the server if its program takes part")
    axis("--flush", kind=str, words=results.FLUSHES, name="kind of flush", text="visibility, persistent, none")
    axis("--flush-interval", text="writes for each flush")
    axis("--polling", kind=str, words=results.POLLINGS, name="polling", text="busy or event: method by which both ends wait")
    axis("--access", kind=str, words=results.ACCESSES, name="order of access", text="sequential, random")
    axis("--read-percent", text="percentage of reads in a mix")
    axis("--cpu-load", text="background load of the target's processors, in percent")
    axis("--memory", kind=str, words=("dram", plan.TARGET), name="memory", text="memory of the server: dram or target")


def add_measure(parser, resume=False):
    add_axes(parser)
    parser.add_argument("--repeats", type=ranged(int, 1, 1000), help="timed runs of each point")
    parser.add_argument("--duration", type=ranged(float, 0.01, 3600), help="seconds of each run")
    parser.add_argument("--warm-up", type=ranged(float, 0, 3600), help="maximum duration of the warm-up in seconds")
    parser.add_argument("--lib", default="", help="the librpma.so.0 to measure, or a directory that contains it")
    parser.add_argument("-o", "--out", help="result file")
    parser.add_argument("--report", help="HTML file of the report, or none")
    parser.add_argument("--transport", choices=("auto", "kernel", "softrdma"), default="auto")
    if resume:
        parser.add_argument("-p", "--profile", help="quick (two minutes), standard, full")
        parser.add_argument("--resume", metavar="FILE", help="continue the run of this result file")


def add_local(parser):
    parser.add_argument("--address", help="address of the RDMA device")
    parser.add_argument("--target", default="auto", help="directory for a file, or PMem device, for --memory target; or none")


def add_server(parser):
    parser.add_argument("--address", default="127.0.0.1", help="address of the RDMA device, to which clients connect")
    parser.add_argument("--port", type=port, default=7205, help="port of the control channel; 0: any")
    parser.add_argument("--rdma-port", type=port, help="port of the measured connections (default: a free port)")
    parser.add_argument("--target", default="none", help="directory for a file, or PMem device; or none")
    parser.add_argument("--direct-write", choices=("on", "off", "auto"), default="auto", help="declare that RDMA writes reach PMem")
    parser.add_argument("--once", action="store_true", help="exit after one client")
    parser.add_argument("--idle-limit", type=ranged(float, 0, 1e6), default=0, help="exit after this many seconds without a client")
    parser.add_argument("--transport", choices=("auto", "softrdma"), default="auto")


def make_parser(version):
    parser = Parser(prog="rpma-bench", description="Measures librpma, raw verbs, TCP and memcpy. rpma-bench(1) describes each figure.")
    parser.add_argument("-V", "--version", action="version", version=f"rpma-bench {version}")
    verbs = parser.add_subparsers(title="Subcommands", dest="verb", metavar="VERB", required=True)
    local = verbs.add_parser("local", help="measure with both ends on this machine")
    add_measure(local, resume=True)
    add_local(local)
    add_server(verbs.add_parser("server", help="serve clients, one at a time"))
    client = verbs.add_parser("client", help="measure against a server")
    client.add_argument("server", help="address of the server")
    client.add_argument("--port", type=port, default=7205, help="port of its control channel")
    add_measure(client, resume=True)
    sweep = verbs.add_parser("sweep", help="measure over the usual range of one axis")
    sweep.add_argument("axis", help=", ".join(plan.SWEEPS))
    sweep.add_argument("--server", help="address of a server (default: both ends on this machine)")
    sweep.add_argument("--port", type=port, default=7205, help="port of its control channel")
    add_measure(sweep)
    add_local(sweep)
    compare = verbs.add_parser("compare", help="compare librpma with another library in alternating runs")
    compare.add_argument("--against", help="the other librpma.so.0 or a directory that contains it; verbs; tcp")
    add_measure(compare)
    add_local(compare)
    from .report import command as reporting  # noqa: PLC0415 - the templates are read for reports only
    reporting.add_command(verbs.add_parser("report", help="write a report of result files: HTML, Markdown or CSV"))
    from . import campaign  # noqa: PLC0415
    campaign.add_commands(verbs)
    return parser


def make_plan(options):
    """Returns the plan, and whether the user chose it."""
    axes = {name: value for name in AXES if (value := getattr(options, name)) is not None}
    workloads = axes.pop("workload", None)
    chosen = bool(axes or workloads)
    name = getattr(options, "profile", None)
    if name and chosen:
        raise Failure("--profile excludes workloads and values", USAGE)
    workloads = workloads or ["read", "write_flush", "send_recv"]
    if options.verb == "compare":
        setups = plan.expand(workloads, **axes) if chosen else plan.comparison()
        # Many short runs, so that a disturbance affects both sides.
        created = plan.Plan("compare", setups, plan.Timing(15, 0.2, 0.6))
    elif options.verb == "sweep":
        created = plan.Plan(f"sweep of {options.axis}", plan.sweep(options.axis, workloads, **axes), plan.Timing())
    elif chosen:
        created = plan.Plan("custom", plan.expand(workloads, **axes), plan.Timing())
    else:
        created = plan.profile(name or "quick")
    for option, member in ("repeats", "repeats"), ("duration", "duration_s"), ("warm_up", "warm_up_s"):
        if (value := getattr(options, option)) is not None:
            setattr(created.timing, member, value)
    return created, chosen or bool(name)


def serve(programs, options):
    words = ["server", "--address", options.address, "--port", options.port, "--direct-write", options.direct_write,
             "--idle-limit", options.idle_limit, *(["--once"] if options.once else [])]
    if options.rdma_port is not None:
        words += ["--rdma-port", options.rdma_port]
    if options.target != "none":
        words += ["--target", options.target]
    command = programs.engine_command(options.transport == "softrdma", words, parent=False)
    os.execve(command[0], command, programs.environment())


def finish(result, path, report):
    print(f"{'The result' if result['complete'] else 'What was measured'} is in {path}")
    if report != "none":
        from .report import command as reporting  # noqa: PLC0415
        reporting.write_report([path], out=report)
    if not result["complete"]:
        raise Failure(f"some points failed (see FAILED above; repeat those with --resume {shlex.quote(path)})")
    return 0


def run(programs, options):
    if options.verb == "server":
        return serve(programs, options)
    if hasattr(options, "run"):
        return options.run(programs, options)
    created, explicit = make_plan(options)
    if options.verb == "compare":
        return finish(*measure.compare(programs, options, created), options.report)
    return finish(*measure.measure(programs, options, created, explicit), options.report)


def allow_many_descriptors():
    """Raises the soft limit of descriptors: the default is too low for some hundred connections. Both processes inherit
    it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(engine, directory, version):
    def interrupt(number, _):
        signal.signal(number, signal.SIG_IGN)
        raise Interrupted(number)

    options = argparse.Namespace(interrupted="")
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, interrupt)
    try:
        programs = Programs(engine, directory, version)
        make_parser(version).parse_args(namespace=options)
        allow_many_descriptors()
        return run(programs, options)
    except Failure as failure:
        if str(failure):
            print(f"rpma-bench: {failure}", file=sys.stderr)
        return failure.status
    except Interrupted as interrupted:
        clear = "\r\033[K" if sys.stderr.isatty() else ""
        advice = f": {options.interrupted}" if options.interrupted else ""
        print(f"{clear}rpma-bench: interrupted{advice}", file=sys.stderr, flush=True)
        signal.signal(interrupted.number, signal.SIG_DFL)
        os.kill(os.getpid(), interrupted.number)
        return FAILED
