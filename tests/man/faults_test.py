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


class Faults(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.copy = pathlib.Path(temporary.name)
        for place in ("man", "include", "tests/unit", "tests/conformance/cases"):
            shutil.copytree(ROOT / place, self.copy / place)
        for library in ("librpma", "librpmem", "mirror"):
            shutil.copytree(ROOT / "src" / library, self.copy / "src" / library)
        shutil.copy(ROOT / "README.md", self.copy)

    def run_check(self, *arguments):
        return subprocess.run([sys.executable, CHECK_MAN, "--root", self.copy, *arguments], capture_output=True,
                              text=True, check=False, timeout=120)

    def damage(self, place, before, after, count=1):
        path = self.copy / place
        text = path.read_text()
        self.assertIn(before, text)
        path.write_text(text.replace(before, after, count))

    def assert_reported(self, check, text):
        done = self.run_check(check)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(text, done.stdout)

    def test_the_undamaged_copy_is_clean(self):
        done = self.run_check("pages", "sections", "synopsis", "errors", "tested")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_a_missing_page(self):
        (self.copy / "man/rpma_flush.3.md").unlink()
        self.assert_reported("pages", "rpma_flush is in the NAME of 0 pages")

    def test_a_function_on_two_pages(self):
        self.damage("man/rpma_read.3.md", "rpma_read - ", "rpma_read, rpma_write - ")
        self.assert_reported("pages", "rpma_write is in the NAME of 2 pages")

    def test_a_function_that_is_not_exported(self):
        self.damage("man/rpma_read.3.md", "rpma_read - ", "rpma_read, rpma_peek - ")
        self.assert_reported("pages", "rpma_peek is not exported")

    def test_a_readme_without_the_link(self):
        self.damage("README.md", "(man/librpma.7.md)", "(man/other.md)", count=-1)
        self.assert_reported("pages", "no link to man/librpma.7.md")

    def test_sections_out_of_order(self):
        self.damage("man/rpma_read.3.md", "# ERRORS", "# FAILURES")
        self.assert_reported("sections", "the sections are")

    def test_notes_without_threads(self):
        self.damage("man/rpma_read.3.md", "**Threads**\n:", "**Ropes**\n:")
        self.assert_reported("sections", "NOTES has Ropes, Ownership, Blocking")

    def test_a_reference_to_nothing(self):
        self.damage("man/rpma_read.3.md", "**rpma_write**(3)", "**rpma_wrote**(3)")
        self.assert_reported("sections", "rpma_wrote does not exist")

    def test_a_constant_that_does_not_exist(self):
        self.damage("man/librpma.7.md", "RPMA_FLUSH_TYPE_VISIBILITY", "RPMA_FLUSH_TYPE_INVISIBILITY")
        self.assert_reported("sections", "lacks RPMA_FLUSH_TYPE_INVISIBILITY")

    def test_a_changed_prototype(self):
        self.damage("include/librpma.h", "int rpma_cq_wait(struct rpma_cq *cq);",
                    "int rpma_cq_wait(struct rpma_cq *cq, int flags);")
        self.assert_reported("synopsis", "rpma_cq_wait.3.md: not as in the header: ")

    def test_a_prototype_of_another_function(self):
        self.damage("man/rpma_mr_get_ptr.3.md", "int rpma_mr_get_ptr(", "struct rpma_mr_local;\nint rpma_mr_got_ptr(")
        self.assert_reported("synopsis", "SYNOPSIS declares rpma_mr_got_ptr, rpma_mr_get_size")

    def test_an_error_that_the_header_lacks(self):
        self.damage("man/rpma_read.3.md", "**RPMA_E_PROVIDER**\n:", "**RPMA_E_LATER**\n:")
        self.assert_reported("errors", "the header lacks RPMA_E_LATER of rpma_read")

    def test_an_error_that_no_page_lists(self):
        self.damage("man/rpma_mr_advise.3.md", "**RPMA_E_NOSUPP**\n:", "**Not supported**\n:")
        self.assert_reported("errors", "RPMA_E_NOSUPP of rpma_mr_advise is in mr_advise_test.c but on no page")

    def test_an_error_that_no_test_expects(self):
        self.damage("tests/conformance/cases/conn.c", "RPMA_E_NOT_SHARED_CHNL", "RPMA_E_INVAL", -1)
        self.assert_reported("tested", "no test expects RPMA_E_NOT_SHARED_CHNL of rpma_conn_get_compl_fd")

    def test_an_example_that_does_not_compile(self):
        for page in (self.copy / "man").glob("rpma_*.3.md"):
            if page.name != "rpma_read.3.md":
                page.unlink()
        self.damage("man/rpma_read.3.md", "struct ibv_wc wc;", "struct ibv_wc wc, unused;")
        self.assert_reported("examples", "EXAMPLES do not compile")

    def test_an_example_with_wrong_indentation(self):
        self.damage("man/rpma_conn_wait.3.md", "        ret = rpma_conn_wait", "                ret = rpma_conn_wait")
        self.assert_reported("examples", "EXAMPLES: wrong indentation: ret = rpma_conn_wait")

    def test_a_missing_page_of_librpmem(self):
        self.damage("man/rpmem_persist.3.md", "rpmem_drain, ", "")
        self.assert_reported("pages", "rpmem_drain is in the NAME of 0 pages")

    def test_a_page_of_librpmem_with_the_header_of_librpma(self):
        self.damage("man/rpmem_persist.3.md", "#include <librpmem.h>", "#include <librpma.h>")
        self.assert_reported("synopsis", "rpmem_persist.3.md: SYNOPSIS does not start with the include")

    def test_a_changed_prototype_of_librpmem(self):
        self.damage("include/librpmem.h", "int rpmem_close(RPMEMpool *rpp);", "int rpmem_close(RPMEMpool **rpp);")
        self.assert_reported("synopsis", "rpmem_create.3.md: not as in the header: int rpmem_close")

    def test_a_variable_that_librpmem_does_not_read(self):
        self.damage("man/librpmem.7.md", "RPMEM_MIN_LEVEL", "RPMEM_LEAST_LEVEL")
        self.assert_reported("sections", "neither librpmem.h nor librpmem's environment has RPMEM_LEAST_LEVEL")

    def test_a_variable_that_is_not_described(self):
        self.damage("man/librpmem.7.md", "**RPMEM_ON_LOSS**\n:", "Losses\n:")
        self.assert_reported("sections", "the variable RPMEM_ON_LOSS is not described")

    def test_an_errno_that_does_not_exist(self):
        self.damage("man/rpmem_persist.3.md", "**EPROTO**,", "**EPROTOCOL**,")
        self.assert_reported("errors", "rpmem_persist.3.md: EPROTOCOL is not an errno")

    def test_an_errno_of_librpmem_that_no_page_lists(self):
        self.damage("src/librpmem/remote_replica.cpp", "fail(EPROTO,", "fail(EXDEV,")
        self.assert_reported("errors", "librpmem's code has EXDEV, and no page lists it")

    def test_an_example_of_section_7_that_does_not_compile(self):
        for page in (self.copy / "man").glob("rpm*.3.md"):
            if page.name != "rpmem_persist.3.md":
                page.unlink()
        self.damage("man/librpmem.7.md", "unsigned lanes = 1;", "unsigned lanes = 1, unused;")
        self.assert_reported("examples", "librpmem.7.md: EXAMPLES do not compile")

    def test_pages_that_were_not_built(self):
        done = self.run_check("--built", str(self.copy), "rendering")
        self.assertEqual(done.returncode, 77, done.stdout)
        self.assertIn("skipped: ", done.stdout)

    def test_bad_usage(self):
        for arguments in ([], ["beauty"], ["--root", "/nowhere", "pages"]):
            self.assertEqual(self.run_check(*arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()
