"""How much is done and how long the rest takes."""

from types import SimpleNamespace

from snakemake_logger_plugin_tierscope.progress import Progress


def job(rule, seconds, points=0, points_done=0):
    return SimpleNamespace(
        rule=rule,
        seconds=seconds,
        is_launch=rule == "run_benchmark",
        points=points,
        points_done=points_done,
    )


def test_time_left_is_that_of_points_in_turn_and_of_other_jobs_at_their_pace():
    time_s = [0]
    progress = Progress({"run_benchmark": 1, "audit": 6}, lambda: time_s[0])
    progress.expect(8)
    for _ in range(3):
        progress.finished(job("audit", 2))
    time_s[0] = 3  # three jobs of 2 s took 3 s: two at a time
    assert progress.so_far() == "0 of 8 points, 3 of 6 jobs"
    time_s[0] = 23
    running = job("run_benchmark", 20, points=8, points_done=4)
    text = progress.so_far([running])
    # Four points of 5 s, three audits of 2 s of which two run at a time.
    assert text == "4 of 8 points, 3 of 6 jobs, about 23 s left"


def test_brief_jobs_say_nothing_about_those_of_other_rules():
    time_s = [0]
    progress = Progress({"describe": 4, "audit": 2, "draw": 5}, lambda: time_s[0])
    for _ in range(3):
        progress.finished(job("describe", 0.1))
    for _ in range(2):
        progress.finished(job("audit", 4))
    time_s[0] = 20
    # One description, and five drawings as long as an audit.
    assert progress.so_far() == "5 of 11 jobs, about 20 s left"


def test_points_of_a_launch_count_when_it_has_ended():
    progress = Progress({"run_benchmark": 2})
    progress.expect(5)
    progress.finished(job("run_benchmark", 9, points=3, points_done=2))
    assert progress.so_far() == "3 of 5 points"
    assert not progress.is_complete
    progress.finished(job("run_benchmark", 0, points=2))
    assert progress.so_far() == "5 of 5 points"
    assert progress.is_complete
