"""The tables of the documentation from what `make bench` measured: ``python table.py PAGE MEASURED…``.

MEASURED is the JSON of a run of these benchmarks, or of several runs of some of them (conftest.py says what
is in it). It is kept beside the page, and all of the page after its mark is written anew.
"""

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

MARK = "<!-- what follows is written by `make bench` -->\n"


def text(value):
    return "" if value is None else f"{value:.1e}"


def time_text(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def ratio_text(quartiles):
    forms = ((1e3, ".3g"), (1e6, ",.0f"), (np.inf, ".1e"))
    low, middle, high = (
        format(value, next(form for top, form in forms if value < top)) for value in quartiles
    )
    return f"{middle} ({low} to {high})"


def loses(one, other):
    """Return how we lose against another: by time, by an answer that is less exact, or both."""
    worse = None not in (one["error"], other["error"]) and one["error"] > other["error"] * (1 + 1e-9)
    slower = other["ratio"][1] < 1
    return ", ".join(["**we lose**"] * slower + ["**less exact**"] * worse)


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def beside(records):
    """Return a row for each alternative: its time over ours, and who has which error."""
    return [
        [
            one["work"], one["at"], time_text(one["seconds"][1]), text(one["error"]), other["name"],
            text(other["error"]), ratio_text(other["ratio"]), loses(one, other), one["note"],
        ]
        for one in records for other in one["others"] if not other["floor"]
    ]  # fmt: skip


def floors(records):
    """Return a row for each floor: our time over its."""
    return [
        [
            one["work"], one["at"], time_text(one["seconds"][1]), other["name"],
            ratio_text([1 / value for value in reversed(other["ratio"])]),
        ]
        for one in records for other in one["others"] if other["floor"]
    ]  # fmt: skip


def exponent(sizes, seconds):
    """Return the least-squares slope of the logarithms and its standard error."""
    x, y = np.log(sizes), np.log(seconds)
    x = x - x.mean()
    slope = x @ y / (x @ x)
    left = y - y.mean() - slope * x
    return float(slope), float(np.sqrt(left @ left / (len(x) - 2) / (x @ x)))


def exponents(records):
    """Return a row for each cost that was measured at four sizes or more."""
    costs = defaultdict(lambda: defaultdict(list))
    for one in records:
        if one["size"] is not None:
            costs[one["work"], "ours"][one["size"]].append(one["seconds"][1])
            for other in one["others"]:
                costs[one["work"], other["name"]][one["size"]].append(other["seconds"][1])
    rows = []
    for (work, name), found in costs.items():
        if len(found) >= 4:
            sizes = sorted(found)
            slope, error = exponent(sizes, [np.median(found[size]) for size in sizes])
            rows.append([work, name, f"{sizes[0]:g} to {sizes[-1]:g}", f"{slope:.2f} ± {error:.2f}"])
    return rows


def alone(records):
    return [
        [one["work"], one["at"], time_text(one["seconds"][1]), text(one["error"]), one["note"]]
        for one in records if not one["others"]
    ]  # fmt: skip


def lost(records):
    """Return a line for each alternative that is faster than we are, or more exact."""
    return [
        f"- {one['work']}, {one['at']}: {other['name']} takes {other['ratio'][1]:.2g} times as long as we do"
        + (", and is more exact." if "exact" in loses(one, other) else ".")
        for one in records for other in one["others"] if not other["floor"] and loses(one, other)
    ]  # fmt: skip


def render(measured):
    """Return the part of the page after its mark."""
    machine, records = measured["machine_info"], measured["benchmarks"]
    versions = ", ".join(f"{name} {machine[name]}" for name in list(machine)[list(machine).index("python") :])
    parts = [
        f"Measured on {measured['datetime'][:10]}: {machine['processor']}, {machine['cores']} cores, "
        f"{machine['threads']} thread; highest load averages {', '.join(map(str, machine['load']))}; "
        f"{versions}.",
        "## Beside others",
        table(
            ["work", "size", "ours", "our error", "beside", "its error", "its time over ours", "", "note"],
            beside(records),
        ),
        "### Where we lose",
        "\n".join(lost(records)) or "Nowhere in this table.",
        "## Floors",
        table(["work", "size", "ours", "floor", "our time over the floor's"], floors(records)),
        "## Cost against size",
        table(["work", "whose", "sizes", "exponent"], exponents(records)),
        "## Times alone",
        table(["work", "size", "time", "error", "note"], alone(records)),
    ]
    return "\n\n".join(parts) + "\n"


def merged(runs):
    """Return several runs as one: of the first one's machine, and of its load and of dates the last.

    Notes of records that were measured elsewhere, or with other libraries, say where and when.
    """

    def machine(run):
        return {key: value for key, value in run["machine_info"].items() if key != "load"}

    found, at_home = {}, [run for run in runs if machine(run) == machine(runs[0])]
    for run in runs:
        about = run["machine_info"]
        place = f"on {about['processor']}, {run['datetime'][:10]}, load {about['load'][0]}"
        for one in run["benchmarks"]:
            note = "; ".join(filter(None, [one["note"], place]))
            found[one["name"]] = one if run in at_home else one | {"note": note}
    last = max(at_home, key=lambda run: run["datetime"])
    loads = np.max([run["machine_info"]["load"] for run in at_home], axis=0).tolist()
    return {
        "machine_info": last["machine_info"] | {"load": loads}, "datetime": last["datetime"],
        "benchmarks": list(found.values()),
    }  # fmt: skip


def main(page, *measured):
    """Write page and data; print what was written."""
    content = merged([json.loads(Path(one).read_text(encoding="utf-8")) for one in measured])
    page = Path(page)
    head = page.read_text(encoding="utf-8").partition(MARK)[0]
    made = render(content)
    # A line for each record, so that a new measurement reads well as a change.
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in content["benchmarks"])
    data = (
        json.dumps(content | {"benchmarks": []}, ensure_ascii=False).replace("[]}", f"[\n{lines}\n]}}") + "\n"
    )
    for path, written in ((page.with_suffix(".json"), data), (page, head + MARK + "\n" + made)):
        part = path.with_name(f".{path.name}.part")
        part.write_text(written, encoding="utf-8")
        os.replace(part, path)
    print(made)


if __name__ == "__main__":
    main(*sys.argv[1:])
