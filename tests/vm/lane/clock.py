# SPDX-License-Identifier: BSD-3-Clause
"""Frequency of this processor's time stamp counter, which an emulated x86 processor uses, too.

A guest that measures it on a busy host can get a wrong result, for example a seventh of the frequency. Its time then runs
seven times too fast: programs time out, and the network appears to lose packets."""

import ctypes
import functools
import mmap
import platform
import time

READ_COUNTER = bytes.fromhex("0f31 48c1e220 4809d0 c3")  # rdtsc; shl $32, %rdx; or %rdx, %rax; ret
INTERVAL_S = 0.1
ATTEMPTS = 20


@functools.cache
def counter_khz() -> int | None:
    """Returns None if it is unknown; guests then measure it."""
    if platform.machine() != "x86_64":
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    code.write(READ_COUNTER)
    read_counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))

    def moment() -> tuple[int, int]:
        """Returns the time in nanoseconds and the counter, read as close together as possible."""
        best = None
        for _ in range(ATTEMPTS):
            before = time.monotonic_ns()
            count = read_counter()
            gap = time.monotonic_ns() - before
            if best is None or gap < best[0]:
                best = gap, before + gap // 2, count
        return best[1:]

    first_ns, first_count = moment()
    time.sleep(INTERVAL_S)
    last_ns, last_count = moment()
    return round((last_count - first_count) * 1_000_000 / (last_ns - first_ns))
