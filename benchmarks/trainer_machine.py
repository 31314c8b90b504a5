"""What this machine does to a measurement.

Do two cores train twice as fast as one? Pools that share caches, memory or a physical core slow each other down as GPUs in a
rack would not; no overlap can win that back. So it is measured before each round: training steps of a plain network as large as
the benchmark's model, on one core alone, and on two at once. Small products that stay in a core's own cache would not show it.

And how much of the cores did a run not get? On a virtual machine others may be given their time; the kernel counts it.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from subprocess import PIPE

SECONDS = 5.0
LOOP = f"""
import os, sys, time
os.sched_setaffinity(0, {{int(sys.argv[1])}})
import torch
torch.set_num_threads(1)
layers = [torch.nn.Linear(*shape) for _ in range(12) for shape in ((640, 1920), (1920, 640))]  # 30 million parameters
network, rows = torch.nn.Sequential(*layers), torch.rand(512, 640)
optimiser = torch.optim.AdamW(network.parameters())
def step():
    network(rows).square().mean().backward()
    optimiser.step()
    optimiser.zero_grad()
step()
print("ready", flush=True)
input()  # all begin together, however long each took to import torch
count, start = 0, time.perf_counter()
while (spent := time.perf_counter() - start) < {SECONDS}:
    step()
    count += 1
print(count / spent)
"""


def together_over_alone() -> float:
    """Seconds of the same work while the other core works too ÷ alone; 1 at best."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    alone, together = [], []
    for _ in range(3):
        alone += [steps_per_second([core])[0] for core in cores]
        together += steps_per_second(cores)
    return median(alone) / median(together)


def steps_per_second(cores: list[int]) -> list[float]:
    """Of each of these cores, all working at the same time."""
    running = [
        subprocess.Popen([sys.executable, "-c", LOOP, str(core)], stdin=PIPE, stdout=PIPE, text=True) for core in cores
    ]
    for process in running:
        process.stdout.readline()
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    return [float(process.communicate()[0]) for process in running]


def stolen_since() -> Callable[[], float]:
    """Asked later, the share of the cores' working time that was given to other machines since now."""
    before = _stat()
    return lambda: stolen_share(before, _stat())


def stolen_share(before: str, after: str) -> float:
    """Between two texts of /proc/stat. Pure."""
    (worked, stolen), (worked_then, stolen_then) = _ticks(after), _ticks(before)
    lost = stolen - stolen_then
    return lost / max(worked - worked_then + lost, 1)


def _stat() -> str:
    return Path("/proc/stat").read_text()


def _ticks(stat: str) -> tuple[int, int]:
    """Working, and stolen, of all cores."""
    user, nice, system, _idle, _iowait, irq, softirq, stolen = map(int, stat.splitlines()[0].split()[1:9])
    return user + nice + system + irq + softirq, stolen
