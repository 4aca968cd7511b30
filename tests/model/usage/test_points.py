"""The file of samples is bounded, and keeps the newest samples, the peaks and the totals."""

import json
from itertools import pairwise
from pathlib import Path

from dragoman.model.usage.points import MOST, PointsFile, read_points, thin


def test_a_week_of_samples_is_thinned_evenly_and_the_newest_stay_fine(tmp_path: Path) -> None:
    path = tmp_path / "a1.usage-here"
    file = PointsFile(path)
    count = 20_000
    for number in range(count):
        peak = 1e9 if number == 777 else 1e6
        file.add({"at": 1e9 + 5 * number, "cpu": 2.0 * number, "memory": peak, "gpu": float(number % 2 * 100)})
    found = read_points(path)
    assert len(found) <= MOST
    assert [one["at"] for one in found] == sorted(one["at"] for one in file.points)
    assert found[-1] == {"at": 1e9 + 5 * (count - 1), "cpu": 2.0 * (count - 1), "memory": 1e6, "gpu": 100.0}
    assert max(one["memory"] for one in found) == 1e9
    spans = [after["at"] - before["at"] for before, after in pairwise(found)]
    assert spans[-1] == 5.0
    assert max(spans) <= 5 * count / (MOST // 8)
    coarse = [one for one, span in zip(found[1:], spans, strict=True) if span > 100]
    assert all(abs(one["gpu"] - 50.0) < 2 for one in coarse)  # means


def test_damaged_lines_foreign_fields_and_too_many_points_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a1.usage-here"
    lines = [
        '{"at": 1, "cpu": 1}',
        "not json",
        '{"cpu": 5}',
        '{"at": 0.5, "cpu": 7}',
        '{"at": 2, "cpu": "x", "memory": NaN}',
    ]
    path.write_text("\n".join(lines) + "\n" + "".join(json.dumps({"at": 3 + n}) + "\n" for n in range(5000)))
    found = read_points(path)
    assert len(found) <= MOST
    assert found[0]["at"] >= 1.0
    assert read_points(tmp_path / "none") == []
    few = [{"at": 1.0}, {"at": 2.0}]
    assert thin(few) == few
