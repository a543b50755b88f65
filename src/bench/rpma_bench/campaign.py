# SPDX-License-Identifier: BSD-3-Clause
def add_commands(verbs):
    pass
