#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Inserts one fault at a time into a copy of the project and checks that utils/check-man reports it."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECK_MAN = ROOT / "utils/check-man"
# Check, file, text in it, replacement of the text, and report.
FAULTS = (
    ("pages", "man/rpma_read.3.md", "rpma_read - ", "rpma_read, rpma_write - ", "rpma_write is in the NAME of 2 pages"),
    ("pages", "man/rpma_read.3.md", "rpma_read - ", "rpma_read, rpma_peek - ", "rpma_peek is not exported"),
    ("pages", "README.md", "(man/librpma.7.md)", "(man/other.md)", "no link to man/librpma.7.md"),
    ("sections", "man/rpma_read.3.md", "# ERRORS", "# FAILURES", "the sections are"),
    ("sections", "man/rpma_read.3.md", "**Threads**\n:", "**Ropes**\n:", "NOTES has Ropes, Ownership, Blocking"),
    ("sections", "man/rpma_read.3.md", "**rpma_write**(3)", "**rpma_wrote**(3)", "rpma_wrote does not exist"),
    ("sections", "man/librpma.7.md", "RPMA_FLUSH_TYPE_VISIBILITY", "RPMA_FLUSH_TYPE_INVISIBILITY",
     "lacks RPMA_FLUSH_TYPE_INVISIBILITY"),
    ("synopsis", "include/librpma.h", "int rpma_cq_wait(struct rpma_cq *cq);",
     "int rpma_cq_wait(struct rpma_cq *cq, int flags);", "rpma_cq_wait.3.md: not as in the header: "),
    ("synopsis", "man/rpma_mr_get_ptr.3.md", "int rpma_mr_get_ptr(", "struct rpma_mr_local;\nint rpma_mr_got_ptr(",
     "SYNOPSIS declares rpma_mr_got_ptr, rpma_mr_get_size"),
    ("errors", "man/rpma_read.3.md", "**RPMA_E_PROVIDER**\n:", "**RPMA_E_LATER**\n:",
     "the header lacks RPMA_E_LATER of rpma_read"),
    ("errors", "man/rpma_mr_advise.3.md", "**RPMA_E_NOSUPP**\n:", "**Not supported**\n:",
     "RPMA_E_NOSUPP of rpma_mr_advise is in mr_advise_test.c but on no page"),
    ("tested", "tests/conformance/cases/conn.c", "RPMA_E_NOT_SHARED_CHNL", "RPMA_E_INVAL",
     "no test expects RPMA_E_NOT_SHARED_CHNL of rpma_conn_get_compl_fd"),
    ("examples", "man/rpma_conn_wait.3.md", "        ret = rpma_conn_wait", "                ret = rpma_conn_wait",
     "EXAMPLES: wrong indentation: ret = rpma_conn_wait"),
    ("pages", "man/rpmem_persist.3.md", "rpmem_drain, ", "", "rpmem_drain is in the NAME of 0 pages"),
    ("synopsis", "man/rpmem_persist.3.md", "#include <librpmem.h>", "#include <librpma.h>",
     "rpmem_persist.3.md: SYNOPSIS does not start with the include"),
    ("synopsis", "include/librpmem.h", "int rpmem_close(RPMEMpool *rpp);", "int rpmem_close(RPMEMpool **rpp);",
     "rpmem_create.3.md: not as in the header: int rpmem_close"),
    ("sections", "man/librpmem.7.md", "RPMEM_MIN_LEVEL", "RPMEM_LEAST_LEVEL",
     "neither librpmem.h nor librpmem's environment has RPMEM_LEAST_LEVEL"),
    ("sections", "man/librpmem.7.md", "**RPMEM_ON_LOSS**\n:", "Losses\n:",
     "the variable RPMEM_ON_LOSS is not described"),
    ("errors", "man/rpmem_persist.3.md", "**EPROTO**,", "**EPROTOCOL**,",
     "rpmem_persist.3.md: EPROTOCOL is not an errno"),
    ("errors", "src/librpmem/remote_replica.cpp", "fail(EPROTO,", "fail(EXDEV,",
     "librpmem's code has EXDEV, and no page lists it"),
)


class Faults(unittest.TestCase):
    def setUp(self):
        self.copy = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for place in ("man", "include", "tests/unit", "tests/conformance/cases"):
            shutil.copytree(ROOT / place, self.copy / place)
        for library in ("librpma", "librpmem", "mirror"):
            shutil.copytree(ROOT / "src" / library, self.copy / "src" / library)
        shutil.copy(ROOT / "README.md", self.copy)

    def run_check(self, *arguments):
        return subprocess.run([sys.executable, CHECK_MAN, "--root", self.copy, *arguments], capture_output=True,
                              text=True, check=False, timeout=120)

    def damage(self, place, before, after):
        path = self.copy / place
        text = path.read_text()
        self.assertIn(before, text)
        path.write_text(text.replace(before, after))
        return text

    def assert_reported(self, check, text):
        done = self.run_check(check)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(text, done.stdout)

    def test_the_undamaged_copy_is_clean(self):
        done = self.run_check("pages", "sections", "synopsis", "errors", "tested")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_each_fault_is_reported(self):
        for check, place, before, after, report in FAULTS:
            with self.subTest(report):
                intact = self.damage(place, before, after)
                try:
                    self.assert_reported(check, report)
                finally:
                    (self.copy / place).write_text(intact)

    def test_a_missing_page(self):
        (self.copy / "man/rpma_flush.3.md").unlink()
        self.assert_reported("pages", "rpma_flush is in the NAME of 0 pages")

    def test_examples_of_sections_3_and_7_that_do_not_compile(self):
        for page in (self.copy / "man").glob("rpm*.3.md"):
            if page.name not in ("rpma_read.3.md", "rpmem_persist.3.md"):
                page.unlink()
        self.damage("man/rpma_read.3.md", "struct ibv_wc wc;", "struct ibv_wc wc, unused;")
        self.damage("man/librpmem.7.md", "unsigned lanes = 1;", "unsigned lanes = 1, unused;")
        for page in "rpma_read.3.md", "librpmem.7.md":
            self.assert_reported("examples", f"{page}: EXAMPLES do not compile")

    def test_pages_that_were_not_built(self):
        done = self.run_check("--built", str(self.copy), "rendering")
        self.assertEqual(done.returncode, 77, done.stdout)
        self.assertIn("skipped: ", done.stdout)

    def test_bad_usage(self):
        for arguments in ([], ["beauty"], ["--root", "/nowhere", "pages"]):
            self.assertEqual(self.run_check(*arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()
