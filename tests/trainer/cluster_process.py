"""Owns one Ray cluster: starts it, says where it is, kills a pool's node on request, ends it when nobody asks any more.

cluster_process.py PLACEMENT_JSON [warm]    stdin: pool names, one a line    stdout: one line for each answer
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ray._private import workers
from ray.cluster_utils import Cluster

from split_ppo.placement.plan import PlacementPlan
from split_ppo_trainer import warm, warm_worker
from split_ppo_trainer.leftovers import Estate
from split_ppo_trainer.ray_start import AGENT_PORTS, free_ports, start_patiently
from split_ppo_trainer.supervisor import die_with_parent

OBJECT_STORE = 128 << 20


def main() -> None:
    placement, warmly = PlacementPlan.model_validate_json(sys.argv[1]), sys.argv[2:] == ["warm"]
    answers, sys.stdout = sys.stdout, sys.stderr  # what Ray prints is not an answer
    die_with_parent()
    estate = Estate.found(owner=os.getpid())
    os.environ |= estate.environment
    options = start_warm(estate.folder) if warmly else {}
    try:
        cluster, nodes = start(placement, options)
        head = cluster.head_node
        metrics = f"http://{head.node_ip_address}:{head.metrics_export_port}/metrics"
        print(json.dumps({"address": cluster.address, "metrics": metrics}), file=answers, flush=True)
        for line in sys.stdin:
            pool = line.strip()
            cluster.remove_node(nodes[pool].pop(), allow_graceful=False)
            print(f"lost {pool}", file=answers, flush=True)
        estate.note_shared_memory()
        cluster.shutdown()
    finally:
        estate.end()


def start(placement: PlacementPlan, options: dict[str, Any]) -> tuple[Cluster, dict[str, list[Any]]]:
    common = {"wait": False, "object_store_memory": OBJECT_STORE, "include_dashboard": False, **options}
    start_patiently()
    cluster = Cluster()

    def add(**size: Any) -> Any:
        return cluster.add_node(**size, **common, **dict(zip(AGENT_PORTS, free_ports(len(AGENT_PORTS)), strict=True)))

    add(num_cpus=4, num_gpus=0)
    nodes: dict[str, list[Any]] = {pool.name: [] for pool in placement.pools}
    for pool in placement.pools:
        for gpus in pool.gpus:
            nodes[pool.name].append(add(num_cpus=3 * gpus + 1, num_gpus=gpus, resources={pool.resource: gpus}))
    cluster.wait_for_nodes()
    return cluster, nodes


def start_warm(folder: Path) -> dict[str, str]:
    os.environ[warm_worker.SOCKET] = str(folder / "warm")
    os.environ[warm_worker.FALLBACK] = str(Path(workers.__file__).with_name("setup_worker.py"))
    os.environ[warm_worker.JOB] = warm.FIRST_JOB
    subprocess.Popen(
        [sys.executable, "-m", warm.__name__, str(folder / "warm")],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        env={**os.environ, "RAY_JOB_ID": warm.FIRST_JOB, "RAY_RAYLET_PID": str(os.getpid())},
        preexec_fn=die_with_parent,
    )
    return {"setup_worker_path": warm_worker.__file__}


if __name__ == "__main__":
    main()
