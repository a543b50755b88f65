#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares nbdkit-rpma-mirror-plugin with nbdkit's file plugin: same directory, same client, one run.

Measures random writes of 4 KiB with FUA (depth 1 and 16) and sequential writes of 1 MiB, after a warm-up pass.
SOFTRDMA_TRANSPORT=tcp measures the network path instead of shared memory. Needs the environment of the tests (see ctest -V -R
nbdkit.clients)."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent.parent / name) for name in ("mirror", "nbdkit")]
import support  # noqa: E402  # pylint: disable=wrong-import-position

SECONDS = os.environ.get("DISK_SPEED_SECONDS", "5")
JOBS = {"4 KiB, depth 1": ("randwrite", "4k", 1, ["--fsync=1"]), "4 KiB, depth 16": ("randwrite", "4k", 16, ["--fsync=1"]),
        "1 MiB, sequential": ("write", "1m", 4, [])}


def fio(uri, kind, block, depth, more):
    out = subprocess.run(["fio", "--name=x", "--ioengine=nbd", f"--uri={uri}", f"--rw={kind}", f"--bs={block}", "--size=192m",
                          f"--iodepth={depth}", "--time_based", f"--runtime={SECONDS}", "--output-format=json", *more],
                         capture_output=True, text=True, check=True).stdout
    write = json.loads(out[out.index("{"):])["jobs"][0]["write"]
    return write["iops"], write["bw_bytes"] / 1e9


def measure(place, *plugin):
    socket = place / "socket"
    socket.unlink(missing_ok=True)
    server = subprocess.Popen(["nbdkit", "-f", "-U", socket, *plugin], stdin=subprocess.DEVNULL)
    try:
        while not socket.exists():
            time.sleep(0.05)
        uri = f"nbd+unix:///?socket={socket}"
        fio(uri, *JOBS["1 MiB, sequential"])  # allocates the pages
        return {name: fio(uri, *job) for name, job in JOBS.items()}
    finally:
        server.terminate()
        server.wait()


def main():
    with tempfile.TemporaryDirectory(dir=support.PLACE) as directory:
        place = pathlib.Path(directory)
        target = support.Target(place / "target", "127.0.0.1")
        target.kill()
        (target.place / "set").write_text(f"PMEMPOOLSET\nOPTION NOHDRS\n256M {target.place}/part\n")
        target.start()
        try:
            (place / "set").write_text(f"RPMAMIRROR\nlocal 0 {place}/home 256M\ntarget 1 {target.address} set\n"
                                       f"key-file {target.place}/key\ndevice softrdma\n")
            subprocess.run([support.TOOL, "create", place / "set"], check=True, stdout=subprocess.DEVNULL)
            mirror = measure(place, os.environ["NBDKIT_PLUGIN"], f"set={place}/set")
        finally:
            target.kill()
        with open(place / "file", "wb") as file:
            file.truncate(256 << 20)
        plain = measure(place, "file", place / "file")
    print(f"{'':20}{'mirror':>22}{'file':>22}  time per write, mirror / file")
    for name in JOBS:
        cells = "".join(f"{iops:10.0f}/s {rate:5.2f} GB/s" for iops, rate in (mirror[name], plain[name]))
        print(f"{name:20}{cells}  {plain[name][0] / mirror[name][0]:.2f}")


if __name__ == "__main__":
    main()
