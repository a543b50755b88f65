# SPDX-License-Identifier: BSD-3-Clause
"""The command line of examples/run."""

import argparse
import os
import pathlib

from runner.catalogue import EXAMPLES, NAMED_EXAMPLES
from runner.command_line import Parser, positive
from runner.report import REPORTS

LAST_PORT = 65535
TIMEOUT_S = 60
SERVER_TIMEOUT_S = 600  # time to walk to the other machine
VERBS = {
    "run": "run examples (the default)",
    "list": "print number, name and purpose of each example",
    "replica": "run the programs of remote-replica, which mirror memory with librpmem",
    "mirror-failover": "show how a mirrored set survives the loss of a target and of its writer",
    "disk-failover": "show how the disk of a QEMU guest, a mirrored set, survives the loss of the machine that serves it",
    "mirror-steps": "show the SNIA's actions on a mirrored set one by one, with their packets, and an in-line repair",
    "doctor": "call rpma-doctor: report RDMA devices and persistent memory of this machine, and remedies",
}
EXIT_STATUS = """\
Exit status: 0 all examples succeeded, 1 one failed, 2 wrong command line, 77 this machine cannot run them.
Files that the runner has created are removed again at the end."""
DOCTOR_EXIT_STATUS = "Exit status: 0 examples can run here, 1 they cannot, 2 wrong command line, 77 no rpma-doctor is found."


def parse(words: list[str]) -> argparse.Namespace:
    """Parses the command line. The first word may be a verb; the default is `run`."""
    verb = words[0] if words and words[0] in VERBS else "run"
    rest = words[1:] if words and words[0] in VERBS else words
    options = PARSERS[verb]().parse_args(rest, argparse.Namespace(verb=verb))
    if verb == "run":
        complete(options)
    return options


def new_parser(verb: str, description: str, epilog: str | None = None) -> Parser:
    verbs = "\n".join(f"  {name:<15} {purpose}" for name, purpose in VERBS.items())
    return Parser(
        prog="run" if verb == "run" else f"run {verb}", description=description,
        epilog=f"{epilog}\n\nVerbs:\n{verbs}" if verb == "run" else epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter)


def run_parser() -> Parser:
    parser = new_parser(
        "run", "Runs the example programs: server and client on this machine or on two, over RDMA hardware or softrdma.",
        EXIT_STATUS)
    add = parser.add_argument
    add("examples", nargs="*", metavar="EXAMPLE", help="number or name of an example; `all`, or none: all of them")
    add_build(parser)
    add("--transport", choices=["auto", "kernel", "softrdma"], default="auto",
        help="auto (default): RDMA hardware if a port of it is active, else softrdma")
    add("--addr", help="address to listen on (default: that of the hardware, or 127.0.0.1)")
    add("--pmem", default="auto", metavar="PATH",
        help="file or PMem device for both sides, or a directory to create files in; `none`: DRAM; "
             "`auto` (default): a mounted DAX file system if there is one, else /var/tmp")
    add("--direct-write", choices=["auto", "on", "off"], default="auto",
        help="whether writes to --pmem are persistent once visible, for 05 and 15 (auto: on with softrdma, else off)")
    add("--format", choices=sorted(REPORTS), default="text", help="format of the report (default: text)")
    add("--timeout", type=positive, metavar="S",
        help=f"limit for each example in seconds (default: {TIMEOUT_S}; with --role server {SERVER_TIMEOUT_S})")
    add("--jobs", type=positive, default=os.cpu_count(), metavar="N",
        help="examples that run at a time (default: number of processors; 1 if all use the same --pmem file)")
    add("--repeat", type=positive, default=1, metavar="N", help="run everything N times")
    add_two_machines(parser)
    add_other_programs(parser)
    return parser


def add_two_machines(parser: Parser) -> None:
    group = parser.add_argument_group("two machines (start the servers first)")
    group.add_argument("--role", choices=["server", "client"], help="run only this side of each example here")
    group.add_argument("--server", metavar="HOST", help="run the clients; the servers are at address HOST")
    group.add_argument("--port", type=positive, default=7204, metavar="N",
                       help="first of the ports, one for each example, the same on both machines (default: 7204)")


def add_other_programs(parser: Parser) -> None:
    group = parser.add_argument_group("other versions")
    group.add_argument("--peer", type=pathlib.Path, metavar="PREFIX",
                       help="one side uses the example programs, or else librpma.so.0, installed under PREFIX: "
                            "each example runs twice, with it as server and as client")
    for role in ("server", "client"):
        group.add_argument(f"--{role}-lib", type=pathlib.Path, metavar="DIR",
                           help=f"the {role}s load librpma.so.0 from there")
        group.add_argument(f"--{role}-programs", type=pathlib.Path, metavar="DIR",
                           help=f"{role}s from DIR/NN-topic/{role}, run with positional arguments only")


def list_parser() -> Parser:
    return new_parser("list", "Prints number, name and purpose of each example.")


def replica_parser() -> Parser:
    parser = new_parser(
        "replica", "Runs the programs of remote-replica with a replica on this machine, and prints its location and "
        "persistence level.", "Exit status: 0 all succeeded, 1 one failed, 2 wrong command line, 77 they are not built.")
    add_build(parser)
    parser.add_argument("--pmem", default="auto", metavar="PATH",
                        help="directory for the replicas; `auto` (default): a mounted DAX file system, else /var/tmp")
    return parser


def failover_parser() -> Parser:
    parser = new_parser(
        "mirror-failover", "A writer with two targets loses one of them, then is killed, and another machine continues. "
        "Prints each event, and counts the acknowledged puts. All processes run on this machine.",
        "Exit status: 0 all acknowledged puts exist, 1 one is missing, 2 wrong command line, 77 the programs are not built.")
    add_build(parser)
    parser.add_argument("--pmem", default="auto", metavar="PATH",
                        help="directory for the copies; `auto` (default): a mounted DAX file system, else /var/tmp")
    parser.add_argument("--without-flush", action="store_true",
                        help="let the writer acknowledge puts without making them durable, to show the loss")
    return parser


def disk_parser() -> Parser:
    parser = new_parser(
        "disk-failover", "A QEMU guest runs a database on a disk that is a mirrored set. The machine that serves the disk is "
        "killed, and another one continues. Prints each event, and counts the committed transactions. All processes run on this "
        "machine. The kernel of the guest is downloaded once with apt-get.",
        "Exit status: 0 all committed transactions exist, 1 one is missing or a step failed, 2 wrong command line, 77 a package is "
        "missing.")
    add_build(parser)
    parser.add_argument("--pmem", default="auto", metavar="PATH",
                        help="directory for the copies; `auto` (default): a mounted DAX file system, else /var/tmp")
    parser.add_argument("--transactions", type=positive, default=200, metavar="N",
                        help="transactions of the guest; the machine is killed after half of them (default: 200)")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    parser.add_argument("--cache", type=pathlib.Path, default=cache / "librpma-disk-failover", metavar="DIR",
                        help="where the kernel of the guest is stored (default: %(default)s)")
    return parser


def steps_parser() -> Parser:
    parser = new_parser(
        "mirror-steps", "Maps a set with two targets, flushes, verifies, repairs a page that cannot be read, and unmaps it: one "
        "step after the other, each with the requests that it sent, as tshark decodes them. All processes run on this machine.",
        "Exit status: 0 each step succeeded, 1 one failed, 2 wrong command line, 77 the programs are not built.")
    add_build(parser)
    parser.add_argument("--pmem", default="auto", metavar="PATH",
                        help="directory for the copies; `auto` (default): a mounted DAX file system, else /var/tmp")
    parser.add_argument("--trace", type=pathlib.Path, metavar="FILE", help="keep the packets in this file (pcapng)")
    return parser


def doctor_parser() -> Parser:
    parser = new_parser(
        "doctor", "Calls rpma-doctor, which reports the RDMA devices and persistent memory of this machine, and "
        "remedies.", DOCTOR_EXIT_STATUS)
    add_build(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text", help="format of the report (default: text)")
    return parser


PARSERS = {"run": run_parser, "list": list_parser, "replica": replica_parser,
           "mirror-failover": failover_parser, "disk-failover": disk_parser,
           "mirror-steps": steps_parser, "doctor": doctor_parser}


def add_build(parser: Parser) -> None:
    parser.add_argument("--build", type=pathlib.Path, metavar="DIR",
                        help="build directory (default: the newest in build/)")


def complete(options: argparse.Namespace) -> None:
    """Checks dependencies between options and fills in defaults that depend on others."""
    fail = run_parser().error
    if options.server:
        if options.role == "server" or options.addr:
            fail("--server HOST is for the role client: omit --role server and --addr")
        options.role, options.addr = "client", options.server
    elif options.role == "client":
        fail("--role client needs --server HOST, the address that the servers listen on")
    others = [options.server_lib, options.client_lib, options.server_programs, options.client_programs]
    if options.peer and (options.role or any(others)):
        fail("--peer pairs two versions on one machine: omit --role, --server, --*-lib and --*-programs")
    if options.role and options.repeat > 1:
        fail("--repeat needs both sides on one machine")
    if options.server_programs and options.client_programs:
        fail("--server-programs and --client-programs exclude each other: one side must report that it is ready")
    count = len(EXAMPLES) + len(NAMED_EXAMPLES)
    if options.port + count - 1 > LAST_PORT:
        fail(f"--port: the examples need {count} ports from {options.port} on, and {LAST_PORT} is the last one")
    options.timeout = options.timeout or (SERVER_TIMEOUT_S if options.role == "server" else TIMEOUT_S)
