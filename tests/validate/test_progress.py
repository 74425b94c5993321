"""Progress of a long run: where it is, and how long it may still take."""

import pytest

from superposition.validate import progress


@pytest.fixture
def now(monkeypatch):
    time = [100.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: time[0])
    return time


def test_nothing_is_said_about_the_time_left_until_something_is_known(now):
    lines = []
    clock = progress.Clock({"a": None, "b": None, "c": None}, lines.append)
    clock.begin("a")
    now[0] += 60
    clock("working")
    clock.end(60.0)
    clock.begin("b")
    now[0] += 20
    clock("working")
    clock.end(20.0)
    clock.begin("c")
    now[0] += 10
    clock("working")
    assert lines == [
        "[   60 s, part 1 of 3] working",
        "[   80 s, part 2 of 3] working",
        "[   90 s, part 3 of 3, about 30 s left] working",  # 40 s is the mean of a and b
    ]


def test_earlier_runs_tell_how_long_it_takes(now):
    clock = progress.Clock({"a": 10.0, "b": None, "c": 50.0}, print)
    clock.begin("a")
    assert clock.left() == 10 + 30 + 50
    now[0] += 25  # longer than last time
    assert clock.left() == 0 + 30 + 50
    assert (clock.elapsed, clock.in_part) == (25, 25)
    clock.begin("c")
    now[0] += 1
    assert clock.left() == 49
    assert (clock.elapsed, clock.in_part) == (26, 1)


@pytest.mark.parametrize(("seconds", "shown"), [(0.2, "1 s"), (89, "89 s"), (300, "5 min"), (9000, "2.5 h")])
def test_durations_are_round(now, seconds, shown):
    lines = []
    clock = progress.Clock({"a": seconds}, lines.append)
    clock.begin("a")
    clock("x")
    assert f"about {shown} left" in lines[0]
