"""The tables of the report's part on linear autoencoders."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from ..experiment import Table
from .descent import LABELS
from .flows import NAMES

__all__ = ["escape_table", "flows_table", "rates_table", "representation_table", "span", "starts"]


def span(values: xr.DataArray | np.ndarray, digits: str = ".3f") -> str:
    """Return the smallest and the largest value as text, or one if they read the same."""
    low, high = (f"{float(end):{digits}}" for end in (np.min(values), np.max(values)))
    return low if low == high else f"{low} to {high}"


def starts(ds: xr.Dataset) -> str:
    """Return the number of runs in words."""
    count = ds.sizes["run"]
    return f"{count} starts" if count > 1 else "1 start"


def escape_table(ds: xr.Dataset) -> Table:
    """Return critical losses, growth rates and escape times; of `run_plateaus`."""
    rows = []
    for model in ds["model"].values:
        for data in ds["data"].values:
            for k in ds["saddle"].values:
                at = ds.sel(model=model, data=data, saddle=k)
                row = [
                    LABELS[str(model)],
                    str(data),
                    int(k),
                    float(ds["level"].sel(data=data, kept=k)),
                    float(at["rate"]),
                    span(at["predicted"], ".4g"),
                    span(at["escape"] / at["predicted"], ".4f"),
                ]
                if "trained_escape" in ds:
                    row.append(span(at["trained_escape"] / at["predicted"], ".4f"))
                rows.append(row)
    head = ["weights", "trained on", "directions kept", "critical loss", "growth rate", "predicted escape"]
    head += ["flow / predicted", *(["PyTorch / predicted"] if "trained_escape" in ds else [])]
    return Table("Escapes from the saddles", head, rows, f"Ranges are over {starts(ds)}.")


def flows_table(ds: xr.Dataset) -> Table:
    """Return where each flow ends; of `run_flows`."""
    last = ds.isel(time=-1)
    rows = []
    for rule in ds["rule"].values:
        at = last.sel(rule=rule)
        row = [NAMES[str(rule)]]
        for kind in ("", *(["trained_"] if "trained_loss" in ds else [])):
            row += [span(at[f"{kind}loss"] - ds["optimum"], ".1e"), span(at[f"{kind}angle"], ".2f")]
        rows.append(row)
    head = ["rule", "flow: loss − minimum", "flow: angle (degrees)"]
    if "trained_loss" in ds:
        head += ["PyTorch: loss − minimum", "PyTorch: angle (degrees)"]
    caption = f"At t = {float(ds['time'][-1]):g}; ranges over {starts(ds)}."
    return Table("Where the flows end", head, rows, caption)


def rates_table(parts: Sequence[xr.Dataset]) -> Table:
    """Return predicted and measured growth rates at saddles; of `run_saddles`, for several spectra."""
    rows = []
    for ds in parts:
        spectrum = ", ".join(f"{value:g}" for value in ds.attrs["eigenvalues"])
        for k, kept in enumerate(ds["kept"].values):
            for model in ds["model"].values:
                at = ds.sel(model=model).isel(saddle=k)
                rows.append(
                    [
                        spectrum,
                        ds.attrs["n_hidden"],
                        str(kept),
                        LABELS[str(model)],
                        int(at["index"]),
                        float(at["rotation_rate"]),
                        float(at["flow_rate"]),
                        f"{float(at['predicted']):.6f}",
                        f"{float(at['measured'].mean()):.6f}",
                        f"{float(np.abs(at['measured'] / at['predicted'] - 1).max()):.1e}",
                    ]
                )
    return Table(
        "Growth rates at the saddles",
        [
            "eigenvalues",
            "d",
            "directions kept",
            "weights",
            "index",
            "best rotation",
            "steepest descent",
            "the same in steps",
            "measured",
            "largest relative difference",
        ],
        rows,
        "Rates of the flow along the best rotation (Prop. 3) and of steepest descent, the latter in steps of "
        "this length, and measured in training. Index: dimensions in which the loss falls. Of equal "
        "eigenvalues one choice stands for all.",
    )


def representation_table(ds: xr.Dataset) -> Table:
    """Return losses beside weighted PCA and sums of shares; of `run_representation`."""
    rows = []
    for importance in ds["importance"].values:
        for bias in ds["bias"].values:
            for p in ds["p"].values:
                at = ds.sel(importance=importance, bias=bias, p=p)
                gain = max(float(1 - at["optimum"] / at["dedicated"]), 0.0)
                row = [str(importance), str(bias), float(p), f"{gain:.4f}"]
                for model in ds["model"].values:
                    one = at.sel(model=model)
                    row += [
                        f"{max(float((one['loss'].min() / at['optimum']) - 1), 0):.1e}",
                        span(one["share"].sum("feature"), ".4f"),
                    ]
                rows.append(row)
    return Table(
        "Trained linear models and weighted PCA",
        [
            "importance",
            "bias",
            "p",
            "gain of weighted PCA",
            *(
                f"{LABELS[str(m)]}: {what}"
                for m in ds["model"].values
                for what in ("excess loss", "sum of shares")
            ),
        ],
        rows,
        "Gain: over the best dedicated features, relative. Excess: of the best start over weighted PCA, "
        f"relative. Sums: ranges over {starts(ds)}.",
    )
