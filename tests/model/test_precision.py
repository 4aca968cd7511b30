"""What a machine's number format is decided from: measured once, kept, and a layer that has no kernel counts."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from dragoman.model import precision
from dragoman.model.precision import Rates, cannot_run, decide, kept_rates

CPU = torch.device("cpu")
PRODUCTS, LSTM = nn.Linear(2, 2), nn.LSTM(2, 2)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Rates]:
    """What `measure` answered, in order; each answer is another one."""
    answers: list[Rates] = []

    def measure() -> Rates:
        answers.append(Rates(50.0, 100.0 + len(answers)))
        return answers[-1]

    monkeypatch.setattr(precision, "measure", measure)
    return answers


def test_a_machine_is_measured_once(tmp_path: Path, measured: list[Rates]) -> None:
    assert kept_rates(tmp_path) == kept_rates(tmp_path) == Rates(50.0, 100.0)
    assert len(measured) == 1


def test_whoever_only_asks_leaves_no_file(tmp_path: Path, measured: list[Rates]) -> None:
    kept_rates(tmp_path, keep=False)
    assert not list(tmp_path.iterdir())


def test_another_limit_on_the_instructions_is_another_machine(
    tmp_path: Path, measured: list[Rates], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    kept_rates(tmp_path)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert kept_rates(tmp_path) == Rates(50.0, 101.0)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    assert kept_rates(tmp_path) == Rates(50.0, 100.0)


def test_a_damaged_record_is_measured_again(tmp_path: Path, measured: list[Rates]) -> None:
    kept_rates(tmp_path)
    (record,) = tmp_path.rglob("*.json")
    record.write_text(json.dumps({"gflops": None}), encoding="utf-8")
    assert kept_rates(tmp_path) == kept_rates(tmp_path) == Rates(50.0, 101.0)


@pytest.mark.parametrize(("bf16", "choice"), [(100.0, "bf16"), (51.0, "fp32"), (2.0, "fp32")])
def test_bf16_is_taken_where_it_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bf16: float, choice: str) -> None:
    monkeypatch.setattr(precision, "measure", lambda: Rates(50.0, bf16))
    decision = decide(PRODUCTS, CPU, tmp_path)
    assert decision.precision == choice
    assert decision.because == f"{bf16:.0f} Gflop/s per core in bf16, 50 in fp32"


def test_a_layer_without_a_kernel_decides_for_fp32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "measure", lambda: Rates(50.0, 100.0))

    def forward(*_: object) -> None:
        raise RuntimeError("could not create a primitive. Run with ONEDNN_VERBOSE=all")

    monkeypatch.setattr(nn.LSTM, "forward", forward)
    assert decide(PRODUCTS, CPU, tmp_path).precision == "bf16"
    decision = decide(LSTM, CPU, tmp_path)
    assert decision.precision == "fp32"
    assert decision.because.endswith("has no bf16 kernel for LSTM layers (could not create a primitive)")


def test_trying_and_measuring_leave_threads_and_random_numbers_alone() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    rates = precision.measure()
    assert rates.fp32 > 0 and rates.bf16 > 0
    assert cannot_run(LSTM, "fp32", CPU) is None
    assert torch.get_num_threads() == threads and torch.equal(torch.get_rng_state(), state)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="oneDNN's limits name x86 instruction sets")
@pytest.mark.long
def test_a_processor_without_avx512_trains_in_fp32(tmp_path: Path) -> None:
    code = (
        "import sys, torch; from pathlib import Path; from torch import nn\n"
        "from dragoman.model.precision import decide\n"
        "for layer in (nn.Linear(2, 2), nn.LSTM(2, 2)):\n"
        "    print(decide(layer, torch.device('cpu'), Path(sys.argv[1])))\n"
    )
    limits = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, **limits},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout
    products, recurrent = out.splitlines()
    assert "'fp32'" in products and "Gflop/s per core in bf16" in products
    assert "'fp32'" in recurrent and "no bf16 kernel for LSTM layers" in recurrent
