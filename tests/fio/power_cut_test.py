# SPDX-License-Identifier: BSD-3-Clause
"""An append-only file after a power cut of its server: the durable pointer never passes the durable data.

With mode=sw the device loses data that the server did not make durable with msync(); a pointer that the server has stored
counts as durable at once.

The server runs on the software device, which cuts the power after a number of operations that the seed decides, while 8
appends are in flight. FIO_POWER_CUTS is how many seeds are tried for each way of appending, FIO_POWER_SEED the first one."""

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import random
import struct
import tempfile
import unittest

from support import ADDRESS, EXTERNAL, MUTANTS, SERVER, SHORT, Fio, FioTest, Job, free_port, report_of

CUTS = int(os.environ.get("FIO_POWER_CUTS", "5"))
FIRST_SEED = int(os.environ.get("FIO_POWER_SEED", "1"))
CUT = 137  # exit status of the server after the cut
END_S = 60
BLOCK = 192  # three cache lines
COUNT = 40
# Operations of an append: a write, a flush, the pointer and its flush; or a write and a request.
OPERATIONS = {"hw": 4 * COUNT, "sw": 2 * COUNT}
SIZE = 64 * 1024
DEEP = SHORT | {"sync": None, "iodepth": 8, "iodepth_batch_submit": 1, "blocksize": BLOCK, "number_ios": COUNT,
                "size": COUNT * BLOCK, "verify": "pattern", "verify_pattern": "0x0123456789abcdef%o", "do_verify": 0,
                "verify_state_save": 0}
SLOW = "delay=2000:op=flush"
SLOW_REQUESTS = "delay=2000:op=send"


def block(number: int) -> bytes:
    """Returns the content of a block, which contains its offset."""
    return (bytes.fromhex("0123456789abcdef") + struct.pack("<Q", number * BLOCK)) * (BLOCK // 16)


@dataclasses.dataclass(frozen=True)
class Method:
    """A method of appending: the engines, and the settings that make a power cut effective."""

    mode: str
    server: Fio = EXTERNAL
    client: Fio = EXTERNAL
    device: str = ""  # device of both sides
    fault: str = ""  # fault of the client

    def side(self, fio: Fio, **variables: str) -> Fio:
        device = {"SOFTRDMA_NATIVE_VERBS": self.device} if self.device else {}
        return dataclasses.replace(fio, variables=device | variables)


class Cut(Exception):
    """The run itself failed, so there is no result for the file."""


def cut(method: Method, seed: int) -> str | None:
    """Returns the fault of the file after the power cut with that seed, or None."""
    after = random.Random(seed).randint(1, OPERATIONS[method.mode])
    server_fio = method.side(method.server, SOFTRDMA_POWERCUT=f"after:{after},seed:{seed}")
    client_fio = method.side(method.client, **({"SOFTRDMA_FAULT": method.fault} if method.fault else {}))
    shared = {"serverip": ADDRESS, "port": free_port(ADDRESS), "mode": method.mode}
    with tempfile.TemporaryDirectory(prefix="librpma-fio-power-", dir="/dev/shm") as name:
        directory = pathlib.Path(name)
        file = directory / "workspace"
        file.write_bytes(bytes(SIZE))
        values = SERVER | shared | {"size": SIZE, "filename": file, "create_on_open": None, "direct_write_to_pmem": 1}
        with Job(server_fio, "aof", "server", values, directory) as server:
            server.wait_until_listening()
            with Job(client_fio, "aof", "client", DEEP | shared, directory) as client:
                client_result = client.result(END_S)
            result = server.result(END_S)
        if result.status != CUT or f"power cut after {after} operations with seed {seed}" not in result.stderr:
            raise Cut(f"seed {seed}: the server was not cut after operation {after}: {result} {client_result}")
        report = report_of(directory, "client")
        if "write" not in report:
            raise Cut(f"seed {seed}: the client printed no report: {client_result}")
        fault = check(file.read_bytes(), report["write"]["io_bytes"])
        return f"seed {seed}, cut after operation {after}: {fault}" if fault else None


def check(data: bytes, acknowledged: int) -> str | None:
    pointer = struct.unpack("<Q", data[-8:])[0]
    if pointer % BLOCK or pointer > COUNT * BLOCK:
        return f"the pointer is {pointer}"
    if pointer < acknowledged:
        return f"the pointer is {pointer}, {acknowledged} bytes were acknowledged"
    for number in range(pointer // BLOCK):
        if data[number * BLOCK:(number + 1) * BLOCK] != block(number):
            return f"the pointer is {pointer}, block {number} at {number * BLOCK} is not whole"
    return None


def faults(method: Method, cuts: int) -> list[str]:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [fault for fault in pool.map(lambda seed: cut(method, seed), range(FIRST_SEED, FIRST_SEED + cuts)) if fault]


def first_fault(method: Method, cuts: int) -> str | None:
    """Returns the first fault of at most `cuts` cuts. A mutant may fail before the power is cut: then the file has no result."""
    for seed in range(FIRST_SEED, FIRST_SEED + cuts):
        with contextlib.suppress(Cut):
            if found := cut(method, seed):
                return found
    return None


class PowerCuts(FioTest):
    def test_the_pointer_never_passes_the_data(self) -> None:
        for method in (Method("hw"), Method("hw", device="off"), Method("hw", fault=SLOW), Method("sw"),
                       Method("sw", fault=SLOW_REQUESTS)):
            with self.subTest(method=method):
                self.assertEqual([], faults(method, CUTS))

    def test_a_few_cuts_detect_faulty_engines(self) -> None:
        for mode, mutant, fault in (("hw", "client_pointer_first", ""), ("hw", "client_shared_pointer", SLOW),
                                    ("sw", "server_pointer_first", ""), ("sw", "client_shared_range", SLOW_REQUESTS)):
            with self.subTest(mutant=mutant):
                side = mutant.partition("_")[0]
                engine = {side: dataclasses.replace(EXTERNAL, engines=MUTANTS / mutant)}
                self.assertRegex(str(first_fault(Method(mode, fault=fault, **engine), 40)), "is not whole")


if __name__ == "__main__":
    unittest.main(verbosity=2)
