"""Do two cores of this machine compute twice as fast as one?

Pools that share caches, memory or a physical core slow each other down as GPUs in a rack would not; no overlap can win that back.
So it is measured beside the benchmark: matrix products on one core alone, and on two at once.
"""

import os
import subprocess
import sys
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
