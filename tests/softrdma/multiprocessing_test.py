# SPDX-License-Identifier: BSD-3-Clause
"""Python's multiprocessing, with the start method fork, on the device: each worker opens its own context. Run it with softrdma run."""

import ctypes
import multiprocessing
import unittest

LIMIT_S = 300  # on a hang

verbs = ctypes.CDLL(None)  # the preloaded device
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
verbs.ibv_close_device.argtypes = [ctypes.c_void_p]
verbs.ibv_alloc_pd.restype = ctypes.c_void_p
verbs.ibv_alloc_pd.argtypes = [ctypes.c_void_p]
verbs.ibv_dealloc_pd.argtypes = [ctypes.c_void_p]
verbs.ibv_reg_mr.restype = ctypes.c_void_p
verbs.ibv_reg_mr.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
verbs.ibv_dereg_mr.argtypes = [ctypes.c_void_p]


def use_device(number: int) -> int:
    devices = verbs.ibv_get_device_list(None)
    context = verbs.ibv_open_device(devices[0])
    domain = verbs.ibv_alloc_pd(context)
    memory = ctypes.create_string_buffer(4096)
    region = verbs.ibv_reg_mr(domain, memory, 4096, 1)
    if not (context and domain and region):
        raise AssertionError("the device cannot be used")
    if verbs.ibv_dereg_mr(region) != 0 or verbs.ibv_dealloc_pd(domain) != 0 or verbs.ibv_close_device(context) != 0:
        raise AssertionError("an object cannot be destroyed")
    return number


class MultiprocessingTest(unittest.TestCase):
    def run_workers(self) -> None:
        with multiprocessing.get_context("fork").Pool(4) as pool:
            self.assertEqual(list(range(16)), pool.map_async(use_device, range(16)).get(LIMIT_S))

    def test_workers_of_a_program_that_has_closed_the_device(self) -> None:
        use_device(0)
        self.run_workers()

    def test_workers_of_a_program_that_has_it_open(self) -> None:
        context = verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0])
        self.run_workers()
        self.assertEqual(0, verbs.ibv_close_device(context))


if __name__ == "__main__":
    unittest.main(verbosity=2)
