"""The ledger: verdicts follow from evidence, a wrong statement does not get away, every row is computed."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import sympy
import xarray as xr
from scipy import integrate
from scipy.special import ndtr, xlogy

from superposition.solvers.rug import optimum
from superposition.solvers.statistics import Estimate, Family, mean
from superposition.theory import rug
from superposition.validate import cli, ledger
from superposition.validate.cli.claims import _format_finding
from superposition.validate.ledger import Claim, Evidence, Finding, Verdict, catalogue, run, select_claims
from superposition.validate.ledger import stored_verdicts as judged
from superposition.validate.ledger.claim import corrected_statement
from superposition.validate.ledger.cowsik_scaling import chain_constant, posterior_loss
from superposition.validate.ledger.cowsik_structure import drop_ratio
from superposition.validate.runner import cache
from superposition.validate.runner.findings import (
    ABOUT,
    confirmed,
    derived,
    experiment,
    in_range,
    not_refuted,
    post_hoc,
    preregistered,
    rounding,
    symbolic,
)


@pytest.fixture
def results(tmp_path):
    return cache.ResultCache(tmp_path)


def kept(about):
    return Finding(about, "numeric", "gap", 1e-16, "<=", 1e-12)


def broken(about):
    return Finding(about, "numeric", "gap", 0.1, "<=", 1e-12)


def test_the_verdict_follows_from_the_findings_alone():
    """Which fault it is, is declared; whether there is one, is not."""
    for findings, expected in (
        ([kept("printed")], "holds"), ([kept("printed"), kept("corrected")], "holds"),
        ([kept("printed"), broken("printed")], "wrong"),
        ([broken("printed"), kept("corrected")], "incomplete"),
        ([broken("printed"), kept("corrected"), broken("corrected")], "unsettled: a finding fails"),
        ([kept("printed"), broken("corrected")], "unsettled: a finding fails"),
        ([kept("printed"), broken("order")], "unsettled: a finding fails"),
        ([kept("order"), broken("answer")], "unsettled: a finding fails"),
        ([broken("printed"), kept("corrected"), broken("order")], "wrong"),
        ([broken("printed"), kept("order")], "wrong"), ([kept("order")], "holds, up to constants"),
        ([kept("order"), broken("order")], "wrong"), ([kept("corrected")], "question, answered"),
        ([kept("answer")], "question, answered"), ([kept("printed"), kept("runs")], "holds"),
        ([broken("printed"), kept("corrected"), broken("runs")], "unsettled: too few runs"),
        ([kept("printed"), kept("runs"), broken("runs")], "unsettled: too few runs"),
        ([broken("answer"), broken("runs")], "unsettled: a finding fails"), ([], "open"),
    ):  # fmt: skip
        declared = Evidence("this text says: holds, wrong", findings, fault=Verdict.INCOMPLETE)
        assert ledger.verdict(declared) == expected, findings


def test_a_limit_says_how_it_was_set_and_a_broken_one_of_the_print_is_a_counterexample():
    assert Finding("printed", "numeric", "gap", 0.1, "<=", preregistered(0.2)).basis == "before"
    assert Finding("printed", "numeric", "gap", 0.1, "<=", 0.2).limit_set == "limit not stated"
    for relation in ("==", "<=", "<", ">=", ">"):
        assert not Finding("printed", "numeric", "gap", np.nan, relation, 0.0).passed
    labels = [finding.label for finding in (broken("printed"), broken("corrected"), kept("printed"))]
    assert labels == ["counterexample", "numeric", "numeric"]


def test_symbolic_findings_need_an_exact_zero():
    x = sympy.Symbol("x", positive=True)
    assert symbolic("", sympy.sin(x) ** 2 + sympy.cos(x) ** 2 - 1).passed
    assert symbolic("", sympy.zeros(2, 2)).passed
    # Wrong by less than any tolerance, and at one point not at all.
    assert not symbolic("", sympy.Rational(1, 10**30)).passed
    assert not symbolic("", x - sympy.Rational(1, 3)).passed
    assert not symbolic("", sympy.Matrix([0, x])).passed


def test_a_correction_that_nothing_says_is_refused(results):
    faulty = Evidence("", [broken("printed"), kept("corrected")], fault=Verdict.MISPRINT)
    row = ledger.judge(Claim("X1", "nobody2000", "1", "1 = 1.1", lambda quick: faulty), results)
    assert row.verdict is Verdict.NOT_JUDGED
    assert re.search(r"`corrections` of X1 must say what is true instead.*; got none", row.trouble)


def test_a_finding_that_fails_always_shows():
    """No verdict of a row with a broken finding is one that says that all is well."""
    well = {Verdict.HOLDS, Verdict.UP_TO_CONSTANTS, Verdict.ANSWERED}
    for about, others in product(ABOUT, ([], ["printed"], ["printed", "corrected"], ["order"])):
        rest = [kept(other) for other in others if other != about]
        assert ledger.verdict(Evidence("", [*rest, broken(about)])) not in well
        sentence = corrected_statement("a sentence", broken(about))
        assert ledger.verdict(Evidence("", rest, corrections=[sentence])) not in well


def test_a_correction_shows_only_where_the_verdict_asks_for_it():
    held = Evidence("", [kept("printed")], corrections=[corrected_statement("it is 2", kept("corrected"))])
    row = ledger.CheckedClaim(select_claims(["C9"])[0], held, 0.0)
    assert (row.verdict, row.correction) == (Verdict.HOLDS, None)
    wrong = replace(row, evidence=replace(held, printed=[broken("printed")]))
    assert (wrong.verdict, wrong.correction) == (Verdict.WRONG, "it is 2")
    assert wrong.evidence.findings == (broken("printed"), kept("corrected"))
    assert ledger.as_record(wrong)["evidence"]["corrections"] == [{"text": "it is 2", "findings": ["gap"]}]


def test_limits_decide_by_the_end_that_the_claim_needs():
    rise = Estimate(1.0, 0.4, 1.6, 0.998, 12, alarm=1e-3)
    assert [confirmed("x", rise, ">", derived(limit)).passed for limit in (0.3, 0.5)] == [True, False]
    assert [confirmed("x", rise, "<=", derived(limit)).passed for limit in (1.5, 1.7)] == [False, True]
    assert [not_refuted("x", rise, ">=", derived(limit)).passed for limit in (1.5, 1.7)] == [True, False]
    assert [not_refuted("x", rise, "<", derived(limit)).passed for limit in (0.3, 0.5)] == [False, True]
    worst = confirmed("x", [rise, replace(rise, low=-1.0)], ">", derived())
    assert (worst.value, worst.alarm, worst.resolution) == (-1.0, 1e-3, 1.3)
    nothing = replace(rise, low=np.nan)
    assert not confirmed("x", [nothing, rise], ">", derived()).passed


def test_origin_alarm_and_resolution_are_recorded(results):
    stored = xr.Dataset(attrs={"stored_file": "runs.nc", "stored_date": "2026-01-02", "stored_device": "cpu"})
    estimate = Family(alarm=1e-3, limits=2).of(mean, [1.0, 1.1, 0.9, 1.0])
    chance = experiment("p-value", 0.4, ">", preregistered(0.01), origin=xr.Dataset())
    grown = confirmed("mean", estimate, ">", derived(), origin=stored)
    found = [grown, replace(chance, alarm=0.01), symbolic("identity", 0)]
    row = ledger.judge(Claim("X1", "nobody2000", "1", "it grows", lambda quick: Evidence("", found)), results)
    shown = ("origin", "alarm_rate", "limit_set", "resolution")
    half = pytest.approx((estimate.high - estimate.low) / 2)
    assert [[f[name] for name in shown] for f in ledger.as_record(row)["evidence"]["findings"]] == [
        ["stored: runs.nc, 2026-01-02, cpu", 1e-3, "derived", half],
        ["run now", 0.01, "before", None],
        ["derived", None, "derived", None],
    ]
    said = _format_finding(ledger.as_record(row)["evidence"]["findings"][1])
    assert "p-value: 0.4 > 0.01 (run now, limit chosen before the data, alarm rate 0.01)" in said
    several = experiment("least of all", 1.0, ">", derived(), origin=(stored, xr.Dataset(), stored))
    assert several.origin == "stored: runs.nc, 2026-01-02, cpu; run now"


@pytest.mark.parametrize("judged", [confirmed, not_refuted])
def test_no_alarm_rate_where_the_limit_was_chosen_after_a_look(judged):
    estimate = Family(alarm=1e-3, limits=2).of(mean, [1.0, 1.1, 0.9, 1.0])
    for early in (derived, rounding, preregistered):
        assert "alarm rate 0.001" in judged("mean", estimate, ">", early(0.0)).chance
    late = judged("mean", estimate, ">", post_hoc(0.0))
    assert (late.alarm, "alarm" in late.chance, late.basis) == (None, False, "after")
    ends = in_range(judged, "", estimate, -post_hoc(1.0), preregistered(1.0))
    assert [finding.basis for finding in ends] == ["after", "before"]
    assert replace(late, alarm=0.5).alarm is None


def test_drop_ratio_is_where_the_loss_has_dropped():
    for lost in (0.05, 0.5):
        dropped = 1 - optimum(0.01, drop_ratio(0.01, lost)).loss / rug.zero_ratio_loss(0.01)
        assert dropped == pytest.approx(lost, rel=1e-6)


def test_the_numbers_in_a_correction_are_the_computed_ones():
    (row,) = run(["C23"])
    stated = [float(v) for v in re.findall(r"0\.\d{4}", row.correction)]  # four digits
    np.testing.assert_allclose(stated, [posterior_loss(0.25), chain_constant()], rtol=0, atol=5e-5)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])  # processes import everything
def test_the_same_run_gives_the_same_rows_whatever_the_workers_and_the_selection(jobs):
    ids = ["C9", "C13", "C22"]
    alone, together = run(["C13"]), run(ids, jobs=jobs)
    assert [row.claim.id for row in together] == ids
    assert together[1].evidence == alone[0].evidence
    assert together[1].claim is select_claims(["C13"])[0]


def test_rows_are_judged_in_the_order_of_the_ledger():
    seen = []
    run(["C9", "C8"], progress=lambda row: seen.append(row.claim.id))
    assert seen == ["C8", "C9"]


def test_records_are_plain_data():
    (row,) = run(["C8"])
    odd = replace(row, evidence=Evidence("", [replace(kept("printed"), value=np.inf)], {"x": np.nan}))
    evidence = ledger.as_record(odd)["evidence"]
    assert (evidence["findings"][0]["value"], evidence["numbers"]["x"]) == ("inf", "nan")


def test_posterior_loss_is_the_derivative_of_the_mutual_information():
    """Guo, Shamai, Verdu (2005): d I(u; y) / d snr = posterior loss / 2, at snr = 1 / sigma^2."""

    def information(log_snr):
        sigma = np.exp(-log_snr / 2)

        def entropy(y):
            density = ndtr(y / sigma) - ndtr((y - 1) / sigma)
            return -xlogy(density, density)

        # The density is symmetric about 1/2; beyond 9 standard deviations less than 1e-18 is left out.
        half = integrate.quad(entropy, -9 * sigma, 0.5, points=[0.0], epsabs=1e-13, epsrel=1e-13)[0]
        return 2 * half - np.log(sigma) - 0.5 * np.log(2 * np.pi * np.e)

    for sigma in (0.05, 0.25, 1.0):
        step, middle = 1e-2, -2 * np.log(sigma)
        wide, narrow = (
            (information(middle + h) - information(middle - h)) / (2 * h) for h in (2 * step, step)
        )
        # Richardson's step leaves step^4 = 1e-8, times derivatives of order 1; the integrals are better.
        assert posterior_loss(sigma) == pytest.approx(2 * (4 * narrow - wide) / 3, abs=1e-7)


def test_a_row_that_needs_torch_is_read_from_stored_evidence_or_not_judged(results, monkeypatch):
    monkeypatch.setattr(cache.ResultCache, "is_available", staticmethod(lambda name: False))
    row = next(entry for entry in select_claims() if entry.needs)
    (stored,) = ledger.read_stored([row.id])
    assert ledger.judge(row, results) == stored
    assert stored.checked_on
    monkeypatch.setattr(catalogue, "read_stored", lambda ids: ())
    assert ledger.judge(row, results).verdict is Verdict.NOT_JUDGED


def test_a_check_that_raises_takes_no_other_along(monkeypatch, capsys):
    def check(quick):
        raise TypeError("a check's own fault")

    bad = Claim("X1", "nobody2000", "1", "one is one", check)
    monkeypatch.setattr(catalogue, "CLAIMS", (*select_claims(["C9"]), bad, *select_claims(["C21"])))
    assert [str(row.verdict) for row in run()] == ["holds", "not judged", "misprint"]
    assert cli.main(["claims", "--run", "--json"]) == 1
    assert "TypeError: a check's own fault" in capsys.readouterr().out
    assert cli.main(["claims", "--run", "--id", "C9"]) == 0


def test_stored_rows_come_back_as_they_were_judged(tmp_path):
    rows, path = run(["C8", "C9"]), tmp_path / "kept.json"
    catalogue.store(rows, "2026-01-02", path=path)
    stored = judged.read(path=path)
    assert list(stored) == ["C8", "C9"]
    back, row = ledger.from_record(rows[0].claim, stored["C8"]), rows[0]
    assert (back.checked_on, back.verdict, back.correction) == ("2026-01-02", row.verdict, row.correction)
    assert set(back.evidence.findings) == set(row.evidence.findings)
    with pytest.raises(ValueError, match=r"`rows` must be judged; got C8: it broke"):
        ledger.store([replace(row, trouble="it broke")], "2026-01-02", path=path)


def test_what_is_wrong_as_printed_is_read_not_run():
    """From stored evidence, with no check and none of its libraries: a process of its own shows it."""
    code = "import sys; from superposition.validate import cli; "
    code += "cli.main('claims --source lecomte2024 --wrong'.split()); print(sorted(sys.modules))"
    words, env = [sys.executable, "-c", code], os.environ | {"COLUMNS": "200"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    said, loaded = done.stdout.rsplit("\n", 2)[:2]
    assert not {"'numpy'", "'superposition.validate.ledger.catalogue'"} & {*re.findall(r"'[\w.]+'", loaded)}
    wrong = [row for row in ledger.read_stored(source="lecomte2024") if row.verdict in ledger.WRONG]
    assert f"{len(wrong)} of 44 statements of lecomte2024 do not hold as printed, from stored" in said
    words = " ".join(said.split())
    for row in wrong:
        assert f"printed {row.claim.statement} true {row.correction}" in words


def test_a_file_of_rows_has_the_order_of_the_ids_and_nothing_else(tmp_path):
    path = tmp_path / "rows.json"
    judged.store([{"id": "B1", "x": 1}, {"id": "C1", "x": 2}], ["A1", "B1", "C1"], path=path)
    judged.store([{"id": "C1", "x": 3}, {"id": "A1", "x": 4}], ["A1", "B1", "C1"], path=path)
    expected = [("A1", 4), ("B1", 1), ("C1", 3)]
    assert [(id, row["x"]) for id, row in judged.read(path=path).items()] == expected
    assert [*judged.read(["C1", "D1", "A1"], path=path)] == ["A1", "C1"]
    judged.store([], ["C1", "A1"], path=path)
    assert [*judged.read(path=path)] == ["C1", "A1"]
    assert judged.id_ranges(["C10", "S1", "C9"]) == "C9 to C10, S1 to S1"


def test_every_verdict_has_a_sentence_and_one_place():
    """A statement is right, wrong, undecided, or a question that is answered."""
    right = {Verdict.HOLDS, Verdict.UP_TO_CONSTANTS, Verdict.ANSWERED}
    assert set(judged.MEANINGS) == set(Verdict)
    assert right | {*judged.WRONG, *judged.UNDECIDED} == set(Verdict)
    assert len(right) + len(judged.WRONG) + len(judged.UNDECIDED) == len(Verdict)


def test_a_source_is_named_by_how_it_begins():
    assert judged.source_named("cow") == "cowsik2024"
    for word in ("sik", "2024", "", "c", 7, None):  # elsewhere in a name, or the beginning of several
        assert judged.source_named(word) == word


def test_wrong_rows_are_judged_anew_and_right_ones_are_not(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(ledger, "run", lambda ids, *rest, **named: seen.append(ids) or [])
    assert cli.main(["claims", "--run", "--wrong", "--id", "C8", "C9", "L10", "C21"]) == 0
    assert seen == [["L10", "C8", "C21"]]  # C9 holds


def test_rows_that_were_judged_are_cached_and_others_are_not(monkeypatch, results):
    judged_rows, right = [], catalogue.judge

    def judge_again(claim, results):
        judged_rows.append(claim.id)
        row = right(claim, results)
        return replace(row, trouble="it broke") if claim.id == "C9" else row

    monkeypatch.setattr(catalogue, "judge", judge_again)
    for id, times in (("C8", 1), ("C9", 2)):
        first, again = (catalogue.read_or_judge(results, id) for _ in range(2))
        assert judged_rows.count(id) == times
        assert {**first, "seconds": 0} == {**again, "seconds": 0}
        assert first["id"] == id
