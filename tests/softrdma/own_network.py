# SPDX-License-Identifier: BSD-3-Clause
"""Network namespaces for tests in Python."""

import os
import subprocess
import sys

COMMAND = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


def enter() -> bool:
    """Runs this test again in its own network namespace. Returns true there, and false if none can be created."""
    if "TEST_OWN_NETWORK" in os.environ:
        return True
    if subprocess.run([*COMMAND, "true"], check=False, capture_output=True).returncode != 0:
        return False
    os.environ["TEST_OWN_NETWORK"] = "1"
    os.execvp(COMMAND[0], [*COMMAND, sys.executable, *sys.argv])
