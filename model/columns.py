"""Tables for a terminal."""

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[object]], right: bool = False) -> list[str]:
    """Returns the rows as aligned lines; `right`: all columns but the first stand to the right."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    sides = ["<", *">" * (len(widths) - 1)] if right else ["<"] * len(widths)
    cells = [[f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)] for row in texts]
    return ["  ".join(row).rstrip() for row in cells]
