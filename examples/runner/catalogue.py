# SPDX-License-Identifier: BSD-3-Clause
"""The examples: operands, and how their output proves that the data arrived."""

import dataclasses
import re
import struct
from collections.abc import Callable

from runner import CannotRun, ExampleFailed
from runner.pair import Outcome
from runner.storage import Storage

SEED, ROUNDS = 7, 3
NAME_SEEDS = ("8", "9", "11", "12")
LOG_WORDS = ["1st_word", "2nd_word", "3rd_word"]
LOG_DATA_OFFSET = 16
IMMEDIATE, WORD = "1234", "1st_word"
GAMES = (("1", "3"), ("5", "3"), ("10", "3"))
LISTEN_S = "10"  # limit of servers without --clients; on a busy machine a client can take seconds to start
BLOCKS = 1000
RECORDS, DROP_AFTER, PAUSE_US = 100, 10, "2000"  # slow enough for the server to drop the connection in time
RECORDS_OFFSET, RECORD_SIZE = 64, 64
POWER_CUT_RECORDS_OFFSET, POWER_CUT_RECORD_SIZE = 64, 192
PLAYERS, PLAYER_SEED, TURNS = 4, "7", "5"
HANDLES_TEXT = "Awaited in C++"


@dataclasses.dataclass(frozen=True)
class Run:
    """Settings shared by the examples of one run."""

    storage: Storage
    direct_write: bool  # whether visible data in the server's memory is also persistent


@dataclasses.dataclass(frozen=True)
class Example:
    topic: str
    purpose: str
    server_operands: Callable[[Run], list[str]]
    client_operands: Callable[[Run], list[str]]
    judge: Callable[[Run, Outcome], str]  # returns the proven result, or raises ExampleFailed
    more_clients: tuple[tuple[str, ...], ...] = ()  # operands of clients that run together with the first one
    listens_again: bool = False  # the server sometimes accepts no clients
    server_topic: str | None = None  # example whose server it uses; its client is a Python script

    @property
    def number(self) -> str:
        return self.topic.split("-")[0]

    def is_called(self, name: str) -> bool:
        """Returns whether `name` is the number, with or without a leading zero, or the full name."""
        return name in (self.topic, self.number, self.number.removeprefix("0"))

    def topic_of(self, role: str) -> str:
        """Returns the directory of the program of one side."""
        return self.server_topic if self.server_topic and role == "server" else self.topic


def nothing(_: Run) -> list[str]:
    return []


def server_file(run: Run) -> list[str]:
    return [str(run.storage.server_path)] if run.storage.server_path else []


def flushed_server_file(run: Run) -> list[str]:
    return server_file(run) + (["on"] if run.direct_write and run.storage.server_path else [])


def client_file(run: Run) -> list[str]:
    return [str(run.storage.client_path), str(run.storage.client_offset)] if run.storage.client_path else []


def constantly(*operands: str) -> Callable[[Run], list[str]]:
    return lambda _: list(operands)


def values(output: str, verb: str) -> list[int]:
    """Returns the numbers sent or received, independent of the place and time of their output."""
    return [int(value) for value in re.findall(f"(?i)value {verb}: ([0-9]+)", output)]


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
    """Checks that the server, and its file, have the text that the client had."""
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


def judge_requested_flush(run: Run, outcome: Outcome) -> str:
    if "Flush request received" not in outcome.server.stdout:
        raise ExampleFailed("the server received no request to persist the text")
    return judge_text(run, outcome).replace(": persisted by the server", ": persisted by the server on request")


def judge_names(_: Run, outcome: Outcome) -> str:
    names = re.findall("(?m)^My names? is: (.+)$", outcome.client.stdout)
    read = re.findall("(?m)^- (.+)$", outcome.server.stdout)
    if len(names) != len(NAME_SEEDS) or sorted(names) != sorted(read):
        raise ExampleFailed(f"the names of the clients are {', '.join(names)}, the server read {', '.join(read)}")
    return f"the names of {len(names)} clients read: {', '.join(read)}"


def judge_log(run: Run, outcome: Outcome) -> str:
    lines = outcome.server.stdout.splitlines()
    if lines[-len(LOG_WORDS):] != LOG_WORDS:
        raise ExampleFailed(f"the server's log ends with {lines[-len(LOG_WORDS):]} instead of {LOG_WORDS}")
    if not run.storage.server_path:
        return f"{len(LOG_WORDS)} words appended to the log in the server's DRAM"

    used, = struct.unpack("=Q", run.storage.read_server(LOG_DATA_OFFSET)[8:])
    stored = run.storage.read_server(used)[LOG_DATA_OFFSET:]
    if not stored.endswith("".join(f"{word}\0" for word in LOG_WORDS).encode()):
        raise ExampleFailed(f"{run.storage.server_path} does not hold the log that the server printed")
    return f"{len(LOG_WORDS)} words appended and re-read from {run.storage.server_path}: durable one by one"


def judge_game(first: int, count: int) -> Callable[[Run, Outcome], str]:
    """Checks that sends and receives of both sides are exactly the numbers of one game."""
    return lambda _, outcome: check_games(outcome, [range(first, first + count)])


def judge_games(_: Run, outcome: Outcome) -> str:
    return check_games(outcome, [range(int(seed), int(seed) + int(rounds)) for seed, rounds in GAMES])


def check_games(outcome: Outcome, games: list[range]) -> str:
    asked = sorted(value for game in games for value in game)
    answered = sorted(value + 1 for value in asked)
    for role, result, sent, received in (("client", outcome.client, asked, answered),
                                         ("server", outcome.server, answered, asked)):
        if sorted(values(result.stdout, "sent")) != sent or sorted(values(result.stdout, "received")) != received:
            raise ExampleFailed(f"the {role} did not see exactly the numbers from {asked[0]} to {answered[-1]}")
    return f"{len(asked)} numbers sent and answered" + (f" in {len(games)} games" if len(games) > 1 else "")


def judge_sent_immediate(_: Run, outcome: Outcome) -> str:
    require_line("client", outcome.client.stdout, f"Sending value '{WORD}' with immediate data '{IMMEDIATE}'")
    require_line("server", outcome.server.stdout, f"Received value '{WORD}' with immediate data '{IMMEDIATE}'")
    return f'"{WORD}" received with immediate data {IMMEDIATE}'


def judge_written_immediate(_: Run, outcome: Outcome) -> str:
    require_line("server", outcome.server.stdout,
                 f"The value '{IMMEDIATE}' was written together with immediate data '{IMMEDIATE}'")
    return f"{IMMEDIATE} written, and announced by immediate data {IMMEDIATE}"


def judge_queues(_: Run, outcome: Outcome) -> str:
    require_line("client", outcome.client.stdout, f"Blocks written: {BLOCKS}")
    require_line("server", outcome.server.stdout, f"Blocks received: {BLOCKS}")
    completions = value_of("client", outcome.client.stdout, "Completions collected")
    return f"{BLOCKS} blocks written with {completions} completions"


def resumed_log(run: Run) -> list[str]:
    return [str(DROP_AFTER), *flushed_server_file(run)]


def judge_resumed_log(run: Run, outcome: Outcome) -> str:
    """Checks that all records exist, also in the file, although the server dropped the connection."""
    counts = re.findall("(?m)^Records in the log: ([0-9]+)$", outcome.client.stdout)
    if len(counts) != 3 or "Connection lost" not in outcome.client.stdout:
        raise ExampleFailed("the client did not lose the connection and resume")
    first, resumed, last = map(int, counts)
    if not first + DROP_AFTER <= resumed < last == first + RECORDS:
        raise ExampleFailed(f"the client found {first} records, then {resumed}, and at the end {last}")
    require_line("server", outcome.server.stdout, f"Records in the log: {last}, each in its place")
    proved = f"resumed at record {resumed} after a lost connection, {last} records in the end"
    if not run.storage.server_path:
        return f"{proved}, in DRAM"

    stored = run.storage.read_server(RECORDS_OFFSET + last * RECORD_SIZE)
    for number in range(last):
        if struct.unpack_from("=Q", stored, RECORDS_OFFSET + number * RECORD_SIZE) != (number,):
            raise ExampleFailed(f"record {number} is not in {run.storage.server_path}")
    return f"{proved}, all of them re-read from {run.storage.server_path}"


def judge_players(_: Run, outcome: Outcome) -> str:
    """Checks that each number was answered with the next one, in any order of the games."""
    numbers = [int(PLAYER_SEED) + player * 1000 + turn for player in range(PLAYERS) for turn in range(int(TURNS))]
    sent_and_answered = {"client": ("sent", "received"), "server": ("received", "sent")}
    for role, result in (("client", outcome.client), ("server", outcome.server)):
        asked, answered = (sorted(values(result.stdout, verb)) for verb in sent_and_answered[role])
        if asked != numbers or answered != [number + 1 for number in numbers]:
            raise ExampleFailed(f"the {role} did not see exactly the numbers of {PLAYERS} games")
    require_line("server", outcome.server.stdout, f"Clients served: {PLAYERS}")
    return f"{PLAYERS} games at a time, {len(numbers)} numbers sent and answered"


def judge_handles(_: Run, outcome: Outcome) -> str:
    require_line("server", outcome.server.stdout, f"Received a text: {HANDLES_TEXT}")
    return f'"{HANDLES_TEXT}" arrived in the server\'s memory'


def judge_power_cut(run: Run, outcome: Outcome) -> str:
    require_line("client", outcome.client.stdout, f"acknowledged: {RECORDS}")
    if not run.storage.server_path:
        return f"{RECORDS} records acknowledged, in DRAM"
    stored = run.storage.read_server(POWER_CUT_RECORDS_OFFSET + RECORDS * POWER_CUT_RECORD_SIZE)
    count, = struct.unpack_from("=Q", stored, 0)
    numbers = [struct.unpack_from("=Q", stored, POWER_CUT_RECORDS_OFFSET + number * POWER_CUT_RECORD_SIZE)[0]
               for number in range(RECORDS)]
    if count != RECORDS or numbers != list(range(RECORDS)):
        raise ExampleFailed(f"{run.storage.server_path} counts {count} records: {numbers}")
    return f"{RECORDS} records acknowledged, all of them re-read from {run.storage.server_path}"


def durable_server_file(run: Run) -> list[str]:
    if not run.direct_write or not run.storage.server_path:
        raise CannotRun("it needs persistent memory (use a file as --pmem and --direct-write on)")
    return flushed_server_file(run)


def judge_python(run: Run, outcome: Outcome) -> str:
    sent = value_of("client", outcome.client.stdout, "durable")
    stored = run.storage.read_server_text()
    if stored != sent or value_of("server", outcome.server.stdout, "New value") != sent:
        raise ExampleFailed(f"the client had '{sent}', {run.storage.server_path} holds '{stored}'")
    return f'"{sent}" re-read from {run.storage.server_path}: durable, by the client\'s flush to persistence'


EXAMPLES = [
    Example("01-connection", "connect, exchange a greeting, disconnect", nothing, nothing, judge_connection),
    Example("02-read-to-volatile", "read the server's memory", nothing, nothing, judge_read),
    Example("03-read-to-persistent", "the server reads into its PMem", server_file, client_file, judge_text),
    Example("04-write-to-persistent", "write to the server's PMem", server_file, client_file, judge_text),
    Example("05-flush-to-persistent", "write and flush", flushed_server_file, client_file, judge_flush),
    *(Example(topic, purpose, nothing, constantly(NAME_SEEDS[0]), judge_names, tuple((seed,) for seed in NAME_SEEDS[1:]))
      for topic, purpose in (("06-multiple-connections", "serve many clients in one thread"),
                             ("06scch-multiple-connections", "the same with a shared completion channel"))),
    Example("07-atomic-write", "append to a log in the server's PMem", server_file, constantly(*LOG_WORDS), judge_log),
    Example("08-messages-ping-pong", "send and receive messages", nothing, constantly(str(SEED), str(ROUNDS)),
            judge_game(SEED, ROUNDS - 1)),
    Example("08srq-simple-messages-ping-pong-with-srq", "receive through a shared receive queue", nothing,
            constantly(str(SEED), str(ROUNDS)), judge_game(SEED, ROUNDS)),
    Example("09-flush-to-persistent-GPSPM", "write and ask the server to persist", server_file, client_file,
            judge_requested_flush),
    Example("09scch-flush-to-persistent-GPSPM", "the same with a shared completion channel", server_file, client_file,
            judge_requested_flush),
    Example("10-send-with-imm", "send a message with immediate data", nothing, constantly(IMMEDIATE, WORD),
            judge_sent_immediate),
    Example("11-write-with-imm", "write with immediate data", nothing, constantly(IMMEDIATE), judge_written_immediate),
    Example("12-receive-completion-queue", "receive on a completion queue of its own", nothing,
            constantly(str(SEED), str(ROUNDS)), judge_game(SEED, ROUNDS - 1)),
    Example("12scch-receive-completion-queue", "the same with a shared completion channel", nothing,
            constantly(str(SEED), str(ROUNDS)), judge_game(SEED, ROUNDS - 1)),
    Example("13-messages-ping-pong-with-srq", "many clients, one shared receive queue", constantly(LISTEN_S),
            constantly(*GAMES[0]), judge_games, GAMES[1:]),
    Example("14-queue-sizing", "write more than fits into a queue", nothing, constantly(str(BLOCKS)), judge_queues),
    Example("15-reconnect", "resume from durable data after a lost connection", resumed_log, constantly(str(RECORDS), PAUSE_US),
            judge_resumed_log, listens_again=True),
    *(Example(topic, purpose, constantly(str(PLAYERS)), constantly(PLAYER_SEED, TURNS, "0", str(PLAYERS)), judge_players)
      for topic, purpose in (("16-multi-threaded-server", "serve each client in a thread"),
                             ("17-event-loop", "serve all clients from one epoll loop"))),
    Example("18-cpp-handles", "own objects and await completions in C++20", nothing, constantly(HANDLES_TEXT), judge_handles),
    Example("19-power-cut", "append to a log that survives power cuts", server_file, constantly(str(RECORDS)),
            judge_power_cut),
]
# Examples that run only on request, because they need more than a C compiler.
NAMED_EXAMPLES = [
    Example("20-python", "the client of 05 in Python", durable_server_file, nothing, judge_python,
            server_topic="05-flush-to-persistent"),
]
