# SPDX-License-Identifier: BSD-3-Clause
"""Every example builds alone, from a copy of its directory and the common one, against an installed librpma."""

import os
import pathlib
import shutil
import tempfile

import support
from support import ADDR, TOPICS


class StandaloneTest(support.ExamplesTest):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="rpma-standalone-test-", dir="/var/tmp")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def build(self, number: str, *definitions: str, **environment: str) -> pathlib.Path:
        topic = TOPICS[number]
        source, build = self.directory / "source", self.directory / "build"
        for name in ("common", topic):
            shutil.copytree(support.RUNNER.parent / name, source / name, dirs_exist_ok=True)
        configured = support.execute(["cmake", "-S", str(source / topic), "-B", str(build / topic), *definitions],
            env={**os.environ, **environment})
        self.assert_status(configured, 0)
        self.assert_status(support.execute(["cmake", "--build", str(build / topic)]), 0)
        return build

    def check_pair(self, number: str, build: pathlib.Path, library: pathlib.Path) -> None:
        operands = {"client": ["7", "3"] if number == "08" else [], "server": []}
        port = support.free_port(ADDR)
        side = support.Side(build, has_options=True, library=library)
        commands = {role: [*support.SOFTRDMA, side.program(TOPICS[number], role), ADDR, port, *operands[role]]
                    for role in operands}
        outcome = support.run_pair(commands["server"], [commands["client"]], side, side, 10)
        self.assert_status(outcome.client, 0)
        self.assert_status(outcome.server, 0)

    def test_with_the_cmake_package(self) -> None:
        prefix = self.directory / "prefix"
        self.assert_status(support.execute(["cmake", "--install", str(support.BUILD), "--prefix", str(prefix)]), 0)
        library = next(prefix.glob("lib*/**/librpma.so.0")).parent
        for number in TOPICS:
            with self.subTest(number=number):
                build = self.build(number, f"-DCMAKE_PREFIX_PATH={prefix}", PKG_CONFIG_PATH="")
                self.check_pair(number, build, library)

    def test_with_the_released_header_and_pkg_config(self) -> None:
        library = support.debian_library()
        if not library:
            self.skipTest("Debian's librpma-dev is not in the build directory")
        original = library / "pkgconfig" / "librpma.pc"
        if not original.is_file():
            self.skipTest(f"{original} is missing")
        packages = self.directory / "pkgconfig"
        packages.mkdir()
        text = original.read_text(encoding="utf-8").replace("prefix=/usr", f"prefix={library.parents[2]}/usr", 1)
        (packages / "librpma.pc").write_text(text, encoding="utf-8")
        for number in TOPICS:
            with self.subTest(number=number):
                build = self.build(number, "-DCMAKE_DISABLE_FIND_PACKAGE_librpma=ON", PKG_CONFIG_PATH=str(packages))
                self.check_pair(number, build, library)
                self.check_pair(number, build, support.BUILD / "lib")

    def test_without_libpmem2_a_path_is_refused_with_its_remedy(self) -> None:
        """pkg-config finds what is installed, but not libpmem2."""
        prefix = self.directory / "prefix"
        self.assert_status(support.execute(["cmake", "--install", str(support.BUILD), "--prefix", str(prefix)]), 0)
        pkg_config = self.directory / "pkg-config"
        pkg_config.write_text(
            '#!/bin/sh\nfor argument; do case $argument in *libpmem2*) exit 1 ;; esac; done\n'
            f'exec {shutil.which("pkg-config")} "$@"\n', encoding="utf-8")
        pkg_config.chmod(0o755)
        build = self.build("05", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DPKG_CONFIG_EXECUTABLE={pkg_config}")
        server = build / TOPICS["05"] / "server"
        with support.pmem_file() as path:
            library = next(prefix.glob("lib*/**/librpma.so.0")).parent
            result = support.execute([*support.SOFTRDMA, str(server), ADDR, "7204", str(path)],
                env={**os.environ, "LD_LIBRARY_PATH": str(library)})
        self.assert_status(result, 1)
        self.assert_one_line(result.stderr, "built without libpmem2", "install libpmem2-dev")


if __name__ == "__main__":
    support.main()
