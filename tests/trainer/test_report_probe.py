"""`split-ppo advise --probe` and `compare` on runs that really happened."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from split_ppo.compare.run_record import read_run
from split_ppo.compare.timeline import timeline

pytestmark = [pytest.mark.trainer, pytest.mark.slow]

JOB = """\
apiVersion: splitppo.io/v1alpha1
kind: SplitPPOJob
metadata: {name: probed}
spec:
  placement:
    device: CPU
    pools: {actor: {gpusPerNode: 1}, critic: {gpusPerNode: 1}}
  training:
    model: {actor: toy://digits/model}
    data: {train: [toy://digits/train.parquet], maxPromptLength: 64, maxResponseLength: 8}
    reward: {function: {path: toy://digits/reward.py}}
    batchSize: 8
    miniBatchSize: 8
    microBatchSizePerGPU: 4
    learningRate: {actor: 1e-3, critic: 1e-3}
    steps: 100
    config: {actor_rollout_ref: {rollout: {max_model_len: 128, max_num_seqs: 16}}}
"""


def test_a_probe_measures_both_placements_and_advises(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    command = [sys.executable, "-m", "split_ppo", "advise", "--probe", "job.yaml", "--steps", "5", "-o", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    advice = json.loads(done.stdout)
    assert advice["measured"] == "actor 1 + critic 1"
    assert {p["split"] for p in advice["predictions"]} == {"actor 1 + critic 1", "Colocated 2"}

    folders = [tmp_path / "runs/probe-probed" / name for name in ("as-it-is", "one-pool")]
    split, one_pool = (read_run(folder) for folder in folders)
    assert (len(split.steps), split.title, one_pool.title) == (5, "actor 1 + critic 1, NextGeneration", "Colocated 2")
    drawn = timeline(split)
    assert drawn is not None
    for lane in drawn.lanes:
        assert 0 < lane.idle_share < 1
        ends = [piece.end for piece in lane.pieces]
        # A pool's pieces follow each other; what a worker timed may touch what the driver timed.
        assert all(end <= later.begin + 0.05 for end, later in zip(ends, lane.pieces[1:], strict=False))
    assert {piece.name for piece in drawn.lanes[1].pieces} == {"values", "update_critic"}

    command = [
        sys.executable,
        "-m",
        "split_ppo",
        "compare",
        *map(str, folders),
        "--html",
        str(tmp_path / "report.html"),
    ]
    compared = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "was faster than" in compared
    assert "memory, GB" in compared
    assert (tmp_path / "report.html").read_text().count('class="timeline"') == 2
