"""Charts of what jobs and machines use."""

from collections.abc import Mapping, Sequence

from dragoman.services.jobs.measures import MEASURES
from dragoman.services.jobs.pages.curves import Chart, time_chart
from dragoman.services.jobs.service.usage import Use

Groups = Sequence[tuple[str, Mapping[str, str]]]  # (title, measure -> its line's name)
LINES = 16  # of a chart, those with the greatest values
JOB_CHARTS: Groups = (
    ("CPU, cores", {"cpu": ""}),
    ("Memory, GiB", {"memory": ""}),
    ("GPU, % of the time", {"gpu": ""}),
    ("GPU memory, GiB", {"gpu_memory": ""}),
    ("Disk, MB/s", {"read": "read", "written": "written"}),
    ("Its machine's CPU, %", {"machine_cpu": ""}),
    ("Its machine's network, MB/s", {"machine_sent": "sent", "machine_received": "received"}),
)
MACHINE_CHARTS: Groups = (
    ("CPU, %", {"machine_cpu": ""}),
    ("Memory, GiB", {"machine_memory": ""}),
    ("GPUs, % of the time", {"machine_gpu": ""}),
    ("GPU memory, GiB", {"machine_gpu_memory": ""}),
    ("Disk, MB/s", {"machine_read": "read", "machine_written": "written"}),
    ("Free disk, GiB", {"machine_free": ""}),
    ("Network, MB/s", {"machine_sent": "sent", "machine_received": "received"}),
)


def use_charts(found: Mapping[str, Use], groups: Groups) -> list[Chart]:
    """Returns the charts for which there are values; a line for each machine and measure."""
    drawn = []
    for title, names in groups:
        lines = {
            f"{host} {word}".strip() if len(found) > 1 or not word else word: [
                (at, value / MEASURES[name].scale) for at, value in use.curves[name]
            ]
            for host, use in found.items()
            for name, word in names.items()
            if name in use.curves
        }
        greatest = sorted(lines, key=lambda name: -max(value for _, value in lines[name]))[:LINES]
        chart = time_chart(title, {name: lines[name] for name in lines if name in greatest})
        drawn += [chart] if chart is not None else []
    return drawn
