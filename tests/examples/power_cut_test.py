# SPDX-License-Identifier: BSD-3-Clause
"""Example 19: the correct order survives every power cut; the wrong order loses data within a hundred."""

import os
import pathlib
import shlex
import shutil
import tempfile

import support

CUTS = os.environ.get("POWER_CUTS", "60")
SCRIPT = str(support.BUILD / "examples" / "19-power-cut" / "power-cuts")
ENVIRONMENT = {**os.environ, "SOFTRDMA": support.SOFTRDMA[0]}


class PowerCutTest(support.ExamplesTest):
    def cut(self, *arguments: str, **environment: str) -> object:
        return support.execute([SCRIPT, *arguments], env={**ENVIRONMENT, **environment})

    def test_the_right_order_survives(self) -> None:
        result = self.cut("--cuts", CUTS)
        self.assertEqual(f"{CUTS} cuts, {CUTS} whole logs\n", result.stdout + result.stderr)
        self.assert_status(result, 0)

    def test_the_right_order_survives_with_emulated_flushes(self) -> None:
        result = self.cut("--cuts", "30", SOFTRDMA_NATIVE_VERBS="off")
        self.assertEqual("30 cuts, 30 whole logs\n", result.stdout + result.stderr)

    def test_wrong_orders_lose_data(self) -> None:
        for variant in ("no-flush", "late-flush"):
            for seed in ("1", "1001"):
                with self.subTest(variant=variant, seed=seed):
                    result = self.cut(variant, "--cuts", "100", "--seed", seed)
                    self.assert_status(result, 1)
                    self.assertRegex(result.stdout, r"^cut \d+ of 100, seed \d+: check: .*\(cut after operation \d+\)\n$")

    def test_a_cut_is_repeated_by_its_seed(self) -> None:
        first = self.cut("late-flush", "--cuts", "100")
        seed = first.stdout.split("seed ")[1].split(":")[0]
        again = self.cut("late-flush", "--cuts", "1", "--seed", seed)
        self.assertEqual(first.stdout.split(": ", 1)[1], again.stdout.split(": ", 1)[1])

    def test_the_script_finds_launcher_and_programs_of_its_build(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "SOFTRDMA"} | {"PATH": "/usr/bin:/bin"}
        with tempfile.TemporaryDirectory() as directory:
            tree = pathlib.Path(directory)
            shutil.copytree(support.ROOT / "examples" / "19-power-cut", tree / "examples" / "19-power-cut")
            script = tree / "examples" / "19-power-cut" / "power-cuts"
            result = support.execute([str(script), "--cuts", "1"], env=environment)
            self.assert_failure(result, 77, "server not found", "examples/run 19")
            build = tree / "o'k build"
            shutil.copytree(tree / "examples", build / "examples")
            (build / "CMakeCache.txt").touch()
            (build / "examples" / "19-power-cut" / "server").touch()
            result = support.execute([str(build / "examples" / "19-power-cut" / "power-cuts")], env=environment)
            self.assert_status(result, 77)
            self.assertEqual(["cmake", "--build", str(build), "--target", "example-19-power-cut-client", "example-19-power-cut-check"],
                             shlex.split(result.stderr.split("`")[1]))
            (tree / "build").mkdir()
            (tree / "build" / "any").symlink_to(support.BUILD)
            for path in (str(script), SCRIPT):
                result = support.execute([path, "--cuts", "1"], env=environment)
                self.assertEqual("1 cuts, 1 whole logs\n", result.stdout + result.stderr)

    def test_without_softrdma_no_advice_is_printed(self) -> None:
        self.assert_failure(self.cut("--softrdma", "/nonexistent/softrdma"), 77, "softrdma", "install")

    def test_a_wrong_command_line(self) -> None:
        for arguments in (("--cut",), ("--cuts", "0"), ("left",)):
            self.assert_failure(self.cut(*arguments), 2, "power-cuts: ", "(see power-cuts --help)")


if __name__ == "__main__":
    support.main()
