"""torch's compiler stays out of a training, and comes when it is asked for."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from pipelines.training.uncompiled import leave_compiler_out

leave_compiler_out()
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
network = torch.nn.Linear(3, 3)
model = torch.nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
optimizer = torch.optim.AdamW(network.parameters())
model(torch.ones(2, 3)).sum().backward()
optimizer.step()
optimizer.zero_grad()
torch.testing.assert_close(torch.ones(1), torch.ones(1))  # imports much of torch, which looks at every module's file
loaded = [name for name in sys.modules if name.startswith("torch._dynamo.")]
assert not loaded, loaded
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item() == 2
assert "torch._dynamo.eval_frame" in sys.modules
"""


def test_a_step_of_ddp_loads_no_compiler_and_compiling_still_works(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path / "store")],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
