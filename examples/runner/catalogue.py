# SPDX-License-Identifier: BSD-3-Clause
"""The examples: what each is started with, and how its output proves that the data arrived."""

import dataclasses
from collections.abc import Callable

from runner import ExampleFailed
from runner.pair import Outcome
from runner.storage import Storage

SEED, ROUNDS = 7, 3


@dataclasses.dataclass(frozen=True)
class Run:
    """What the examples of one run have in common."""

    storage: Storage
    direct_write: bool  # whether what is visible in the server's memory is persistent as well


@dataclasses.dataclass(frozen=True)
class Example:
    topic: str
    purpose: str
    server_operands: Callable[[Run], list[str]]
    client_operands: Callable[[Run], list[str]]
    judge: Callable[[Run, Outcome], str]  # says what was proved, or raises ExampleFailed

    @property
    def number(self) -> str:
        return self.topic.split("-")[0]


def nothing(_: Run) -> list[str]:
    return []


def server_file(run: Run) -> list[str]:
    return [str(run.storage.server_path)] if run.storage.server_path else []


def flushed_server_file(run: Run) -> list[str]:
    return server_file(run) + (["on"] if run.direct_write and run.storage.server_path else [])


def client_file(run: Run) -> list[str]:
    return [str(run.storage.client_path), str(run.storage.client_offset)] if run.storage.client_path else []


def ping_pong_operands(_: Run) -> list[str]:
    return [str(SEED), str(ROUNDS)]


def require_line(role: str, output: str, line: str) -> None:
    if line not in output.splitlines():
        raise ExampleFailed(f"the {role} did not print '{line}'")


def value_of(role: str, output: str, label: str) -> str:
    for line in output.splitlines():
        if line.startswith(f"{label}: "):
            return line.removeprefix(f"{label}: ")
    raise ExampleFailed(f"the {role} printed no '{label}'")


def judge_connection(_: Run, outcome: Outcome) -> str:
    require_line("server", outcome.server.stdout, "Received a message: Hello server!")
    require_line("client", outcome.client.stdout, "Received a message: Hello client!")
    return "greetings exchanged while connecting"


def judge_read(_: Run, outcome: Outcome) -> str:
    require_line("client", outcome.client.stdout, "Read a message: Hello client!")
    return '"Hello client!" read from the server\'s memory'


def judge_text(run: Run, outcome: Outcome) -> str:
    """The text that the client had must be what the server, and its file, have now."""
    sent = value_of("client", outcome.client.stdout, "Next value")
    received = value_of("server", outcome.server.stdout, "New value")
    if received != sent:
        raise ExampleFailed(f"the client had '{sent}', the server received '{received}'")
    if not run.storage.server_path:
        return f'"{sent}" arrived in the server\'s DRAM'

    stored = run.storage.read_server_text()
    if stored != sent:
        raise ExampleFailed(f"the client had '{sent}', {run.storage.server_path} holds '{stored}'")
    return f'"{sent}" re-read from {run.storage.server_path}: persisted by the server'


def judge_flush(run: Run, outcome: Outcome) -> str:
    proved = judge_text(run, outcome)
    if not run.storage.server_path or not run.direct_write:
        return f"{proved}, after a flush to visibility"

    if not any("PERSISTENT is supported" in line for line in outcome.client.stdout.splitlines()):
        raise ExampleFailed("the client did not flush to persistence although the server supports it")
    return proved.replace(": persisted by the server", ": durable, by the client's flush to persistence")


def judge_ping_pong(_: Run, outcome: Outcome) -> str:
    values = range(SEED, SEED + ROUNDS - 1)
    client = [line for value in values for line in (f"Value sent: {value}", f"Value received: {value + 1}")]
    server = [line for value in values for line in (f"Value received: {value}", f"Value sent: {value + 1}")]
    for role, expected, result in (("client", client, outcome.client), ("server", server, outcome.server)):
        if [line for line in result.stdout.splitlines() if line.startswith("Value ")] != expected:
            raise ExampleFailed(f"the {role} did not see exactly the numbers from {SEED} to {SEED + ROUNDS - 1}")
    return f"{len(values)} numbers sent and answered"


EXAMPLES = [
    Example("01-connection", "connect, exchange a greeting, disconnect", nothing, nothing, judge_connection),
    Example("02-read-to-volatile", "read the server's memory", nothing, nothing, judge_read),
    Example("03-read-to-persistent", "the server reads into its PMem", server_file, client_file, judge_text),
    Example("04-write-to-persistent", "write to the server's PMem", server_file, client_file, judge_text),
    Example("05-flush-to-persistent", "write and flush", flushed_server_file, client_file, judge_flush),
    Example("08-messages-ping-pong", "send and receive messages", nothing, ping_pong_operands, judge_ping_pong),
]
