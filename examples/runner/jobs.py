# SPDX-License-Identifier: BSD-3-Clause
"""Runs the selected examples, several at a time, each with its own port and files."""

import concurrent.futures
import dataclasses
import shlex
import time
from collections.abc import Iterator

from runner import CannotRun, ExampleFailed, storage
from runner.catalogue import EXAMPLES, NAMED_EXAMPLES, Example, Run
from runner.pair import (
    PROGRAMS, Outcome, Result, Side, check_statuses, free_port, run_clients_alone, run_pair, run_server_alone)
from runner.transport import Transport

NOT_HERE = Result(0, "", "runs on the other machine")


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    example: Example
    sides: dict[str, Side]


@dataclasses.dataclass(frozen=True)
class Setting:
    """Settings shared by the jobs of one run."""

    device: Transport
    pmem: str
    direct_write: bool  # whether data in files is persistent as soon as it is visible
    timeout_s: int
    role: str | None = None  # the role that runs on this machine, or None for both
    first_port: int = 0  # port of the catalogue's first example if a role is set


@dataclasses.dataclass(frozen=True)
class Verdict:
    kind: str  # ok, FAIL or skip
    name: str
    transport: str
    level: str  # persistence level that the data has reached
    detail: str  # proven result, or the error
    seconds: float
    outcome: Outcome | None
    commands: list[str]  # commands that start the programs by hand, on the files of storage.BY_HAND


def level_of(memory: storage.Storage, operands: dict[str, list[str]]) -> str:
    """Returns the persistence level. An example without a file keeps its data in DRAM."""
    is_used = memory.server_path and any(str(memory.server_path) in side for side in operands.values())
    return memory.level if is_used else storage.VOLATILE


def programs_of(job: Job, setting: Setting, operands: dict[str, list[str]]) -> dict[str, list[list[str]]]:
    """Returns the commands of the server and the clients that run on this machine."""
    device = setting.device
    port = str(setting.first_port + [*EXAMPLES, *NAMED_EXAMPLES].index(job.example)) if setting.role else free_port(device.addr)
    all_operands = {"server": [operands["server"]], "client": [operands["client"], *job.example.more_clients]}
    return {
        role: [[*device.prefix, job.sides[role].program(job.example.topic_of(role), role), device.addr, port, *words]
               for words in all_operands[role]]
        for role in (["server", "client"] if not setting.role else [setting.role])}


def run_programs(job: Job, setting: Setting, programs: dict[str, list[list[str]]]) -> Outcome:
    if setting.role == "server":
        server = run_server_alone(programs["server"][0], 1 + len(job.example.more_clients), job.sides["server"],
                                  setting.timeout_s)
        return Outcome(server, NOT_HERE)
    if setting.role == "client":
        return Outcome(NOT_HERE, run_clients_alone(programs["client"], job.sides["client"], setting.timeout_s))
    return run_pair(programs["server"][0], programs["client"], job.sides["server"], job.sides["client"],
                    setting.timeout_s, job.example.listens_again)


def shell_command(side: Side, command: list[str]) -> str:
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in side.variables().items()), shlex.join(command)])


def run_job(job: Job, setting: Setting) -> Verdict:
    started = time.monotonic()
    outcome, level, commands = None, storage.VOLATILE, []
    try:
        with storage.prepare(setting.pmem) as memory:
            run = Run(memory, setting.direct_write and memory.server_path is not None)
            operands = {"server": job.example.server_operands(run), "client": job.example.client_operands(run)}
            level = level_of(memory, operands)
            programs = programs_of(job, setting, operands)
            commands = [memory.by_hand(shell_command(job.sides[role], command)) for role in programs for command in programs[role]]
            outcome = run_programs(job, setting, programs)
            check_statuses(outcome)
            detail = f"the {setting.role} succeeded" if setting.role else job.example.judge(run, outcome)
            kind = "ok"
    except ExampleFailed as failure:
        kind, detail = "FAIL", str(failure)
    except CannotRun as reason:
        kind, detail = "skip", str(reason)
    return Verdict(kind, job.name, setting.device.name, level, detail, time.monotonic() - started, outcome,
                   commands)


def run_jobs(jobs: list[Job], setting: Setting, workers: int) -> Iterator[Verdict]:
    """Yields the verdicts in the order of the jobs. Ends all programs on each exit path."""
    with concurrent.futures.ThreadPoolExecutor(workers) as executor:
        verdicts = [executor.submit(run_job, job, setting) for job in jobs]
        try:
            for verdict in verdicts:
                yield verdict.result()
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            PROGRAMS.stop()
            raise
