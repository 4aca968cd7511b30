"""The metrics of several processes as one."""

from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dragoman.services.telemetry.summed_metrics import SummedMetrics


def own(asked: int, waiting: int, name: str = 'de"\n') -> bytes:
    """The metrics of a process that was asked so often."""
    registry = CollectorRegistry()
    Counter("asked", "Questions", ["name"], registry=registry).labels(name).inc(asked)
    Gauge("waiting", "Lines that wait", registry=registry).set(waiting)
    Gauge("dragoman_model_info", "The model", ["version"], registry=registry).labels("3").set(1)
    seconds = Histogram("seconds", "Time", buckets=(1, 2), registry=registry)
    for _ in range(asked):
        seconds.observe(1.5)
    return generate_latest(registry)


def values(text: bytes) -> dict[str, float]:
    found = (one for family in text_string_to_metric_families(text.decode()) for one in family.samples)
    return {one.name + one.labels.get("le", ""): one.value for one in found if not one.name.endswith("_created")}


def test_counts_are_added_and_what_all_have_alike_is_not(tmp_path: Path) -> None:
    first, second = SummedMetrics(tmp_path, 0), SummedMetrics(tmp_path, 1)
    second.note(own(asked=3, waiting=2))
    summed = values(first.text(own(asked=4, waiting=1)))
    assert summed == {
        "asked_total": 7,
        "waiting": 3,
        "dragoman_model_info": 1,
        "seconds_bucket1.0": 0,
        "seconds_bucket2.0": 7,
        "seconds_bucket+Inf": 7,
        "seconds_count": 7,
        "seconds_sum": 10.5,
    }


def test_the_sum_is_no_less_once_a_process_has_died(tmp_path: Path) -> None:
    first, second = SummedMetrics(tmp_path, 0), SummedMetrics(tmp_path, 1)
    for _ in range(2):
        second.note(own(asked=3, waiting=2))
        second.retire()
    summed = values(first.text(own(asked=4, waiting=1)))
    assert (summed["asked_total"], summed["seconds_count"], summed["waiting"]) == (10, 10, 1)
    second.retire()  # one that died before it noted anything
    assert values(first.text(own(asked=4, waiting=1))) == summed
