"""Whatever a spec says, reading it, checking it and planning for it ends in a job, a finding or a validation error."""

import json
import os
import random

from pydantic import ValidationError

from chaos.specs import generated_job
from snapshots import NOW
from split_ppo.api.job import parse_job
from split_ppo.placement.checks import check_job
from split_ppo_operator.plan import plan
from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.status import build_status

COUNT = int(os.environ.get("SPLIT_PPO_CHAOS_SPECS", "400"))


def test_no_spec_breaks_the_decision() -> None:
    seed = int(os.environ.get("SPLIT_PPO_CHAOS_SEED", "1"))
    print(f"SPLIT_PPO_CHAOS_SEED={seed}")
    rng = random.Random(seed)
    sound = 0
    for number in range(COUNT):
        document = generated_job(rng, f"job-{number}")
        document["metadata"] |= {"uid": "u", "namespace": "team", "generation": 1}
        try:
            job = parse_job(document)
        except ValidationError:
            continue
        snapshot = Snapshot(job=job, plan=check_job(job))
        verdict = plan(snapshot, NOW)
        status = build_status(snapshot, verdict, NOW)
        json.dumps([verdict.actions, status], default=vars)
        assert verdict.accepted == (not snapshot.plan.findings)
        assert verdict.message
        sound += verdict.accepted
    assert sound > COUNT / 20, "some of them are jobs that work"
