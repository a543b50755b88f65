#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The libraries contain the documented probes with the documented number of arguments, and no others."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import support


def notes(library, provider):
    """Returns name, semaphore and arguments of each location of the provider's probes."""
    output = subprocess.run(["readelf", "--notes", "--wide", library], capture_output=True, text=True, check=True).stdout
    # The device contains the C++ runtime, which has probes of its own.
    return re.findall(rf"Provider: {provider}\s+Name: (\w+)\s+Location: \S+, Base: \S+, Semaphore: (\S+)\s+Arguments: (.*)",
                      output)


def documented(provider):
    """Returns the number of arguments that the document lists for each probe of a provider."""
    rows = re.findall(rf"^\| `{provider}:(\w+)` \| ([^|]*) \|", support.DOCUMENT.read_text(), re.MULTILINE)
    return {name: len(arguments.split(",")) for name, arguments in rows}


class Notes(unittest.TestCase):
    def check(self, library, provider, probes):
        found = notes(library, provider)
        self.assertEqual(probes, {name: len(arguments.split()) for name, _, arguments in found})
        for name, semaphore, arguments in found:
            with self.subTest(name):
                self.assertEqual(0, int(semaphore, 16), "a semaphore is a test and a branch in the path")
                for argument in arguments.split():
                    self.assertRegex(argument, r"^-?[48]@.", "unexpected size or location")

    def test_of_the_library(self):
        self.check(support.LIBRPMA, "librpma", {name: len(formats) for name, formats in support.FORMATS.items()})

    def test_of_the_device(self):
        self.check(support.LIBSOFTRDMA, "softrdma", support.SOFTRDMA)

    def test_the_document_has_them_all(self):
        self.assertEqual({name: len(formats) for name, formats in support.FORMATS.items()}, documented("librpma"))
        self.assertEqual(support.SOFTRDMA, documented("softrdma"))

    @unittest.skipUnless(shutil.which("bpftrace") and os.geteuid() == 0, "bpftrace is not installed, or needs root")
    def test_the_scripts_are_parsed_with_blanks_in_a_long_path_of_the_library(self):
        # bpftrace limits strings, but not names of probes, to 64 bytes.
        with tempfile.TemporaryDirectory(prefix="my library " + 64 * "x") as directory:
            library = shutil.copy(support.LIBRPMA, directory)
            for name in ("rpma-latency.bt", "rpma-events.bt"):
                script = pathlib.Path(directory) / name
                script.write_text((support.SCRIPTS / name).read_text().replace(str(support.LIBRPMA), library))
                done = subprocess.run(["bpftrace", "-d", script], capture_output=True, text=True, timeout=120)
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertIn(f"usdt:{library}:librpma:poll", done.stdout)


if __name__ == "__main__":
    if shutil.which("readelf") is None:
        support.skip("readelf is not installed")
    sys.exit(unittest.main(verbosity=2))
