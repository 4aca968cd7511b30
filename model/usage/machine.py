"""Reads what this machine uses: processors, memory, disks, network."""

from pathlib import Path

import psutil

LOOPBACK = "lo"


def machine(folder: Path) -> dict[str, float]:
    """Returns percentages 0 to 100, bytes, and bytes counted since the machine's start; `folder`: whose disk's room.

    `cpu` is the mean since the last call. Of the network the loopback interface is left out.
    """
    memory, disks = psutil.virtual_memory(), psutil.disk_io_counters()
    cards = [card for name, card in psutil.net_io_counters(pernic=True).items() if name != LOOPBACK]
    return {
        "cpu": psutil.cpu_percent(),
        "memory": memory.total - memory.available,
        "memory_total": memory.total,
        "read": disks.read_bytes if disks else 0,
        "written": disks.write_bytes if disks else 0,
        "free": psutil.disk_usage(str(folder)).free,
        "sent": sum(card.bytes_sent for card in cards),
        "received": sum(card.bytes_recv for card in cards),
    }
