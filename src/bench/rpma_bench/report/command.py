# SPDX-License-Identifier: BSD-3-Clause
"""Implements rpma-bench report: converts result files to one readable file."""

import base64
import csv
import io
import os
import pathlib
import statistics
import sys
import tomllib

from .. import measure, old_framework, results
from ..common import FAILED, USAGE, Failure, count, duration, number, quartiles, read_text, replace_file
from . import charts, figures
from .entries import (API_NAMES, ATTRIBUTES, METRICS, Run, entries_of, memory, operation, summarize, text, texts, usual_block_size,
                      varying, without)

ASSETS = pathlib.Path(__file__).resolve().parent.parent / "assets"
CONDITIONS = ("block_size", "depth", "connections", "threads", "memory", "access", "polling", "cpu_load")
COLUMNS = {"latency_p50": "median", "latency_mean": "mean", "latency_p99": "99 %", "latency_p99_9": "99.9 %", "ops_per_s": "operations",
           "bytes_per_s": "bandwidth", "cpu_per_op": "CPU per operation", "memory_server": "memory per connection"}
TEMPLATE = {"title": str, "ceiling_gbit_s": float, "schematic": str, "html": str, "markdown": str, "text": {}, "configuration": {}}


def add_command(parser):
    parser.add_argument("results", nargs="+", metavar="RESULT", help="result files of rpma-bench, or of librpma's old benchmarking framework")
    parser.add_argument("-o", "--out", help="the file to write, - for standard output (default: beside the first RESULT)")
    parser.add_argument("-f", "--format", choices=("html", "markdown", "csv"), default="html")
    parser.add_argument("--title", help="heading of the report")
    parser.add_argument("--template", metavar="FILE", help="title, texts, configuration and ceiling as TOML (rpma-bench(1))")
    parser.add_argument("--figures", type=groups, default=(), metavar="GROUP,...", help=f"draw only these: {', '.join(figures.SECTIONS)}")
    parser.add_argument("--rows-are", default="", metavar="WORDS", help="workload of rows of the old framework that lack it, for example apm,write,pmem")
    parser.set_defaults(run=lambda _, options: write_report(options.results, options.out, options.format, options.title, options.figures,
                                                            options.rows_are, options.template))


def groups(text_of):
    names = text_of.split(",")
    for name in names:
        if name not in figures.SECTIONS:
            raise Failure(f"unknown group of figures '{name}' (choose from {', '.join(figures.SECTIONS)})", USAGE)
    return names


def read_template(path):
    """Returns the checked values of a template, none without a template. Its paths are relative to its directory."""
    if not path:
        return {}
    try:
        values = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise Failure(f"{path}: is not TOML: {error}", USAGE) from error
    return check_template(values, path)


def check_template(values, path):
    for name, value in values.items():
        expected = TEMPLATE.get(name)
        if expected is None:
            raise Failure(f"{path}: unknown key \"{name}\" (choose from {', '.join(TEMPLATE)})", USAGE)
        if isinstance(value, bool) or not isinstance(value, dict if expected == {} else (int, float) if expected is float else str):
            raise Failure(f"{path}: {name}: is not {'a table' if expected == {} else 'a number' if expected is float else 'a text'}", USAGE)
        if name == "ceiling_gbit_s" and not 0 < value < 1e6:
            raise Failure(f"{path}: {name}: is not from 0 to 1e6", USAGE)
    for place, words in values.get("text", {}).items():
        if place not in ("introduction", "conclusion", *figures.SECTIONS) or not isinstance(words, str):
            raise Failure(f"{path}: text.{place}: not a text of introduction, conclusion or a group of figures", USAGE)
    for name, cells in values.get("configuration", {}).items():
        cells = [cells] if isinstance(cells, str) else cells
        if not isinstance(cells, list) or not 1 <= len(cells) <= 2 or not all(isinstance(cell, str) for cell in cells):
            raise Failure(f"{path}: configuration.{name}: is not one text, or one for the client and one for the server", USAGE)
    directory = pathlib.Path(path).parent
    return values | {name: str(directory / values[name]) for name in ("schematic", "html", "markdown") if name in values}


def name_of(path, taken):
    """Names a run by its file, and also by its directory if two files have the same name."""
    stem = str(pathlib.Path(path).with_suffix(""))
    name = os.path.basename(stem)
    if name in taken:
        name = stem
    plain, i = name, 2
    while name in taken:
        name, i = f"{plain} ({i})", i + 1
    return name


def runs_of(path, result, taken):
    """Returns one run for each environment of a campaign, and a separate run for the points measured by fio."""
    name, sections = name_of(path, taken), result.get("sections") or [{"label": "", "environment": result["environment"]}]
    parts = dict.fromkeys((p.get("section") or 0, p.get("driver") == "fio") for p in result["points"])
    several, runs = len({section for section, _ in parts}) > 1, []
    for section, fio in sorted(parts):
        label = [sections[section]["label"] or f"part {section + 1}"] if several else []
        points = [p for p in result["points"] if ((p.get("section") or 0), p.get("driver") == "fio") == (section, fio)]
        runs.append(Run(", ".join([name, *label, *(["fio"] if fio else [])]), result | {
            "environment": sections[section]["environment"], "points": points, "pairs": [] if runs else result["pairs"]}))
    return runs or [Run(name, result)]


def cell(words, order=None):
    return {"text": words, "order": order, "numeric": order is not None}


def value(amount, unit):
    return cell(number(amount, unit), amount)


NOTHING = cell("–", -1)


def table(head, rows, common=""):
    return {"head": [cell(words, 0 if rows and rows[0][i]["numeric"] else None) for i, words in enumerate(head)], "rows": rows,
            "common": common}


def table_of_figure(figure):
    if figure.kind == "bars":
        return table(["operation", "interface", figure.y.label, "lowest", "highest", "runs"],
                     [[cell(r["group"]), cell(r["label"]), *(value(r[name], figure.y.unit) for name in ("value", "low", "high")),
                       value(r["runs"], "")] for r in figure.rows])
    if figure.kind == "ratios":
        return table(["measured", f"median, {figure.sides[0]}", f"median, {figure.sides[1]}", "median of the ratios", "from", "to", "runs",
                      "verdict"],
                     [[cell(r["label"]), cell(r["ours"]), cell(r["other"]), *(value(r[name], "ratio") for name in ("ratio", "low", "high")),
                       value(r["runs"], ""), cell(r["words"])] for r in figure.rows])
    rows = []
    for x in sorted({x for line in figure.series for x in [*(at for at, _ in line.data), *line.failed]}):
        row = [cell(f"{x:.6g} %", x) if figure.x.scale == "nines" else value(x, figure.x.unit)]
        for line in figure.series:
            s = dict(line.data).get(x)
            row.append(cell(number(s.median, figure.y.unit) + (" !" if s.wide else ""), s.median) if s
                       else cell("failed", -1) if x in line.failed else NOTHING)
        rows.append(row)
    return table([figure.x.label, *(line.label + (", 99th percentile" if line.tail else "") for line in figure.series)], rows)


def attribute_cell(attribute, e):
    if attribute == "block_size":
        return value(e.p["block_size"], "bytes") if e.p["block_size"] else NOTHING
    return value(e.p[attribute], "") if attribute in ("depth", "connections", "threads") else cell(text(attribute, e))


def verified(e):
    if e.point["status"] != "done":
        return e.point["status"]
    flags = [r.get("verified") for r in e.point["repeats"]]
    return "" if not flags or None in flags else "yes" if all(flags) else "NO"


def points_table(entries):
    always = ["operation", "api", "block_size"]
    others = without(ATTRIBUTES, always)
    distinct = varying(entries, others)
    metrics = {key: heading for key, heading in COLUMNS.items() if any(summarize(e.point, METRICS[key]) for e in entries)}
    rows = []
    for e in entries:
        row = [attribute_cell(a, e) for a in always + distinct]
        for key in metrics:
            s = summarize(e.point, METRICS[key])
            row.append(cell(number(s.median, METRICS[key].unit) + (" !" if s.wide else ""), s.median) if s else NOTHING)
        rows.append([*row, value(len(e.point["repeats"]), ""), cell(verified(e))])
    return table([*(ATTRIBUTES[a][0] for a in always + distinct), *metrics.values(), "runs", "verified"], rows,
                 texts(without(others, distinct), entries[0]) if entries else "")


def missing_table(entries):
    rows = [[cell(operation(e)), cell(API_NAMES[e.point["api"]]), cell(texts(CONDITIONS, e)), cell(e.point["status"]), cell(e.point["reason"])]
            for e in entries if not e.half and e.point["status"] != "done"]
    return table(["operation", "interface", "conditions", "state", "reason"], rows)


def configuration_table(result, more):
    e = result["environment"]
    hosts = [e["client"], e["server"] or (e["client"] if e["same_host"] else {})]
    rows = []

    def add(name, client, server=""):
        if client or server:
            rows.append([cell(name), cell(str(client or "")), cell(str(server or ""))])

    for name, key in ("processor", "cpu"), ("processors", "cores"), ("memory", "memory_bytes"), ("system", "os"), ("kernel", "kernel"), \
            ("frequency governor", "governor"), ("load at the start", "load"):
        add(name, *(host.get(key) and (number(host[key], "bytes") if key == "memory_bytes" else f"{host[key]:.3g}" if key == "load"
                                       else host[key]) for host in hosts))
    add("device", e["device"])
    add("transport", e["transport"])
    add("target memory", "", e["target_memory"])
    add("a persistent flush guarantees", "", e["persistence_level"])
    add("rdma-core", e["rdma_core"])
    for library in result["libraries"]:
        add("library under test" if library["label"] == "ours" else "other library",
            f"librpma {library['version']}" + (f", {library['file']}" if library["file"] else ""))
    add("measured with", e["tool"])
    add("profile", result["profile"])
    add("started", result["started"])
    add("took", duration(result["duration_s"]) if result["duration_s"] > 0 else "")
    for name, cells in more.items():
        add(name, *([cells] if isinstance(cells, str) else cells))
    return table(["", "client", "server"], rows)


def comparison_table(rows):
    heads = {"what": "measured", "metric": "metric", "base": "first run", "base_value": "its median", "run": "run", "value": "its median",
             "ratio": "ratio to the first (interval)", "confidence": "confidence", "verdict": "verdict"}
    return table(list(heads.values()), [[cell(row[key]) for key in heads] for row in rows])


def facts_of(runs, entries):
    whole = [e for e in entries if not e.half]
    states = [e.point["status"] for e in whole]
    proven = sum(e.point["status"] == "done" and bool(e.point["repeats"]) and all(r.get("verified") for r in e.point["repeats"]) for e in whole)
    counts = {"verified": proven, "failed": states.count("failed"), "skipped": states.count("skipped")}
    seconds, e = sum({id(run.result["libraries"]): run.result["duration_s"] for run in runs}.values()), runs[0].result["environment"]
    client = e["client"]
    return " · ".join(filter(None, [
        count(len(whole), "point"), *(f"{n} {word}" for word, n in counts.items() if n), duration(seconds) if seconds >= 1 else "",
        e["transport"], "one machine" if e["same_host"] else "two machines" if e["server"].get("cpu") else "",
        (f"{client['cores']} × " if client.get("cores") else "") + client["cpu"] if client.get("cpu") else "",
        "" if all(run.result["complete"] for run in runs) else "incomplete"]))


def card(e, key, label):
    s = summarize(e.point, METRICS[key])
    where = " · ".join([operation(e), *(text(a, e) for a in ("block_size", "memory", "depth", "connections"))])
    return {"value": number(s.median, METRICS[key].unit), "label": label, "detail": f"{where} · {count(s.runs, 'run')}", "style": ""}


def cards_of(entries, drawn):
    ours = [e for e in entries if not e.half and e.point["api"] == "librpma"]
    created, size = [], usual_block_size(entries)
    # The first card is about memory: flushes to a file measure the disk.
    resting = [e for e in ours if e.at_rest() and e.p["target"] != "file" and summarize(e.point, METRICS["latency_p50"])]
    if resting:
        rank = {"write_flush": 3, "read": 2, "connect": 0}
        first = max(resting, key=lambda e: (rank.get(e.point["workload"], 1), e.p["block_size"] == size))
        created.append(card(first, "latency_p50", "median latency"))
    for key, label in ("bytes_per_s", "highest bandwidth"), ("ops_per_s", "most operations per second"):
        found = [e for e in ours if summarize(e.point, METRICS[key])]
        if found:
            created.append(card(max(found, key=lambda e: summarize(e.point, METRICS[key]).median), key, label))
    ratios = next((f for f in drawn if f.kind == "ratios" and "latency" in f.title + f.subtitle), None)
    if ratios:
        low, middle, high = quartiles([row["ratio"] for row in ratios.rows])
        conclusive = all(row["words"] != "no conclusion" for row in ratios.rows)
        words = measure.verdict_on(middle, low, high, True) if conclusive else "no conclusion"
        even = words not in ("better", "worse")
        created = created[:2] + [{"value": words if even else f"{middle - 1:+.0%}".replace("%", " %"), "label": f"latency beside {ratios.sides[1]}",
                            "detail": f"{ratios.sides[0]} · median of {count(len(ratios.rows), 'point')}, middle half {low:.2f} to {high:.2f}",
                            "style": "even" if even else words}]
    return created


def notes_of(runs, entries):
    notes = [note for run in runs for note in run.result["environment"]["notes"]]
    places = list(dict.fromkeys(memory(e) for e in entries))
    notes.append(f"Memory of the target: {', '.join(places)}. Figures and comparisons contain one kind unless they name it.")
    if len(runs) > 1:
        notes += [f"{run.name}: {run.result['environment']['device'] or 'device not recorded'}" for run in runs]
    return list(dict.fromkeys(notes))


def points_csv(entries):
    out = io.StringIO(newline="")
    names = ["block_size", "depth", "connections", "threads", "flush", "flush_interval", "polling", "access", "read_percent", "cpu_load",
             "target"]
    suffix = {"ns": "_ns", "bytes": "_bytes", "percent": "_percent"}
    writer = csv.writer(out)
    writer.writerow(["run", "workload", "half", "api", "library", *names, "status", "repeats",
                     *(m.key + suffix.get(m.unit, "") for m in METRICS.values()), "reason"])
    for e in entries:
        cells = [f"{s.median:.10g}" if (s := summarize(e.point, m)) else "" for m in METRICS.values()]
        writer.writerow([e.run, e.point["workload"], e.half, e.point["api"], e.point["library"], *(e.p.get(name) for name in names),
                         e.point["status"], len(e.point["repeats"]), *cells, e.point["reason"]])
    return out.getvalue()


def default_title(runs):
    title = "Two libraries compared" if runs[0].result["pairs"] else "Remote memory access measured"
    device = runs[0].result["environment"]["device"]
    return f"{title} on {device}" if device else title


def picture(path):
    """Returns a picture as a data URL, so that the page needs no other file."""
    kinds = {".svg": "svg+xml", ".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg"}
    kind = kinds.get(pathlib.Path(path).suffix.lower())
    if not kind:
        raise Failure(f"{path}: not a picture in SVG, PNG or JPEG", USAGE)
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise Failure(f"{path}: cannot open: {error.strerror}") from error
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def page_of(runs, title, figure_groups, template):
    """Returns the variables of the templates."""
    entries = entries_of(runs)
    drawn = figures.figures_of(runs, entries, figure_groups)
    ceiling = template.get("ceiling_gbit_s", 0) * 1e9 / 8
    numbers, sections = {id(f): i for i, f in enumerate((f for key in figures.SECTIONS for f in drawn if f.group == key), 1)}, []
    for key, (heading, short) in figures.SECTIONS.items():
        created = [{"title": f.title, "subtitle": f.subtitle, "caption": f.caption, "number": numbers[id(f)], "wide": f.kind == "ratios",
                 "svg": charts.draw(f, f"f{numbers[id(f)]}", ceiling), "table": table_of_figure(f),
                 "legend": [(charts.draw_key(line), line.label) for line in f.series if not line.tail]}
                for f in drawn if f.group == key]
        if created:
            sections.append({"key": key, "heading": heading, "short": short, "figures": created})
    schematic = picture(template["schematic"]) if template.get("schematic") else ""
    compared = list(figures.campaigns_compared(runs, entries)) if len(runs) > 1 else []
    return {"title": title or template.get("title") or default_title(runs), "facts": facts_of(runs, entries), "cards": cards_of(entries, drawn),
            "notes": notes_of(runs, entries), "sections": sections, "missing": missing_table(entries), "points": points_table(entries),
            "configurations": [(run.name, configuration_table(run.result, template.get("configuration", {}))) for run in runs],
            "compared": comparison_table(compared), "text": dict.fromkeys(("introduction", "conclusion", *figures.SECTIONS), "") | template.get("text", {}), "schematic": schematic,
            "drawing": charts.draw_schematic(runs[0].result["environment"]), "started": runs[0].result["started"],
            "style_sheet": (ASSETS / "style.css").read_text(encoding="utf-8"), "script": (ASSETS / "script.js").read_text(encoding="utf-8"),
            "entries": entries}


def markdown_text(words):
    return "".join("\\" + c if c in "|\\*_`<[" else " " if c == "\n" else c for c in str(words))


def rendered(runs, kind, title, figure_groups, template):
    if kind == "csv":
        return points_csv(entries_of(runs))
    try:
        import jinja2  # noqa: PLC0415 - other verbs work without it
    except ImportError as error:
        raise Failure("reports need Jinja2: install python3-jinja2", 77) from error
    page = page_of(runs, title, figure_groups if kind == "html" or figure_groups else ("compare", "interfaces"), template)
    own = template.get(kind)
    loaders = [jinja2.FileSystemLoader(os.path.dirname(own) or ".")] if own else []
    environment = jinja2.Environment(loader=jinja2.ChoiceLoader([*loaders, jinja2.FileSystemLoader(ASSETS)]), autoescape=kind == "html",
                                     trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters["md"] = markdown_text
    if kind == "html":
        page |= {"files": [(run.name, base64.b64encode(results.json.dumps(run.result).encode()).decode()) for run in runs],
                 "csv": base64.b64encode(points_csv(page["entries"]).encode()).decode()}
    try:
        return environment.get_template(os.path.basename(own) if own else f"report.{kind}").render(page)
    except jinja2.TemplateError as error:
        raise Failure(f"{own or kind}: the template fails: {error}", USAGE) from error


def destination(paths, out, kind):
    if out:
        return out
    extension = ".md" if kind == "markdown" else f".{kind}"
    path = pathlib.Path(paths[0]).with_suffix("")
    beside = str(path) + extension
    # Does not overwrite a CSV file that is an input.
    return beside if beside not in map(str, paths) else f"{path}-report{extension}"


def write_report(paths, out=None, kind="html", title=None, figure_groups=(), rows_are="", template=None):
    """Writes the report. Returns the exit status: 1 if a part of an old result could not be imported."""
    errors, runs = [], []
    values = template if isinstance(template, dict) else read_template(template)
    for path in paths:
        result = old_framework.load_any(path, rows_are, errors)
        runs += runs_of(path, result, [run.name for run in runs])
    text_of = rendered(runs, kind, title, figure_groups, values)
    if out == "-":
        sys.stdout.write(text_of)
    else:
        path = destination(paths, out, kind)
        replace_file(path, text_of)
        print(path)
    for error in errors:
        print(f"rpma-bench: {error}: not imported", file=sys.stderr)
    return FAILED if errors else 0
