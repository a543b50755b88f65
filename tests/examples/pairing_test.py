# SPDX-License-Identifier: BSD-3-Clause
"""Runs every example with the released library on one side and this build on the other."""

import support


class PairingTest(support.ExamplesTest):
    def check(self, *arguments: str) -> None:
        for memory in ("auto", "none"):
            with self.subTest(arguments=arguments, memory=memory):
                result = support.run_examples("--pmem", memory, *arguments)
                self.assert_status(result, 0)
                self.assertIn("{0} of {0} examples succeeded".format(len(support.TOPICS)), result.stdout)
                for option in arguments[::2]:
                    role = option.removeprefix("--").removesuffix("-lib").capitalize()
                    self.assertRegex(result.stdout, f"(?m)^{role}: +librpma from {support.debian_library()}$")

    def test_server_with_the_released_library(self) -> None:
        self.check("--server-lib", str(support.debian_library()))

    def test_client_with_the_released_library(self) -> None:
        self.check("--client-lib", str(support.debian_library()))

    def test_both_sides_with_the_released_library(self) -> None:
        self.check("--server-lib", str(support.debian_library()), "--client-lib", str(support.debian_library()))


if __name__ == "__main__":
    support.main(missing=None if support.debian_library()
                 else "Debian's librpma0 is neither in RPMA_DEBIAN_LIBDIR nor in the build directory")
