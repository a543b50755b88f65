# SPDX-License-Identifier: BSD-3-Clause
"""The engines load, by path and by name, and have the options of fio's own."""

import os
import re
import subprocess
import unittest

from support import ENGINES, EXTERNAL, IN_TREE, IN_TREE_ENGINES, LIBRARY, Fio, FioTest, run, version


def ask(fio: Fio, *arguments: str, library: str = "") -> str:
    environment = fio.environment()
    environment["LD_LIBRARY_PATH"] += f":{library}"
    return subprocess.run([fio.program, *arguments], env=environment, capture_output=True, text=True, check=False,
                          timeout=60).stdout


def options(fio: Fio, engine: str) -> list[str]:
    return re.findall(r"^(\w+) +:", ask(fio, f"--enghelp={engine}"), flags=re.MULTILINE)


def default(fio: Fio, engine: str, option: str) -> str:
    found = re.search(r"default: (.*)", ask(fio, f"--enghelp={engine},{option}"))
    return found[1].strip() or "0" if found else "0"


class Load(FioTest):
    def path(self, engine: str) -> str:
        return str(LIBRARY / "fio" / f"{engine}.so")

    def test_options_and_defaults_are_those_of_fios_own_engines(self) -> None:
        for engine in IN_TREE_ENGINES:
            own = options(IN_TREE, engine)
            self.assertEqual({"serverip", "port", "direct_write_to_pmem", "busy_wait_polling"}, set(own))
            self.assertLessEqual(set(own), set(options(EXTERNAL, self.path(engine))))
            for option in own:
                self.assertEqual(default(IN_TREE, engine, option), default(EXTERNAL, self.path(engine), option), option)

    def test_the_default_mode_of_the_append_only_file_is_software(self) -> None:
        for side in ("client", "server"):
            engine = self.path(f"librpma_aof_{side}")
            self.assertEqual("sw", default(EXTERNAL, engine, "mode"))
            described = ask(EXTERNAL, f"--enghelp={engine},mode")
            self.assertRegex(described, r"valid values: sw\b")
            self.assertRegex(described, r"(?m)^\s*: hw\b")

    def test_old_job_files_find_them_by_name(self) -> None:
        for engine in ENGINES:
            self.assertIn("serverip", ask(EXTERNAL, f"--enghelp={engine}", library=str(LIBRARY / "fio")))

    def test_they_export_the_engine_and_nothing_else(self) -> None:
        for engine in ENGINES:
            names = subprocess.run(["nm", "--dynamic", "--defined-only", "--format=just-symbols", self.path(engine)],
                                   capture_output=True, text=True, check=True).stdout.split()
            self.assertEqual(["ioengine"], names)

    def test_debians_fio_loads_them(self) -> None:
        if EXTERNAL.program == IN_TREE.program:
            self.skipTest(f"the system lacks fio of the version {version(IN_TREE)}")
        self.assertEqual(os.environ["FIO_PROGRAM"], EXTERNAL.program)
        self.assert_succeeds(run("apm"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
