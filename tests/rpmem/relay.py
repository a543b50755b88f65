#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: relay.py DIRECTORY COMMAND...: runs the daemon, and forwards its messages.

The file DIRECTORY/answer-N, while it exists, replaces the response to each request of type N. If the file contains only
a word, the relay does this: `end` closes the connection, `nothing` drops all later messages. A removal has no responses.
"""

import os
import pathlib
import socket
import subprocess
import sys

GREETING_HEADER, ANSWER_HEADER = 26, 24

if "--remove" in sys.argv:
    os.execvp(sys.argv[2], sys.argv[2:])
place, client = pathlib.Path(sys.argv[1]), socket.socket(fileno=1)
with subprocess.Popen(sys.argv[2:], stdin=client, stdout=subprocess.PIPE) as daemon:
    greeting = daemon.stdout.read(GREETING_HEADER)
    client.sendall(greeting + daemon.stdout.read(int.from_bytes(greeting[-2:], "big")))
    silent = False
    while header := daemon.stdout.read(ANSWER_HEADER):
        kind, size = int.from_bytes(header[4:8], "big") - 1, int.from_bytes(header[8:16], "big")
        answer = header + daemon.stdout.read(size - ANSWER_HEADER)
        instead = place / f"answer-{kind}"
        if instead.exists():
            answer = instead.read_bytes()
        silent = silent or answer == b"nothing"
        if answer == b"end":
            client.shutdown(socket.SHUT_RDWR)
        elif not silent:
            client.sendall(answer)
    while silent and client.recv(4096):
        pass
