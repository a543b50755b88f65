# SPDX-License-Identifier: BSD-3-Clause
"""Each example builds alone from a copy of its directory and the common one, against an installed librpma. Only a few are run
here, because other tests run programs built from the same sources."""

import os
import pathlib
import re
import shutil

import support
from support import ADDR, TOPICS


RUN = ("01", "05", "08srq", "13")


class StandaloneTest(support.ExamplesTest):
    prefix: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.prefix = support.directory(cls, prefix="rpma-standalone-install-", dir="/var/tmp")
        installed = support.execute(["cmake", "--install", str(support.BUILD), "--prefix", str(cls.prefix)])
        if installed.returncode != 0:
            raise AssertionError(installed.stdout + installed.stderr)

    def setUp(self) -> None:
        self.directory = support.directory(self, prefix="rpma-standalone-test-", dir="/var/tmp")
        self.topics = TOPICS

    def copy(self, *names: str) -> pathlib.Path:
        source = self.directory / "source"
        for name in names:
            shutil.copytree(support.RUNNER.parent / name, source / name, dirs_exist_ok=True)
        return source

    def build(self, source: pathlib.Path, build: pathlib.Path, *definitions: str, **environment: str) -> None:
        configured = support.execute(["cmake", "-G", "Ninja", "-S", str(source), "-B", str(build), *definitions],
            env={**os.environ, **environment})
        self.assert_status(configured, 0)
        self.assertNotIn("left out", configured.stderr)
        self.assert_status(support.execute(["cmake", "--build", str(build)]), 0)

    def build_alone(self, number: str, *definitions: str, **environment: str) -> pathlib.Path:
        topic = TOPICS[number]
        source, build = self.copy("common", topic), self.directory / "build"
        self.build(source / topic, build / topic, *definitions, **environment)
        return build

    def build_all(self, *definitions: str, **environment: str) -> pathlib.Path:
        """Builds all examples in one project, so that common sources are built once."""
        topics = [*self.topics.values(), "log"]
        source, build = self.copy("common", *topics), self.directory / "build-all"
        projects = "".join(f"add_subdirectory({topic})\n" for topic in topics)
        (source / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.25)\nproject(all LANGUAGES C)\n{projects}", encoding="utf-8")
        self.build(source, build, *definitions, **environment)
        return build

    def check_pair(self, number: str, build: pathlib.Path, library: pathlib.Path) -> None:
        port = support.free_port(ADDR)
        side = support.Side(build, has_options=True, library=library)
        starts = {role: [*support.SOFTRDMA, side.program(TOPICS[number], role), ADDR, port]
                  for role in ("server", "client")}
        clients = [support.operands(number, "client"), *support.CATALOGUE[number].more_clients]
        outcome = support.run_pair(starts["server"] + support.operands(number, "server"),
                                   [[*starts["client"], *operands] for operands in clients], side, side, 20)
        self.assert_success(outcome)

    def check_some(self, build: pathlib.Path, *libraries: pathlib.Path) -> None:
        for number in RUN:
            for library in libraries:
                with self.subTest(number=number, library=library):
                    self.check_pair(number, build, library)

    def installed(self) -> tuple[pathlib.Path, pathlib.Path]:
        """Returns the prefix, and the directory of librpma.so.0 in it."""
        return self.prefix, next(self.prefix.glob("lib*/**/librpma.so.0")).parent

    def test_with_the_cmake_package(self) -> None:
        prefix, library = self.installed()
        self.check_some(self.build_all(f"-DCMAKE_PREFIX_PATH={prefix}", PKG_CONFIG_PATH=""), library)

    def test_one_directory_is_enough(self) -> None:
        prefix, library = self.installed()
        for number in ("01", "09scch"):
            with self.subTest(number=number):
                self.check_pair(number, self.build_alone(number, f"-DCMAKE_PREFIX_PATH={prefix}"), library)

    def test_the_first_five_are_one_call_of_the_compiler_each(self) -> None:
        """Builds with the command in the comment at the top of each file."""
        prefix, library = self.installed()
        packages = {**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig")}
        for number in ("01", "02", "03", "04", "05"):
            topic = self.copy("common", TOPICS[number]) / TOPICS[number]
            for role in ("client", "server"):
                text = (topic / f"{role}.c").read_text(encoding="utf-8")
                self.assertLessEqual(len(text.splitlines()), 120, f"{topic.name}/{role}.c")
                command = re.search(r"^ \*     (cc .*)$", text, flags=re.MULTILINE)[1]
                self.assertTrue(command.startswith(f"cc {role}.c -o {role} "), command)
                self.assert_status(support.execute(["sh", "-c", command], cwd=topic, env=packages), 0)
            self.check_pair(number, topic.parent, library)

    def test_with_the_released_header_and_pkg_config(self) -> None:
        library = support.debian_library()
        if not library:
            self.skipTest("Debian's librpma-dev is not in the build directory")
        original = library / "pkgconfig" / "librpma.pc"
        if not original.is_file():
            self.skipTest(f"{original} is missing")
        packages = self.directory / "pkgconfig"
        packages.mkdir()
        prefix = str(library.parents[2]).replace(" ", "\\ ")
        text = original.read_text(encoding="utf-8").replace("prefix=/usr", f"prefix={prefix}/usr", 1)
        (packages / "librpma.pc").write_text(text, encoding="utf-8")
        # The released package does not contain rpma.hpp.
        self.topics = {number: topic for number, topic in TOPICS.items() if number != "18"}
        build = self.build_all("-DCMAKE_DISABLE_FIND_PACKAGE_librpma=ON", PKG_CONFIG_PATH=str(packages))
        self.check_some(build, library, support.BUILD / "lib")

    def test_without_libpmem2_a_path_is_refused_with_its_remedy(self) -> None:
        """pkg-config finds all packages except libpmem2."""
        prefix, library = self.installed()
        pkg_config = support.write_script(
            self.directory / "pkg-config", 'case "$*" in *libpmem2*) exit 1 ;; esac\n'
            f'exec {shutil.which("pkg-config")} "$@"')
        build = self.build_alone("05", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DPKG_CONFIG_EXECUTABLE={pkg_config}")
        server = build / TOPICS["05"] / "server"
        with support.pmem_file() as path:
            result = support.execute([*support.SOFTRDMA, str(server), ADDR, "7204", str(path)],
                env={**os.environ, "LD_LIBRARY_PATH": str(library)})
        self.assert_failure(result, 1, "built without libpmem2", "install libpmem2-dev")


if __name__ == "__main__":
    support.main()
