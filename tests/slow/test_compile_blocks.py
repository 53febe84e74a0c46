"""Context managers around a compiled network, in separate processes, so that earlier compilations do not matter."""

import subprocess
import sys

import pytest

START = """
import threading, torch, squad
from torch import nn
net = nn.Sequential(squad.SquadLinear(6, 4), squad.GaussianLinear(4, 3), nn.Linear(3, 2))
compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
x = torch.randn(5, 6)
"""

CASES = {
    "a call without a block, then its KL": """
compiled(x)
with squad.collect_kl() as kls:
    compiled(x)
assert len(kls) == 2, len(kls)
compiled(x)
assert len(kls) == 2, len(kls)
""",
    "a call without a block, then other samples": """
net.eval()
first = compiled(x)
for index in range(20):
    with squad.sample_index(index):
        torch.testing.assert_close(compiled(x), net(x))
        assert (index == 0) == torch.equal(compiled(x), first), index
torch.testing.assert_close(compiled(x), first)
""",
    "many layers and many calls in one block": """
layers = [squad.SquadLinear(6, 6) for _ in range(12)]
for layer in layers:
    layer.compile(fullgraph=True, backend="aot_eager")
with squad.collect_kl() as kls:
    nn.Sequential(*layers)(x)
    for _ in range(12):
        compiled(x)
assert len(kls) == 12 + 2 * 12, len(kls)
assert all(kl.shape == (5,) for kl in kls)
""",
    "another thread": """
compiled(x)
found = []
def serve():
    with squad.collect_kl() as kls:
        compiled(x)
    found.append(len(kls))
thread = threading.Thread(target=serve)
thread.start()
thread.join()
assert found == [2], found
""",
    "the divergence of posterior and prior": """
layer = squad.SquadLinear(6, 4, learn_values="per_neuron")
def rate(x):
    return torch.distributions.kl_divergence(layer.posterior(x), layer.prior)
torch.testing.assert_close(torch.compile(rate, fullgraph=True, backend="aot_eager")(x), rate(x))
""",
}


@pytest.mark.parametrize("name", CASES)
def test_in_a_fresh_process(name: str) -> None:
    run = subprocess.run([sys.executable, "-c", START + CASES[name]], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
