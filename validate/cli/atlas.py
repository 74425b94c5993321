"""``superposition atlas``: the best small models that are known, as a list, as files, or solved anew."""

import argparse

from .laws import chances_of
from .text import (
    Add,
    TableRows,
    as_json,
    format_value,
    format_written,
    layouts,
    print_json,
    print_table,
    say,
    tell,
)

FILTERS = ("n_features", "n_hidden", "p", "importance", "tied")
COLUMNS = ("loss", "zero_loss", "lower_bound", "curvature", "held", "minima", "hits", "starts")


def add(add_command: Add) -> None:
    """Add the command to the program."""
    option = add_command(
        "atlas",
        "list the best models known of up to 9 features in up to 4 neurons, or write one as a state dict",
        "superposition atlas n5-m2-p0.1-equal-tied --out best.safetensors --layout 'Anthropic notebook'",
        _atlas,
    ).add_argument
    option("name", nargs="?", metavar="NAME", help="a model of the list (default: the list)")
    option("--out", metavar="FILE", help="where to write the model: .safetensors or .npz")
    layout = "of the file (default: Anthropic notebook)"
    known = TableRows(layouts)
    option("--layout", metavar="LAYOUT", default="Anthropic notebook", choices=known, help=layout)
    option("--n-features", type=int, choices=range(2, 10), help="list these alone")
    option("--n-hidden", type=int, choices=range(1, 5), help="list these alone")
    option("--p", type=float, choices=(0.01, 0.03, 0.1, 0.3, 0.7), help="list these alone")
    option("--sparsity", type=float, choices=(0.99, 0.97, 0.9, 0.7, 0.3), help="instead of --p: S = 1 - p")
    option("--importance", choices=("equal", "falling"), help="list these alone; falling is 0.7^i")
    option("--tied", action=argparse.BooleanOptionalAction, help="list tied models alone, or free ones")
    option("--json", action="store_true", help="a list of objects, one a model, with its weights")
    option("--make", metavar="FOLDER", help="solve all anew (an hour of a core), or go on with a stopped run")
    again = "begin --make with the models of the list, and search once more for each; give another --seed"
    option("--again", action="store_true", help=again)
    option("--jobs", type=int, default=1, help="processes of --make (default: 1)")
    option("--scheduler", metavar="ADDRESS", help="Dask cluster for --make, such as tcp://host:8786")
    option("--starts", type=int, default=8, help="random starts of --make (default: 8)")
    option("--seed", type=int, default=0, help="seed of --make (default: 0)")


def _atlas(options: argparse.Namespace) -> None:
    from ..experiments import atlas

    if options.make is not None:
        given = {name: getattr(options, name) for name in ("jobs", "starts", "seed", "again", "scheduler")}
        made = str(atlas.make(folder=options.make, progress=tell, **given))
        if options.json:
            print_json({"written": made})
        else:
            say(made)
        return
    if options.out is not None:
        if options.name is None:
            raise ValueError("`name` must be given with --out; got none.")
        atlas.export(options.name, path=options.out, layout=options.layout)
        format_written(options.out, options.json)
        return
    if options.sparsity is not None:
        options.p = chances_of(options)[0]
    wanted = {name: getattr(options, name) for name in FILTERS}
    entries = atlas.entries(**wanted) if options.name is None else (atlas.load(options.name),)
    if options.json:
        print_json([{name: as_json(value) for name, value in vars(entry).items()} for entry in entries])
        return
    rows = [
        [
            entry.name,
            *("" if getattr(entry, name) is None else format_value(getattr(entry, name)) for name in COLUMNS),
        ]
        for entry in entries
    ]
    print_table("best models known", ["name", *COLUMNS], rows)
    if options.name is not None:
        from ..api.best import in_words

        say(
            f"{in_words(entries[0].structure)}; {entries[0].grade}, not proved. "
            "W_in, W_out and b with --json."
        )
