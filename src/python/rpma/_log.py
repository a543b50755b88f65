# SPDX-License-Identifier: BSD-3-Clause
"""Log of the library, shared by the whole process."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable
from typing import Any, Optional

from ._enum import IntEnum
from ._error import check
from ._rpma import ffi, lib


class LogLevel(IntEnum):
    """Levels of the library, in increasing verbosity."""

    DISABLED = lib.RPMA_LOG_DISABLED, "No messages."
    FATAL = lib.RPMA_LOG_LEVEL_FATAL, "The library cannot continue."
    ERROR = lib.RPMA_LOG_LEVEL_ERROR, "A call failed."
    WARNING = lib.RPMA_LOG_LEVEL_WARNING, "Something is wrong, and the call succeeded."
    NOTICE = lib.RPMA_LOG_LEVEL_NOTICE, "Something normal is worth attention."
    INFO = lib.RPMA_LOG_LEVEL_INFO, "Information about normal operation."
    DEBUG = lib.RPMA_LOG_LEVEL_DEBUG, "Details for debugging."


class LogThreshold(IntEnum):
    """MAIN: threshold of all messages. AUX: threshold of messages that the default function also prints to stderr."""

    MAIN = lib.RPMA_LOG_THRESHOLD, "Threshold of all messages."
    AUX = lib.RPMA_LOG_THRESHOLD_AUX, "Threshold of the messages that the default function also prints to stderr."


# Arguments: level, file or None, line, function, and the message without its newline.
LogFunction = Callable[[LogLevel, Optional[str], int, Optional[str], str], None]
_function: LogFunction | None = None
_LEVELS = {LogLevel.FATAL: logging.CRITICAL, LogLevel.ERROR: logging.ERROR, LogLevel.WARNING: logging.WARNING,
           LogLevel.NOTICE: logging.INFO, LogLevel.INFO: logging.INFO, LogLevel.DEBUG: logging.DEBUG}


def _text(string: Any) -> str | None:
    return ffi.string(string).decode(errors="replace") if string else None


@ffi.def_extern()  # type: ignore[misc]
def log_message(level: int, file: Any, line: int, function: Any, message: Any) -> None:
    """Called by the library. An exception of the log function is printed and not propagated."""
    if _function:
        _function(LogLevel(level), _text(file), line if file else 0, _text(function) if file else None,
                  (_text(message) or "").rstrip("\n"))


def set_log_threshold(threshold: LogThreshold, level: LogLevel) -> None:
    """Sets the level of a threshold. Error: INVAL."""
    check(lib.rpma_log_set_threshold(threshold, level))


def get_log_threshold(threshold: LogThreshold) -> LogLevel:
    """Returns the level of a threshold. Error: INVAL."""
    level = ffi.new("enum rpma_log_level *")
    check(lib.rpma_log_get_threshold(threshold, level))
    return LogLevel(level[0])


def set_log_function(function: LogFunction | None) -> None:
    """Passes the messages to function, which is called in the thread that uses the library. With None, the default
    function writes to syslog."""
    global _function
    if function:
        _function = function
    check(lib.set_log_to_python(function is not None))
    _function = function


def log_to(logger: logging.Logger) -> None:
    """Passes the messages to a Python logger. NOTICE becomes INFO, FATAL becomes CRITICAL."""
    set_log_function(lambda level, file, line, function, message: logger.log(_LEVELS[level], "%s", message))


# The library must not call a finalizing interpreter.
atexit.register(lib.set_log_to_python, False)
