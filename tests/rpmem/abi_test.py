# SPDX-License-Identifier: BSD-3-Clause
"""librpmem.so.1 exports exactly the functions that programs linked to the original library use."""

import os
import re
import subprocess
import unittest

LIBRARY = os.environ["LIBRPMEM"]
NAMES = ("check_version", "close", "create", "deep_persist", "drain", "errormsg", "flush", "open", "persist", "read", "remove",
         "set_attr")


def output_of(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


class Abi(unittest.TestCase):
    def test_twelve_functions_of_one_node(self):
        lines = output_of("nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY).splitlines()
        exported = sorted(line.split()[-1] for line in lines if line.split()[1] != "A")
        self.assertEqual(exported, sorted(f"rpmem_{name}@@LIBRPMEM_1.0" for name in NAMES))

    def test_the_name_and_what_is_needed(self):
        dynamic = output_of("readelf", "-d", LIBRARY)
        self.assertEqual(re.findall(r"\(SONAME\).*\[(.*)\]", dynamic), ["librpmem.so.1"])
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        messages = {"libprotobuf-lite.so.32", "libnettle.so.8", "libstdc++.so.6", "libgcc_s.so.1"}
        self.assertLessEqual(needed, messages | {"librpma.so.0", "libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"})


if __name__ == "__main__":
    unittest.main()
