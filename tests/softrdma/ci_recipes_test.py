# SPDX-License-Identifier: BSD-3-Clause
"""Runs the steps of action.yml and of softrdma.Containerfile without a network. usage: ci_recipes_test.py SOURCE BUILD

apt-get is a program of this test, which unpacks the package in a directory instead of the system."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from support import directory, skip

try:
    import yaml
except ImportError:
    skip("python3-yaml is not installed")

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
APT_GET = """#!/bin/sh
echo "$@" >>"$TEST_ROOT/apt-get.log"
for argument; do
    case $argument in
    *.deb) dpkg-deb --extract "$argument" "$TEST_ROOT" || exit 1 ;;
    esac
done
"""


class CiRecipesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.work = directory(self)
        self.root = self.work / "root"
        (self.root / "DEBIAN").mkdir(parents=True)
        self.run_checked("cmake", "--install", BUILD, "--component", "softrdma", "--prefix", self.root / "usr")
        (self.root / "DEBIAN/control").write_text(
            "Package: softrdma\nVersion: 1\nArchitecture: all\nMaintainer: test <test@localhost>\nDescription: test\n")
        self.packages = self.work / "packages"
        self.packages.mkdir()
        self.run_checked("dpkg-deb", "--build", "-Znone", self.root, self.packages / "softrdma_1_all.deb")
        shutil.rmtree(self.root)
        self.root.mkdir()
        tools = self.work / "tools"
        tools.mkdir()
        (tools / "apt-get").write_text(APT_GET)
        # The actions of a runner that is not root.
        (tools / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
        for tool in tools.iterdir():
            tool.chmod(0o755)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "SOFTRDMA_"))}
        self.environment = inherited | {"PATH": f"{tools}:{self.root}/usr/bin:{os.environ['PATH']}", "TEST_ROOT": str(self.root)}

    def run_checked(self, *command: object, env: dict[str, str] | None = None, cwd: pathlib.Path | None = None) -> str:
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=120, env=env, cwd=cwd)
        self.assertEqual(0, done.returncode, f"{command}:\n{done.stdout}")
        return done.stdout

    def check_device(self, output: str) -> None:
        self.assertIn("softrdma0", output)
        log = (self.root / "apt-get.log").read_text()
        self.assertRegex(log, "(?m)^update")
        self.assertRegex(log, r"install .*/softrdma_1_all\.deb")

    def test_later_steps_of_the_action_find_the_device(self) -> None:
        action = yaml.safe_load((SOURCE / "action.yml").read_text())
        self.assertEqual("composite", action["runs"]["using"])
        exported = self.work / "github_env"
        exported.touch()
        environment = self.environment | {"GITHUB_ENV": str(exported), "GITHUB_ACTION_PATH": str(SOURCE)}
        for step in action["runs"]["steps"]:
            self.assertEqual("bash", step["shell"])
            inputs = {name: value.replace("${{ inputs.packages }}", str(self.packages)) for name, value in step.get("env", {}).items()}
            self.run_checked("bash", "-eo", "pipefail", "-c", step["run"], env=environment | inputs, cwd=self.work)
        later = dict(line.split("=", 1) for line in exported.read_text().splitlines())
        self.check_device(self.run_checked("ibv_devices", env=self.environment | later))

    def test_programs_of_the_container_find_the_device(self) -> None:
        recipe = (SOURCE / "packaging/softrdma.Containerfile").read_text().replace("\\\n", " ")
        steps = re.findall(r"(?m)^([A-Z]+) (.*)$", recipe)
        self.assertEqual(["FROM", "COPY", "RUN", "ENTRYPOINT", "CMD"], [name for name, _ in steps])
        values = dict(steps)
        (self.work / "lists").mkdir()
        # The paths of the image, as those of this test.
        script = values["RUN"].replace("/packages", str(self.packages)).replace("/var/lib/apt/lists/", f"{self.work}/lists/")
        (self.work / "lists/list").touch()
        self.run_checked("sh", "-c", script, env=self.environment)
        self.check_device(self.run_checked(*json.loads(values["ENTRYPOINT"]), "ibv_devices", env=self.environment))


if __name__ == "__main__":
    for program in ("ibv_devices", "dpkg-deb"):
        if shutil.which(program) is None:
            skip(f"{program} is not installed")
    unittest.main(argv=sys.argv[:1], verbosity=2)
