"""What this machine does to a measurement.

Do two cores compute twice as fast as one? Pools that share caches, memory or a physical core slow each other down as GPUs in a
rack would not; no overlap can win that back. So it is measured before each round: matrix products on one core alone, and on two
at once.

And how much of the cores did a run not get? On a virtual machine others may be given their time; the kernel counts it.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

SECONDS = 2.0
LOOP = f"""
import os, sys, time
os.sched_setaffinity(0, {{int(sys.argv[1])}})
import torch
torch.set_num_threads(1)
matrix, count, end = torch.rand(512, 512), 0, time.perf_counter() + {SECONDS}
while time.perf_counter() < end:
    matrix @ matrix
    count += 1
print(count)
"""


def together_over_alone() -> float:
    """Seconds of the same work while the other core works too ÷ alone; 1 at best."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    alone, together = [], []
    for _ in range(3):
        alone += [products([core])[0] for core in cores]
        together += products(cores)
    return median(alone) / median(together)


def products(cores: list[int]) -> list[int]:
    """Products done on each of these cores at the same time."""
    running = [
        subprocess.Popen([sys.executable, "-c", LOOP, str(core)], stdout=subprocess.PIPE, text=True) for core in cores
    ]
    return [int(process.communicate()[0]) for process in running]


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
