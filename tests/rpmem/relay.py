#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: relay.py DIRECTORY COMMAND...: runs the daemon, and forwards its messages.

The file DIRECTORY/answer-N, while it exists, replaces the response to each request of kind N. If the file contains only
a word, the relay does this: `end` closes the connection, `nothing` drops all later messages. A removal has no responses.
"""

import os
import pathlib
import socket
import subprocess
import sys

PREAMBLE_SIZE, HEADER_SIZE, KIND_FIELD = 26, 4, 2


def receive(source):
    """Returns the next frame, or nothing at the end."""
    header = source.read(HEADER_SIZE)
    return header + source.read(int.from_bytes(header, "big"))


def kind_of(frame):
    """Returns the kind of a response, which begins with its number, unless that is 0, and its kind, both below 128."""
    start = frame[HEADER_SIZE:HEADER_SIZE + 4]
    return dict(zip(start[::2], start[1::2]))[KIND_FIELD << 3]


if "--remove" in sys.argv:
    os.execvp(sys.argv[2], sys.argv[2:])
place, client = pathlib.Path(sys.argv[1]), socket.socket(fileno=1)
with subprocess.Popen(sys.argv[2:], stdin=client, stdout=subprocess.PIPE) as daemon:
    client.sendall(daemon.stdout.read(PREAMBLE_SIZE) + receive(daemon.stdout))
    silent = False
    while answer := receive(daemon.stdout):
        instead = place / f"answer-{kind_of(answer)}"
        if instead.exists():
            answer = instead.read_bytes()
        silent = silent or answer == b"nothing"
        if answer == b"end":
            client.shutdown(socket.SHUT_RDWR)
        elif not silent:
            client.sendall(answer)
    while silent and client.recv(4096):
        pass
