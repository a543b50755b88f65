#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every workload over every api: each must have the documented effect on the data."""

import os
import resource
import unittest

from support import BenchTest

WORKLOADS = ["read", "write_flush", "gpspm", "aof", "send_recv", "write_with_imm", "atomic_write", "log_append", "mix", "connect",
             "rpmem_persist", "rpmem_flush_drain"]
WITH_A_SERVER = {"gpspm", "aof", "send_recv", "write_with_imm", "connect"}


class Workloads(BenchTest):
    def measured(self, *words):
        self.succeeded(self.local(*words))
        result = self.result()
        self.assertTrue(result["complete"])
        return result

    def check_points(self, points):
        for point in points:
            name = f"{point['workload']} {point['api']}"
            if point["workload"].startswith("rpmem_") and point["api"] != "librpma":
                self.assertEqual(point["status"], "skipped", name)
                self.assertIn("librpmem uses librpma only", point["reason"])
                continue
            if point["api"] == "memcpy" and point["workload"] in WITH_A_SERVER:
                self.assertEqual(point["status"], "skipped", name)
                self.assertIn("only one end", point["reason"])
                continue
            self.assertEqual(point["status"], "done", f"{name}: {point['reason']}")
            for repeat in point["repeats"]:
                self.assertTrue(repeat["verified"], name)
                self.assertGreater(repeat["operations"], 0, name)
                counted = sum(count for _, count in repeat["latency_ns"]["histogram"])
                self.assertEqual(counted, repeat["operations"] // point["parameters"]["flush_interval"], name)

    def checked(self, *words):
        result = self.measured(*words)
        self.check_points(result["points"])
        return result

    def every(self, api, *words):
        result = self.checked("-w", ",".join(WORKLOADS), "--api", api, *words)
        self.assertEqual([point["workload"] for point in result["points"]], WORKLOADS)
        return result

    def test_every_workload_over_librpma(self):
        result = self.every("librpma")
        self.assertIn("librpma.so.0", result["libraries"][0]["file"])

    def test_every_workload_over_verbs(self):
        self.every("verbs")

    def test_every_workload_over_tcp(self):
        self.every("tcp")

    def test_every_workload_over_memcpy(self):
        self.every("memcpy")

    def test_many_connections_deep_queues_threads_and_random_blocks(self):
        result = self.checked("-w", ",".join(WORKLOADS), "--api", "librpma,verbs,tcp", "-c", "3", "-t", "2", "-d", "7",
                              "-b", "264", "--access", "random", "--polling", "event")
        self.assertEqual(len(result["points"]), 3 * len(WORKLOADS))

    def test_long_blocks_that_a_socket_cannot_hold(self):
        self.checked("-w", "read,write_flush,send_recv,rpmem_persist", "--api", "librpma,verbs,tcp", "-b", "4M", "-d", "3")

    def test_many_connections_need_no_higher_limit_of_open_files(self):
        def usual_limit():
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))

        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2048:
            self.skipTest("the hard limit of open files is below 2048")
        self.succeeded(self.local("-w", "read", "-c", "64", preexec_fn=usual_limit))

    def test_flush_interval_counts_writes(self):
        result = self.checked("-w", "write_flush", "--flush-interval", "5", "--api", "librpma,verbs,tcp")
        for point in result["points"]:
            self.assertEqual(point["repeats"][0]["operations"] % 5, 0)

    def test_replicas_are_flushed_together(self):
        result = self.checked("-w", "rpmem_flush_drain", "--flush-interval", "32", "-c", "3", "-t", "2", "--target", self.place)
        self.assertEqual(result["points"][0]["repeats"][0]["operations"] % 32, 0)
        self.assertEqual(os.listdir(self.place), ["r.json"])

    def test_halves_of_a_mix_make_the_whole(self):
        for percent in ("0", "30", "100"):
            result = self.checked("-w", "mix", "--read-percent", percent, "-d", "32")
            one = result["points"][0]["repeats"][0]
            self.assertEqual(one["reads"]["operations"] + one["writes"]["operations"], one["operations"])
            self.assertEqual(one["reads"]["operations"] == 0, percent == "0")
            self.assertEqual(one["writes"]["operations"] == 0, percent == "100")

    def test_persistent_flush_of_a_file(self):
        result = self.checked("-w", "write_flush,gpspm,aof,log_append,atomic_write,mix", "--flush", "persistent",
                              "--api", "librpma,verbs,tcp,memcpy", "--target", self.place)
        self.assertEqual({point["parameters"]["target"] for point in result["points"]}, {"file"})
        self.assertIn(str(self.place), result["environment"]["target_memory"])

    def test_without_a_target_persistent_points_are_skipped_aloud(self):
        result = self.measured("-w", "write_flush,read", "--flush", "persistent", "--memory", "target", "--target", "none")
        for point in result["points"]:
            self.assertEqual(point["status"], "skipped")
            self.assertIn("--target", point["reason"])

    def test_load_of_the_target(self):
        self.checked("-w", "write_flush,gpspm", "--cpu-load", "50")

    def test_estimate_of_a_busy_machine_is_a_lower_limit(self):
        done = self.local("-w", "read")
        client = self.result()["environment"]["client"]
        said = "on this busy machine more than" if client["load"] > client["cores"] / 2 else "about"
        self.assertRegex(done.stdout, rf"; 1 points?, {said} \d+ s\n")

    def test_environment_and_memory_are_told(self):
        result = self.measured("-w", "read", "-c", "4")
        environment = result["environment"]
        self.assertEqual(environment["device"], "softrdma0")
        self.assertEqual(environment["transport"], f"softrdma (path {os.environ.get('SOFTRDMA_TRANSPORT', 'auto')})")
        self.assertTrue(environment["same_host"])
        for member in ("cpu", "kernel", "os"):
            self.assertTrue(environment["client"][member], member)
            self.assertEqual(environment["client"][member], environment["server"][member])
        one = result["points"][0]["repeats"][0]
        for end in ("client", "server"):
            self.assertGreater(one["memory_per_connection_bytes"][end], 0)
            self.assertGreater(one["cpu_s"][end], 0)


if __name__ == "__main__":
    unittest.main()
