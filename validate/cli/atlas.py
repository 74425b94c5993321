"""``superposition atlas``: the best small models that are known, as a list, as files, or solved anew."""

import argparse

from .laws import chances_of
from .options import LAYOUTS, arguments, command, json_option, option, options_of
from .text import as_json, format_value, print_json, print_result, print_table, print_written, say, tell

COLUMNS = ("name", "loss", "zero_loss", "lower_bound", "curvature", "held", "minima", "hits", "starts")


@command(
    "superposition atlas n5-m2-p0.1-equal-tied --out best.safetensors --layout 'Anthropic notebook'",
    option("name", "a model of the list (default: the list)", nargs="?", metavar="NAME"),
    option("--out", "where to write the model: .safetensors or .npz", metavar="FILE"),
    option(
        "--layout",
        "of the file (default: Anthropic notebook)",
        metavar="LAYOUT",
        default="Anthropic notebook",
        choices=LAYOUTS,
    ),
    *options_of(
        "experiments.atlas.store.entries",
        *("n_features", "n_hidden", "p", "importance", "tied"),
        about="List these alone: ",
        n_features={"choices": range(2, 10)},
        n_hidden={"choices": range(1, 5)},
        p={"choices": (0.01, 0.03, 0.1, 0.3, 0.7)},
    ),
    option("--sparsity", "instead of --p: S = 1 - p", type=float, choices=(0.99, 0.97, 0.9, 0.7, 0.3)),
    json_option("a list of objects, one a model, with its weights"),
    option("--make", "solve all anew (an hour of a core), or go on with a stopped run", metavar="FOLDER"),
    *options_of(
        "experiments.atlas.search.make",
        *("again", "jobs", "scheduler", "starts", "seed"),
        about="With --make: ",
        scheduler={"metavar": "ADDRESS"},
    ),
)
def atlas(options: argparse.Namespace) -> None:
    """List the best models known of up to 9 features in up to 4 neurons, or write one as a state dict."""
    from ..experiments import atlas

    if options.make is not None:
        settings = arguments("experiments.atlas.search.make", options)
        manifest = str(atlas.make(folder=options.make, progress=tell, **settings))
        print_result(options.json, {"written": manifest}, manifest)
        return
    if options.out is not None:
        if options.name is None:
            raise ValueError("`name` must be given with --out; got none.")
        atlas.export(options.name, path=options.out, layout=options.layout)
        print_written(options.json, options.out)
        return
    if options.sparsity is not None:
        options.p = chances_of(options)[0]
    wanted = arguments("experiments.atlas.store.entries", options)
    entries = atlas.entries(**wanted) if options.name is None else (atlas.load(options.name),)
    if options.json:
        print_json([{name: as_json(value) for name, value in vars(entry).items()} for entry in entries])
        return
    cells = [[getattr(entry, name) for name in COLUMNS] for entry in entries]
    rows = [["" if cell is None else format_value(cell) for cell in row] for row in cells]
    print_table("best models known", COLUMNS, rows)
    if options.name is not None:
        from ..audit.advice import in_words

        entry = entries[0]
        say(f"{in_words(entry.structure)}; {entry.grade}, not proved. W_in, W_out and b with --json.")
        say(f"{entry.learning_coefficient}")
