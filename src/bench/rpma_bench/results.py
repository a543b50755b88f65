# SPDX-License-Identifier: BSD-3-Clause
"""Result files: JSON whose members are checked when they are read. A member that is absent or null was not measured."""

import datetime
import json
import math

from .common import Failure, read_text, replace_file

FORMAT, VERSION = "rpma-bench-results", 1
APIS = ("librpma", "verbs", "tcp", "memcpy")
FLUSHES = ("none", "visibility", "persistent")
POLLINGS = ("busy", "event")
ACCESSES = ("sequential", "random")
STATES = ("done", "failed", "skipped")


def now_utc():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# A shape is a type, a tuple of allowed words, a list with the shape of its items, or a dictionary of members. The name
# of an optional member ends with "?".
HOST = {"cpu?": str, "cores?": int, "memory_bytes?": int, "os?": str, "kernel?": str, "governor?": str, "load?": float}
ENVIRONMENT = {"client": HOST, "server": HOST, "same_host": bool, "device": str, "transport": str, "persistence_level": str,
               "target_memory": str, "rdma_core": str, "tool": str, "notes": [str]}
PARAMETERS = {"block_size": int, "depth": int, "connections": int, "threads": int, "flush": FLUSHES, "flush_interval": int,
              "polling": POLLINGS, "access": ACCESSES, "read_percent?": int, "cpu_load": int, "target": str}
SETUP = {"workload": str, "api": APIS, "library": str, "parameters": PARAMETERS}
LATENCY = {"min?": float, "mean?": float, "max?": float, "stddev?": float, "percentiles": [(float, float)],
           "histogram": [(float, int)]}
MEASURE = {"operations": int, "ops_per_s?": float, "bytes_per_s?": float, "latency_ns": LATENCY}
ENDS = {"client?": float, "server?": float}
REPEAT = MEASURE | {"duration_s?": float, "reads?": MEASURE, "writes?": MEASURE, "cpu_s": ENDS,
                    "memory_per_connection_bytes": ENDS, "verified?": bool}
POINT = SETUP | {"status": STATES, "reason": str, "repeats": [REPEAT], "section?": int, "driver?": ("rpma-bench", "fio")}
PAIR = {"ours": SETUP, "other": SETUP, "metric": str, "ours_value": float, "other_value": float, "ratio": float,
        "ratio_low": float, "ratio_high": float, "runs": int}
LIBRARY = {"label": str, "file": str, "version": str}
TIMING = {"repeats": int, "duration_s": float, "warm_up_s": float}
SECTION = {"label": str, "environment": ENVIRONMENT, "timing?": TIMING}
RESULTS = {"profile": str, "complete": bool, "started": str, "duration_s": float, "environment": ENVIRONMENT,
           "libraries": [LIBRARY], "points": [POINT], "pairs": [PAIR], "sections?": [SECTION]}
NAMES = {str: "a text", bool: "true or false", int: "a whole number from 0 up", float: "a number from 0 up"}


def check(value, shape, place):
    """Raises Failure, which names the member, if the value does not have this shape."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise Failure(f"{place}: is not an object")
        for name, inner in shape.items():
            key = name.rstrip("?")
            if value.get(key) is not None:
                check(value[key], inner, f"{place}.{key}")
            elif key == name:
                raise Failure(f"{place}: \"{key}\" is missing")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise Failure(f"{place}: is not a list")
        for i, item in enumerate(value):
            check(item, shape[0], f"{place}[{i}]")
    elif isinstance(shape, tuple) and isinstance(shape[0], str):
        if value not in shape:
            raise Failure(f"{place}: is not one of {', '.join(shape)}")
    elif isinstance(shape, tuple):
        if not isinstance(value, list) or len(value) != len(shape):
            raise Failure(f"{place}: is not a list of {len(shape)} numbers")
        for item, inner in zip(value, shape):
            check(item, inner, place)
    elif shape in (int, float):
        wrong = isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0
        if wrong or (shape is int and value != int(value)) or value >= 2**64:
            raise Failure(f"{place}: is not {NAMES[shape]}")
    elif not isinstance(value, shape):
        raise Failure(f"{place}: is not {NAMES[shape]}")


def parse_json(text, name):
    """Parses JSON. The error of invalid JSON contains the line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        cut = not text[error.pos:].strip() or error.msg.startswith("Unterminated string")
        raise Failure(f"{name}:{error.lineno}: " + ("ends in the middle: the file was cut short" if cut else "is not JSON")) from error
    except (RecursionError, ValueError) as error:
        raise Failure(f"{name}: is not JSON that can be read") from error


def checked(document, name):
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Failure(f"{name}: is not a result file of rpma-bench: \"format\" is not \"{FORMAT}\"")
    if document.get("version") != VERSION:
        raise Failure(f"{name}: is of version {json.dumps(document.get('version'))}, and this rpma-bench reads {VERSION}")
    check(document, RESULTS, f"{name}: results")
    sections = len(document.get("sections") or [])
    for i, point in enumerate(document["points"]):
        if (point.get("section") or 0) >= max(sections, 1):
            raise Failure(f"{name}: results.points[{i}].section: is not one of {sections}")
        for one in point["repeats"]:
            latency = one["latency_ns"]
            for values in (latency["percentiles"], latency["histogram"]):
                if [v[0] for v in values] != sorted(v[0] for v in values):
                    raise Failure(f"{name}: results.points[{i}]: percentiles and histogram must ascend")
            if latency["percentiles"] and latency["percentiles"][-1][0] > 100:
                raise Failure(f"{name}: results.points[{i}]: a percentile above 100")
    return document


def load(path):
    return checked(parse_json(read_text(path), path), path)


def save(path, results):
    replace_file(path, json.dumps(results, ensure_ascii=False, allow_nan=False) + "\n")


def empty(profile, environment):
    return {"format": FORMAT, "version": VERSION, "profile": profile, "complete": False, "started": now_utc(), "duration_s": 0,
            "environment": environment, "libraries": [], "points": [], "pairs": []}


def setup_of(point):
    return {name: point[name] for name in SETUP}


def setup_key(setup):
    """Returns a key that is equal for equal setups."""
    parameters = {name: value for name, value in setup["parameters"].items() if value is not None}
    return json.dumps([setup["workload"], setup["api"], setup["library"], parameters], sort_keys=True)
