"""What sanitizers cost on this machine: PYTHONPATH=. python benchmarks/sanitizers.py [rounds]

Our SM100 and SM90 MLA decodes: fp16, 128 heads, one request of 512 tokens; SM90 in splits and with their combine. A
round launches each once without sanitizers, with all of them, and with each alone, so that other work on the machine
slows all alike. CPU time of this process, the least of the rounds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from workloads.mla import Mla

from sglab import gpu
from sglab.emulator.sanitizers import DETECTORS
from sglab.gpu import Launch
from sglab.kernels.mla import MlaSm90
from sglab.kernels.mla.arguments import check
from sglab.planning.mla_sm90 import mla_sm90_plan

HEADS, LATENT, ROPE, PAGE, TOKENS = 128, 512, 64, 64, 512
WAYS: dict[str, bool | list[str]] = {"plain": False, "all": True} | {name: [name] for name in DETECTORS}


def sm90(device: gpu.EmulatedDevice) -> list[Launch]:
    random = torch.Generator().manual_seed(0)
    q_nope, q_pe, cache = (
        torch.randn(*shape, generator=random).half()
        for shape in ((1, HEADS, LATENT), (1, HEADS, ROPE), (TOKENS // PAGE, PAGE, LATENT + ROPE))
    )
    table = torch.randperm(TOKENS // PAGE, generator=random)[None].int()
    plan = mla_sm90_plan([TOKENS], num_heads=HEADS, sm_count=132)
    arguments = check("benchmark", q_nope, q_pe, cache, table, (128 + ROPE) ** -0.5, None, None, "e")
    return MlaSm90(device, plan, HEADS).prepare(arguments)


def launcher(arch: str, sanitize: bool | list[str]) -> Callable[[], object]:
    device = gpu.EmulatedDevice(f"{arch}a", sanitize=sanitize)
    if arch == "sm_100":
        mla = Mla([TOKENS])
        return lambda: mla.launch(device)
    launches = sm90(device)

    def launch() -> object:
        found = [str(finding) for each in launches for finding in device.run(each).findings]
        assert not found, found
        return found

    return launch


def measured(arch: str, rounds: int) -> dict[str, float]:
    """Milliseconds by way."""
    launches = {name: launcher(arch, sanitize) for name, sanitize in WAYS.items()}
    least = dict.fromkeys(WAYS, float("inf"))
    for _ in range(rounds + 1):
        for name, launch in launches.items():
            start = time.process_time()
            launch()
            least[name] = min(least[name], 1e3 * (time.process_time() - start))
    return least


def main() -> None:
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    print(f"{'':8}" + "".join(f"{name:>10}" for name in WAYS) + f"{'all/plain':>11}")
    for arch in ("sm_100", "sm_90"):
        times = measured(arch, rounds)
        row = "".join(f"{times[name]:7.2f} ms" for name in WAYS)
        print(f"{arch:8}{row}{times['all'] / times['plain']:11.2f}")


if __name__ == "__main__":
    main()
