# SPDX-License-Identifier: BSD-3-Clause
"""Imports results of the benchmarking framework of librpma 0.9 to 1.1: bench.json with its rows, files of rows, CSV
files."""

import csv
import io
import os
import pathlib
import re

from . import results
from .common import Failure, read_text

USEC, GIGABIT = 1000, 1e9 / 8
RANKS = {"lat_pctl_99.0": 99, "lat_pctl_99.9": 99.9, "lat_pctl_99.99": 99.99, "lat_pctl_99.999": 99.999}
END = r"(?=[_\-, ./:]|$)"
# Words that the scripts used in names of files and series. The first match is used.
WORDS = [(re.compile(pattern + END, re.IGNORECASE), meaning) for pattern, meaning in (
    (r"no[-_]?busy[-_]wait(?:[-_]polling)?|blocking|event", {"polling": "event"}),
    (r"busy[-_]wait(?:[-_]polling)?|busy", {"polling": "busy"}),
    (r"aof[-_]sw[-_]rt|sw[-_]rt", {"method": "aof", "polling": "busy"}),
    (r"aof[-_]hw|hw", {"method": "log_append"}),
    (r"aof[-_]sw|aof|sw", {"method": "aof"}),
    (r"gpspm[-_]rt", {"method": "gpspm", "polling": "busy"}),
    (r"gpspm", {"method": "gpspm"}),
    (r"apm", {"method": "write_flush"}),
    (r"ib[-_](?:read|send)(?:[-_](?:lat|bw))?(?:\.sh)?|ib", {"api": "verbs", "direction": "read"}),
    (r"(?:randrw|rw)[-_](?:dir[-_])?read|read[-_]of[-_](?:rand)?rw", {"direction": "mix", "half": "reads"}),
    (r"(?:randrw|rw)[-_](?:dir[-_])?write|write[-_]of[-_](?:rand)?rw", {"direction": "mix", "half": "writes"}),
    (r"(?:rand)?rw", {"direction": "mix"}),
    (r"(?:rand)?read", {"direction": "read"}),
    (r"(?:rand)?write", {"direction": "write"}),
    (r"(?:/?dev[-_/])?dax\d+\.\d+|(?:/?mnt[-_/])?pmem\d*(?:\.\d+)?|(?:fs|dev)dax", {"target": "pmem"}),
    (r"dram|malloc", {"target": "dram"}),
    # Words that repeat facts of the rows or of the environment.
    (r"fio|rpma[-_]fio[-_]bench(?:\.sh)?|rpma|bench|benchmark|ib[-_]read\.sh|standardized|csv|results?", {}),
    (r"bw[-_](?:bs|th|dp[-_](?:exp|lin)|cpu(?:[-_]mt)?)|lat[-_]cpu|lat|bw|cpu|mt", {}),
    (r"(?:node|numa|another[-_]numa|th|dp|bs|qp|tx|d(?=\d)|cpuload|threads|iodepth)[-_]?\d*[km]?(?:ib)?|\d+[-_]\d+(?=[_-]|$)", {}),
    (r"(?:19|20)?\d\d-\d\d-\d\d(?:[-_T]\d{4,6})?|\d{6,14}", {}),
)]
ALL_WORDS = "apm, gpspm, aof_sw, aof_hw, ib, read, randread, write, randwrite, rw, randrw, rw_read, rw_write, pmem, dram, blocking, busy"


class Meaning(dict):
    """Measurement of the rows: method, api, direction, half, target, polling, random, direct_write."""

    def take(self, text, source):
        """Adds the meaning of the words in text. Raises Failure for an unknown or contradicting word."""
        text = text.strip()
        while text:
            match, found = next(((m, meaning) for pattern, meaning in WORDS if (m := pattern.match(text))), (None, None))
            if match is None:
                word = re.split(r"[_\-, ]", text, maxsplit=1)[0]
                raise Failure(f"{source}: unknown word \"{word}\" (choose from {ALL_WORDS})")
            if "rand" in match[0].lower():
                self["random"] = True
            for name, value in found.items():
                mixed = name == "direction" and "mix" in (value, self.get(name)) and self.get(name, value) != value
                if mixed:  # "rw" and the word for the half are separate
                    half = (value if value != "mix" else self[name]) + "s"
                    if self.get("half", half) != half:
                        raise Failure(f"{source}: \"{match[0]}\" contains both halves of a mix")
                    self |= {"direction": "mix", "half": half}
                elif self.get(name, value) != value:
                    raise Failure(f"{source}: \"{match[0]}\" contradicts \"{self[name]}\"")
                else:
                    self[name] = value
            text = text[match.end():].lstrip("_-, ./:")
        return self

    def check(self, source, remedy):
        if not self.get("direction") and self.get("method") not in ("aof", "log_append", "gpspm"):
            raise Failure(f"{source}: {remedy}")
        if self.get("direction") == "read" and self.get("method") in ("gpspm", "aof", "log_append"):
            raise Failure(f"{source}: {self['method']} does not read")
        return self

    def setup(self, row, place):
        size = field(row, "bs", place)
        if size is None:
            raise Failure(f"{place}: \"bs\" is missing")
        direction, method = self.get("direction", "write"), self.get("method", "write_flush")
        workload = {"mix": "mix", "read": "read"}.get(direction, method)
        threads = whole(row, "threads", 1, place)
        pmem = self.get("target") == "pmem"
        answered = method in ("gpspm", "aof")
        flush = "none" if direction == "read" else "persistent" if answered or (pmem and self.get("direct_write", True)) else "visibility"
        return {"workload": workload, "api": self.get("api", "librpma"), "library": "", "parameters": {
            "block_size": whole(row, "bs", 0, place), "depth": whole(row, "iodepth", 1, place), "connections": threads,
            "threads": threads, "flush": flush, "flush_interval": 1, "polling": self.get("polling", "busy"),
            "access": "random" if self.get("random") else "sequential", "read_percent": 70 if direction == "mix" else None,
            "cpu_load": whole(row, "cpuload", 0, place), "target": "pmem" if pmem else "dram"}}


def field(row, name, place):
    value = row.get(name)
    if value in (None, "", "-"):
        return None
    try:
        value = float(value) if not isinstance(value, bool) else -1
    except (TypeError, ValueError, OverflowError):
        value = -1
    if not 0 <= value <= 1e18:
        raise Failure(f"{place}: \"{name}\" is not a number from 0 up to 1e18")
    return value


def whole(row, name, otherwise, place):
    value = field(row, name, place)
    if value is not None and (value > 1e9 or value != int(value)):
        raise Failure(f"{place}: \"{name}\" is not a count")
    return otherwise if value is None else int(value)


def measure_of(row, place):
    def scaled(name, factor):
        value = field(row, name, place)
        return None if value is None else value * factor
    return {"operations": int(field(row, "ops", place) or 0), "ops_per_s": field(row, "iops_avg", place),
            "bytes_per_s": scaled("bw_avg", GIGABIT), "latency_ns": {
                "min": scaled("lat_min", USEC), "mean": scaled("lat_avg", USEC), "max": scaled("lat_max", USEC),
                "stddev": scaled("lat_stdev", USEC), "histogram": [],
                "percentiles": [[rank, ns] for name, rank in RANKS.items() if (ns := scaled(name, USEC)) is not None]}}


def nothing():
    return {"operations": 0, "latency_ns": {"percentiles": [], "histogram": []}}


def together(reads, writes):
    """Combines the two halves of a mix. Percentiles cannot be combined and stay empty."""
    whole_of = nothing() | {"operations": reads["operations"] + writes["operations"]}
    for name in "ops_per_s", "bytes_per_s":
        if reads[name] is not None and writes[name] is not None:
            whole_of[name] = reads[name] + writes[name]
    r, w = reads["latency_ns"]["mean"], writes["latency_ns"]["mean"]
    if r is not None and w is not None and whole_of["operations"]:
        share = reads["operations"] / whole_of["operations"]
        whole_of["latency_ns"]["mean"] = share * r + (1 - share) * w
    return whole_of


def point_of(row, meaning, place):
    halves = {}
    if isinstance(row, list) and len(row) == 2 and all(isinstance(half, dict) for half in row):
        setup = meaning.setup(row[0], f"{place}[0]")
        halves = {"reads": measure_of(row[0], f"{place}[0]"), "writes": measure_of(row[1], f"{place}[1]")}
        one = together(**halves)
    elif isinstance(row, dict):
        setup, one = meaning.setup(row, place), measure_of(row, place)
        if meaning.get("half"):
            halves, one = {meaning["half"]: one}, nothing()
        elif setup["workload"] == "mix":
            raise Failure(f"{place}: row of a mix without its half (name it rw_read or rw_write)")
    else:
        raise Failure(f"{place}: is neither a row nor a pair of rows")
    repeat = one | halves | {"cpu_s": {}, "memory_per_connection_bytes": {}}
    return setup | {"status": "done", "reason": "", "repeats": [repeat]}


def rows_in(document, place):
    """Returns the rows, or pairs of rows, of each format of the scripts: a list, {"read": [...], "write": [...]}, or an
    object of rows."""
    if isinstance(document, dict):
        lists = {name.lower(): rows for name, rows in document.items()}
        if set(lists) == {"read", "write"} and all(isinstance(rows, list) for rows in lists.values()):
            if len(lists["read"]) != len(lists["write"]):
                raise Failure(f"{place}: {len(lists['read'])} rows of reads and {len(lists['write'])} of writes")
            return [list(pair) for pair in zip(lists["read"], lists["write"])]
        if len(lists) == 1 and isinstance(next(iter(lists.values())), (list, dict)) and "bs" not in lists:
            return rows_in(next(iter(document.values())), place)
        if lists and all(isinstance(row, (dict, list)) for row in lists.values()):
            return list(document.values())
    if not isinstance(document, list):
        raise Failure(f"{place}: is not a list of rows")
    return document


def points_of(document, meaning, place):
    return [point_of(row, meaning, f"{place}: [{i}]") for i, row in enumerate(rows_in(document, place))]


def rows_of_csv(text, path):
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error:
        rows = []
    if not rows or "bs" not in rows[0]:
        raise Failure(f"{path}: is not a result file of rpma-bench nor one with the old framework's rows")
    for line, row in enumerate(rows[1:], 2):
        if row and len(row) != len(rows[0]):
            raise Failure(f"{path}:{line}: number of fields differs from the header")
    return [dict(zip(rows[0], row)) for row in rows[1:] if row]


def without_comment(path):
    """Returns the name of a file without its directory, extension and comment."""
    stem = re.sub(r"\.(csv|json)$", "", pathlib.Path(path).name, flags=re.IGNORECASE)
    return re.sub(r"__.*?__", "_", stem)


def meaning_of(path, rows_are):
    name = without_comment(path)
    remedy = "the measured workload is missing from its rows (specify it with --rows-are, for example --rows-are apm,write,pmem)"
    if rows_are:
        return Meaning().take(rows_are, "--rows-are").check(path, remedy)
    if re.fullmatch(r"benchmark_\w+", name):
        raise Failure(f"{path}: {remedy}")
    try:
        return Meaning().take(name, path).check(path, remedy)
    except Failure as failure:
        raise Failure(f"{failure}" if "--rows-are" in str(failure) else f"{failure} (specify the measured workload with --rows-are)") from None


def empty(path, profile="imported"):
    environment = {"client": {}, "server": {}, "same_host": False, "device": "", "transport": "", "persistence_level": "",
                   "target_memory": "", "rdma_core": "", "tool": "the benchmarking framework of librpma 0.9 to 1.1",
                   "notes": [f"Imported from {pathlib.Path(path).name}: single runs, whose data was not compared and whose "
                             "environment is not recorded."]}
    return results.empty(profile, environment) | {"complete": True, "started": ""}


def series_points(path, identity, series, direct_write, place):
    """Returns the points of a series, or None if it was not measured."""
    if not isinstance(series, dict):
        raise Failure(f"{place}: is not an object")
    meaning = Meaning(direct_write=direct_write)
    for name in "tool", "tool_mode", "rw", "filetype":
        if isinstance(series.get(name), str):
            meaning.take(series[name], place)
    if series.get("busy_wait_polling") is False:
        meaning.pop("polling", None)
        meaning.take("blocking", place)
    meaning.check(place, "\"rw\" does not contain the measured workload")
    file = pathlib.Path(path).with_name(f"benchmark_{os.path.basename(identity)}.json")
    if not file.exists():
        return None
    return points_of(results.parse_json(read_text(file), file), meaning, file)


def bench_file(path, document, errors):
    """Imports only the measurements: the configuration in this file contains a password."""
    result = empty(path)
    requirements = document["requirements"] if isinstance(document["requirements"], dict) else {}
    for index, requirement in requirements.items():
        place = f"{path}: requirements.{index}"
        benchmarks = requirement.get("benchmarks", {}) if isinstance(requirement, dict) else None
        if not isinstance(benchmarks, dict):
            errors.append(f"{place}: is not an object")
            continue
        for identity, series in benchmarks.items():
            try:
                points = series_points(path, identity, series, requirement.get("direct_write_to_pmem") is True,
                                       f"{place}.benchmarks.{identity}")
                result["points"] += points or []
                result["complete"] &= points is not None
            except Failure as failure:
                errors.append(str(failure))
    if not result["points"] and not errors:
        raise Failure(f"{path}: benchmark_<id>.json with its rows not found beside it")
    return result


def load_any(path, rows_are="", errors=None):
    """Reads a result file of rpma-bench or of the old framework. Series that cannot be read are reported in errors."""
    path = os.fspath(path)
    errors = [] if errors is None else errors
    text = read_text(path)
    if text.lstrip()[:1] in ("{", ""):
        document = results.parse_json(text, path)
        if isinstance(document, dict) and "format" not in document:
            if "requirements" in document:
                result = bench_file(path, document, errors)
                if not result["points"]:
                    raise Failure(errors.pop(0))
                return result
            if any(isinstance(rows, (list, dict)) for rows in document.values()):
                return rows_file(path, document, rows_are)
        return results.checked(document, path)
    if text.lstrip().startswith("["):
        try:
            document = results.parse_json(text, path)
        except Failure as failure:
            raise Failure(f"{path}: is neither JSON nor CSV, or was cut short") from failure
        return rows_file(path, document, rows_are)
    return rows_file(path, rows_of_csv(text, path), rows_are)


def rows_file(path, rows, rows_are):
    result = empty(path)
    result["points"] = points_of(rows, meaning_of(path, rows_are), path)
    if not result["points"]:
        raise Failure(f"{path}: contains no rows")
    return result
