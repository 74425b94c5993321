"""Criteria: limits that are declared once, and the findings by them."""

import numpy as np
import pytest
import xarray as xr

from superposition.validate.runner.findings import Criterion, derived, post_hoc, preregistered

NEAR = Criterion("gap", "<=", preregistered(0.1))


def test_the_worst_number_decides_and_places_are_counted():
    found = NEAR.finding([0.05, 0.1, 0.3])
    assert (found.value, found.passed, found.places, found.basis) == (0.3, False, "2 of 3", "before")
    assert Criterion("share", ">=", derived(0.5)).finding([0.6, 0.9]).value == 0.6


@pytest.mark.parametrize(("values", "places"), [([0.05, np.nan], "1 of 2"), ([], "no place")])
def test_what_is_no_number_keeps_no_limit(values, places):
    found = NEAR.finding(values)
    assert not found.passed
    assert found.places == places


def test_where_a_limit_is_kept_has_the_labels_of_the_numbers():
    kept = NEAR.satisfied(xr.DataArray([0.0, 0.2, np.nan], {"p": [1, 2, 3]}, ["p"]))
    assert kept.sel(p=1)
    assert not kept.sel(p=[2, 3]).any()
    assert NEAR.satisfied(0.1)
    assert not NEAR.satisfied(0.11)


def test_a_sentence_has_the_limit_in_its_own_format():
    assert f"{NEAR:.0%} and {Criterion('share', '>', post_hoc(2)):g}" == "10% and 2"
