# SPDX-License-Identifier: BSD-3-Clause
"""Clients of rpmemd --listen that use another implementation of TLS."""

import pathlib
import re
import shutil
import subprocess
import threading
import unittest

from support import LIMIT_S, PROGRAM, DaemonTest

KEY = "000102030405060708090a0b0c0d0e0f"


@unittest.skipUnless(shutil.which("openssl"), "openssl is missing")
class Tls(DaemonTest):
    def setUp(self):
        super().setUp()
        key = self.place / "key"
        key.write_text(f"reader:{'1' * 32}\nwriter:{KEY}\n")
        key.chmod(0o600)
        self.daemon = subprocess.Popen([PROGRAM, "--listen", "127.0.0.1:0", "--key-file", key, "--log-level", "warn"],
                                       env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)
        self.port = re.search(r"port (\d+)", self.daemon.stdout.readline())[1]

    def end(self):
        self.daemon.terminate()
        self.daemon.wait(LIMIT_S)
        self.daemon.stdout.close()

    def openssl(self):
        return ["openssl", "s_client", "-connect", f"127.0.0.1:{self.port}", "-brief"]

    def client(self, *words):
        """Returns output and standard error of a client that closes the connection at the end of its input."""
        done = subprocess.run([*self.openssl(), *words], input=b"", check=False, capture_output=True, timeout=LIMIT_S)
        return done.stdout, done.stderr.decode(errors="replace")

    def test_the_process_has_the_name_of_the_program(self):
        self.assertEqual(pathlib.Path(f"/proc/{self.daemon.pid}/comm").read_text(), "rpmemd\n")

    def test_a_client_with_the_key_is_served(self):
        with subprocess.Popen([*self.openssl(), "-psk_identity", "writer", "-psk", KEY, "-tls1_3"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
            limit = threading.Timer(LIMIT_S, client.kill)
            limit.start()
            output = b""
            while b"RPM1" not in output and (byte := client.stdout.read(1)):
                output += byte
            text = client.communicate()[1].decode(errors="replace")
            limit.cancel()
        self.assertIn("Protocol version: TLSv1.3", text)
        self.assertIn(b"RPM1", output)

    def test_a_client_without_the_key_is_refused(self):
        for words, alert in ((("-psk_identity", "other", "-psk", KEY), "unknown psk identity"),
                             (("-psk_identity", "reader", "-psk", KEY), "illegal parameter"),
                             ((), "alert")):
            output, text = self.client("-tls1_3", *words)
            self.assertEqual(output, b"")
            self.assertIn(alert, text)
        log = (self.place / "log").read_text()
        self.assertIn("client rejected: unknown identity 'other'", log)
        self.assertIn("client rejected: wrong key of identity 'reader'", log)

    def test_older_versions_are_refused(self):
        output, text = self.client("-psk_identity", "writer", "-psk", KEY, "-tls1_2")
        self.assertEqual(output, b"")
        self.assertIn("alert protocol version", text)


if __name__ == "__main__":
    unittest.main()
