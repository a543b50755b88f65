# SPDX-License-Identifier: BSD-3-Clause
"""Enumerations whose members have docstrings."""

from __future__ import annotations

import enum
from typing import Any


class IntEnum(enum.IntEnum):
    """Integer enumeration. A member is assigned as VALUE, DOCSTRING."""

    def __new__(cls, value: int, doc: str = "") -> Any:
        member = int.__new__(cls, value)
        member._value_ = value
        member.__doc__ = doc
        return member


class IntFlag(enum.IntFlag):
    """Flags. A member is assigned as VALUE, DOCSTRING. Combinations have the docstring of the class."""

    def __new__(cls, value: int, doc: str = "") -> Any:
        member = int.__new__(cls, value)
        member._value_ = value
        if doc:
            member.__doc__ = doc
        return member
