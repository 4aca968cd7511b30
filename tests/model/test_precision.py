"""What a machine's number format is decided from: its instructions, and a layer that has no kernel counts."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn

from dragoman.model import precision
from dragoman.model.precision import cannot_run, decide

CPU = torch.device("cpu")
PRODUCTS, LSTM = nn.Linear(2, 2), nn.LSTM(2, 2)


@pytest.fixture
def has(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives the processor these instruction sets."""
    for name in precision.LIMITS:
        monkeypatch.delenv(name, raising=False)
    return lambda *names: monkeypatch.setattr(precision, "instruction_sets", lambda: list(names))


@pytest.mark.parametrize(
    ("names", "choice"),
    [(("avx512f", "avx512_bf16"), "bf16"), (("amx_tile", "amx_bf16"), "bf16"), (("avx2", "avx512f"), "fp32")],
)
def test_the_instructions_decide(has: Callable[..., None], names: tuple[str, ...], choice: str) -> None:
    has(*names)
    decision = decide(PRODUCTS, CPU)
    assert decision.precision == choice
    assert decision.because.endswith(names[-1] if choice == "bf16" else "no instructions for bf16")


@pytest.mark.parametrize(("limit", "choice"), [("AVX2", "fp32"), ("AVX512_CORE_BF16", "bf16"), ("ALL", "bf16")])
def test_a_limit_of_onednn_counts(
    has: Callable[..., None], monkeypatch: pytest.MonkeyPatch, limit: str, choice: str
) -> None:
    has("avx512_bf16")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert decide(PRODUCTS, CPU).precision == choice


def test_a_layer_without_a_kernel_decides_for_fp32(has: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    has("avx512_bf16")

    def forward(*_: object) -> None:
        raise RuntimeError("could not create a primitive. Run with ONEDNN_VERBOSE=all")

    monkeypatch.setattr(nn.LSTM, "forward", forward)
    assert decide(PRODUCTS, CPU).precision == "bf16"
    decision = decide(LSTM, CPU)
    assert decision.precision == "fp32"
    assert decision.because.endswith("has no bf16 kernel for LSTM layers (could not create a primitive)")


def test_trying_leaves_threads_and_random_numbers_alone() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    assert cannot_run(LSTM, "fp32", CPU) is None
    assert torch.get_num_threads() == threads and torch.equal(torch.get_rng_state(), state)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="oneDNN's limits name x86 instruction sets")
@pytest.mark.long
def test_a_processor_without_avx512_trains_in_fp32() -> None:
    code = (
        "import torch; from torch import nn\n"
        "from dragoman.model.precision import decide\n"
        "for layer in (nn.Linear(2, 2), nn.LSTM(2, 2)):\n"
        "    print(decide(layer, torch.device('cpu')))\n"
    )
    limits = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **limits},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout
    products, recurrent = out.splitlines()
    assert "'fp32'" in products and "no instructions for bf16" in products
    assert "'fp32'" in recurrent and "no bf16 kernel for LSTM layers" in recurrent
