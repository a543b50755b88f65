# SPDX-License-Identifier: BSD-3-Clause
"""Scripts of utils/ as modules, for tests of their functions."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import types

UTILS = pathlib.Path(__file__).resolve().parents[2] / "utils"


def load(name: str) -> types.ModuleType:
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(UTILS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
