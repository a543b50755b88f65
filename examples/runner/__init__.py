# SPDX-License-Identifier: BSD-3-Clause
"""Modules of examples/run, and the errors of a run. Each message is one line with the cause and the remedy."""


class ExampleFailed(Exception):
    """An example did not show what it must: exit status 1."""


class UsageError(Exception):
    """The command line contains an unknown name or path: exit status 2."""


class CannotRun(Exception):
    """This machine lacks a prerequisite: exit status 77."""
