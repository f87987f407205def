import threading
import time

from art_core.observe.sinks import Sink, SinkSet
from art_core.scenario import Scenario
from art_core.trajectory.trajectory import Trajectory


class Recording:
    def __init__(self):
        self.events = []

    def on_run_start(self, info):
        self.events.append(("start", info))

    def on_rollout(self, trajectory):
        self.events.append(("rollout", trajectory.rollout_id))

    def on_metrics(self, row):
        self.events.append(("metrics", row["step"]))

    def on_run_end(self, summary):
        self.events.append(("end", summary))

    def close(self):
        self.events.append(("close",))


class Failing(Recording):
    def on_metrics(self, row):
        raise RuntimeError("no network")


class Hanging(Recording):
    def __init__(self):
        super().__init__()
        self.release = threading.Event()

    def on_metrics(self, row):
        self.release.wait(30)


def test_every_event_arrives_in_order():
    sink, problems = Recording(), []
    sinks = SinkSet([sink], on_problem=problems.append)
    sinks.on_run_start({"name": "r"})
    sinks.on_rollout(Trajectory(scenario=Scenario("s", "x"), rollout_id="r0"))
    sinks.on_metrics({"step": 1})
    sinks.on_run_end({"steps": 1})
    assert sinks.close() == {}
    assert [event[0] for event in sink.events] == ["start", "rollout", "metrics", "end", "close"]
    assert problems == []


def test_a_failing_sink_is_told_once_counted_and_hurts_no_other():
    good, problems = Recording(), []
    sinks = SinkSet([Failing(), good], on_problem=problems.append)
    for step in range(3):
        sinks.on_metrics({"step": step})
    assert sinks.close() == {"Failing": 3}
    assert problems == ["sink Failing loses events: on_metrics failed: RuntimeError: no network; the run goes on"]
    assert good.events[:3] == [("metrics", 0), ("metrics", 1), ("metrics", 2)]


def test_a_slow_sink_loses_events_instead_of_time():
    sink, problems = Hanging(), []
    sinks = SinkSet([sink], on_problem=problems.append, queue_size=2, close_s=0.1)
    began = time.monotonic()
    for step in range(100):
        sinks.on_metrics({"step": step})
    lost = sinks.close()
    assert time.monotonic() - began < 5
    assert 97 <= lost["Hanging"] <= 100
    assert len(problems) == 1
    sink.release.set()


def test_a_failing_close_is_told():
    class Bad(Recording):
        def close(self):
            raise ValueError("flush failed")

    problems = []
    assert SinkSet([Bad()], on_problem=problems.append).close() == {}
    assert problems == ["sink Bad failed to close: ValueError: flush failed; the run goes on"]


def test_a_recording_class_is_a_sink():
    assert isinstance(Recording(), Sink)
