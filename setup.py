# SPDX-License-Identifier: BSD-3-Clause
"""Builds the extension of the Python package, and librpma beside it, with CMake and Ninja. See pyproject.toml."""

import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = pathlib.Path(__file__).resolve().parent
VERSION = re.search(r"VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8").split("project(")[1])[1]
OTHER_PARTS = ["SOFTRDMA", "RPMEM", "EXAMPLES", "BENCH", "TOOLS", "TESTS", "MAN"]


class CMakeBuild(build_ext):
    def build_extension(self, ext: Extension) -> None:
        if not shutil.which("cmake") or not shutil.which("ninja"):
            sys.exit("rpma: cmake or ninja not found (install cmake, ninja-build, g++, libibverbs-dev and librdmacm-dev)")
        build, package = pathlib.Path(self.build_temp).absolute(), pathlib.Path(self.get_ext_fullpath(ext.name)).absolute().parent
        # The prefix determines where softrdma is searched.
        subprocess.run(["cmake", "-G", "Ninja", "-S", SOURCE, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_INSTALL_PREFIX=/usr",
                        "-DCMAKE_INSTALL_RPATH=$ORIGIN", "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", "-DRPMA_INSTALL=OFF",
                        f"-DPython3_EXECUTABLE={sys.executable}", *[f"-DRPMA_BUILD_{part}=OFF" for part in OTHER_PARTS]], check=True)
        subprocess.run(["cmake", "--build", build, "--target", "rpma_python"], check=True)
        package.mkdir(parents=True, exist_ok=True)
        for file in ("python/rpma/_rpma.abi3.so", "lib/librpma.so.0"):
            shutil.copy(build / file, package)


setup(version=VERSION, ext_modules=[Extension("rpma._rpma", [], py_limited_api=True)], cmdclass={"build_ext": CMakeBuild},
      options={"bdist_wheel": {"py_limited_api": "cp311"}})
