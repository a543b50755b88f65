# SPDX-License-Identifier: BSD-3-Clause
"""The parts of examples/run, and how a run can end other than well: each message is one line, cause and remedy."""


class ExampleFailed(Exception):
    """An example did not do what it is there to show: exit status 1."""


class UsageError(Exception):
    """The command line asks for what is not there: exit status 2."""


class CannotRun(Exception):
    """This machine lacks something: exit status 77."""
