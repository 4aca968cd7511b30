"""Disk usage of a service's folders: dragoman_disk_free_bytes and dragoman_disk_size_bytes."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric


def disks(folders: Mapping[str, Path]) -> Iterable[Metric]:
    """Yields the metrics of these folders' file systems by our names; a missing folder counts as its parent."""
    free = GaugeMetricFamily("dragoman_disk_free_bytes", "Free on the file system of a folder", labels=["folder"])
    size = GaugeMetricFamily("dragoman_disk_size_bytes", "Size of the file system of a folder", labels=["folder"])
    for name, folder in folders.items():
        place = next((path for path in (folder.absolute(), *folder.absolute().parents) if path.exists()), None)
        if place is not None:
            usage = shutil.disk_usage(place)
            free.add_metric([name], usage.free)
            size.add_metric([name], usage.total)
    yield free
    yield size
