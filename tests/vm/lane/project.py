# SPDX-License-Identifier: BSD-3-Clause
"""Builds the project in the Debian 13 root with its rdma-core, which has the native verbs."""

import pathlib

from lane import SOURCE, disk
from lane.cache import key_of, locked
from lane.debian import inside, run_quietly

# Without softrdma, because the programs of the project use the kernel's device here, and without rpma-bench, because times
# are meaningless here.
CONFIGURE = (
    "cmake -S /source -B /build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRPMA_WERROR=ON -DRPMA_BUILD_SOFTRDMA=OFF "
    "-DRPMA_BUILD_BENCH=OFF -DRPMA_BUILD_PYTHON=ON -DRPMA_BUILD_MAN=OFF -DRPMA_VM_GUEST=ON "
    "'-DRPMA_TEST_SUITES=integration;conformance;vm'"
)
# softrdma, the peer of the kernel's device in some tests.
DEVICE = (
    "cmake -S /source -B /build/device -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRPMA_BUILD_TESTS=OFF -DRPMA_BUILD_BENCH=OFF "
    "-DRPMA_BUILD_RPMEM=OFF -DRPMA_BUILD_EXAMPLES=OFF -DRPMA_BUILD_PYTHON=OFF -DRPMA_BUILD_MAN=OFF; "
    "cmake --build /build/device --target softrdma softrdma_device"
)
# The engines of fio are built with the headers of the fio that they load in,
# that of Debian 12: mirrors may lack the sources of Debian 13.
FIO = (
    "if fio=$(/source/utils/fio/source --suite bookworm --cache /build/fio); then make -s -C $fio fio; mkdir -p /build/bin; "
    "ln -sf $fio/fio /build/bin; else echo \"$fio\" >/build/fio-missing; fio=; fi"
)
# Some tests use Debian's librpma as the peer. The guest has no network to fetch it.
FETCH_PEER = "/source/utils/fetch-debian-librpma /build/debian"


def build_directory(cache: pathlib.Path, system: pathlib.Path) -> pathlib.Path:
    return cache / f"build-{key_of(system.name, str(SOURCE))}"


def build(cache: pathlib.Path, system: pathlib.Path, jobs: int) -> pathlib.Path:
    path = build_directory(cache, system)
    with locked(path):
        path.mkdir(exist_ok=True)
        script = (f"{FIO}; {CONFIGURE} -DRPMA_FIO_SOURCE=$fio; cmake --build /build -j {jobs}; {DEVICE} -j {jobs}; "
                  f"{FETCH_PEER}")
        run_quietly(inside(system, {"source": SOURCE, "build": path}, script), "building the project")
        disk.make(system, path)
    return path
