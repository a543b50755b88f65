# SPDX-License-Identifier: BSD-3-Clause
"""Functions of tests/support for the tests of this directory."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from common import directory, enter_own_network, free_port, listens, skip, wait_until  # noqa: E402,F401
