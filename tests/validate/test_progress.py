"""Progress of a long run: where it is, and how long it may still take."""

import pytest

from superposition.validate.runner import tasks as room
from superposition.validate.runner.tasks import Task


@pytest.fixture
def now(monkeypatch):
    time = [100.0]
    monkeypatch.setattr(room.time, "perf_counter", lambda: time[0])
    return time


def test_what_is_left_is_scaled_by_what_the_finished_ones_took(now):
    tasks = [Task("a", print, seconds=1.0), Task("b", print, seconds=20.0), Task("c", print, seconds=4.0)]
    lines = []
    clock = room.ProgressClock(tasks, lines.append)
    assert clock.seconds_left() is None
    now[0] += 4
    clock.mark_finished(tasks[0], "a: done")  # less than a tenth of all: too early to tell
    now[0] += 38
    clock.mark_finished(tasks[1], "b: done")
    now[0] += 10
    clock.mark_finished(tasks[2], "c: done")
    assert lines == [
        "[    4 s, 1 of 3] a: done",
        "[   42 s, 2 of 3, about 8 s left] b: done",  # 21 expected seconds took 42
        "[   52 s, 3 of 3] c: done",
    ]


def test_durations_are_round():
    shown = {0.2: "1 s", 89: "89 s", 300: "5 min", 9000: "2.5 h"}
    assert {seconds: room.format_duration(seconds) for seconds in shown} == shown
