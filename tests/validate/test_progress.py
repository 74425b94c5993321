"""Progress of a long run: where it is, and how long it may still take."""

from superposition.validate.runner import tasks as room
from superposition.validate.runner.tasks import Task


def test_what_is_left_is_scaled_by_what_the_finished_ones_took(monkeypatch):
    tasks = [Task("a", print, seconds=1.0), Task("b", print, seconds=20.0), Task("c", print, seconds=4.0)]
    lines, now = [], [100.0]
    monkeypatch.setattr(room.time, "perf_counter", lambda: now[0])
    clock = room.ProgressClock(tasks, lines.append)
    assert clock.seconds_left() is None
    for task, seconds in zip(tasks, (4, 38, 10), strict=True):
        now[0] += seconds
        clock.mark_finished(task, f"{task.name}: done")
    assert lines == [
        "[    4 s, 1 of 3] a: done",  # less than a tenth of all: too early to tell
        "[   42 s, 2 of 3, about 8 s left] b: done",  # 21 expected seconds took 42
        "[   52 s, 3 of 3] c: done",
    ]


def test_durations_are_round():
    shown = {0.2: "1 s", 89: "89 s", 300: "5 min", 9000: "2.5 h"}
    assert {seconds: room.format_duration(seconds) for seconds in shown} == shown
