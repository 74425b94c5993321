"""Tables beside the netCDF files: tidy, complete, exact."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from superposition.validate import files


@pytest.fixture
def dataset():
    rng = np.random.default_rng(0)
    return xr.Dataset(
        {
            "loss": (("p", "run"), rng.random((3, 2))),
            "error": (("run", "p"), rng.random((2, 3))),
            "law": ("p", rng.random(3)),
            "constant": ((), 0.1 + 0.2),
        },
        {"p": [0.1, 0.2, 0.3], "label": ("p", ["a, b", "c", "d"])},
    )


def test_one_table_for_each_set_of_dimensions(dataset, tmp_path):
    written = files.write_tables(tmp_path / "loss.csv", dataset)
    assert [path.name for path in written] == ["loss-by-p-run.csv", "loss-by-p.csv"]
    both, law = map(pd.read_csv, written)
    assert list(both.columns) == ["p", "run", "loss", "error", "constant", "label"]
    assert len(both) == 6
    for row in both.itertuples():
        at = dataset.sel(p=row.p).isel(run=row.run)
        assert (row.loss, row.error, row.label) == (at.loss, at.error, at.label)
    assert set(both.constant) == {0.1 + 0.2}
    np.testing.assert_array_equal(law.law, dataset.law)


def test_a_single_table_has_the_plain_name(dataset, tmp_path):
    (path,) = files.write_tables(tmp_path / "law.csv", dataset[["law", "constant"]])
    assert path == tmp_path / "law.csv"
    assert len(pd.read_csv(path)) == 3


def test_constants_alone_are_one_row(tmp_path):
    (path,) = files.write_tables(tmp_path / "c.csv", xr.Dataset({"a": 1, "b": 0.5}))
    assert path.read_text(encoding="utf-8") == "a,b\n1,0.5\n"
