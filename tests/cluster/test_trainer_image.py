"""The trainer's image as it is built, in pods: `make test-image-trainer-cpu`. Its 7 GB are too much for every test run."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cluster.operators import JOBS, install_crd, phase, running_operator
from split_ppo.api.generate import ROOT
from testbed import cache, needs
from testbed.api import Manifest
from testbed.cluster import Namespace
from testbed.local import LocalCluster

pytestmark = [pytest.mark.slow, pytest.mark.nodes, pytest.mark.timeout(3000)]
STEPS = 5


@pytest.fixture
def image(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """Its name and the archive it is in."""
    given = os.environ.get("SPLIT_PPO_TRAINER_IMAGE"), os.environ.get("SPLIT_PPO_TRAINER_ARCHIVE")
    if not (given[0] and given[1]):
        pytest.skip("no image given: `make test-image-trainer-cpu` builds and gives one")
    return given[0], Path(given[1]).resolve()


@pytest.fixture
def namespace_with_image(image: tuple[str, Path], tmp_path: Path) -> Iterator[Namespace]:
    if reason := needs.reason_against(nodes=True):
        pytest.skip(reason)
    with LocalCluster.start(nodes=1) as cluster:
        began = time.monotonic()
        cluster.load_image(image[1])
        print(f"The node took {cache.spell(time.monotonic() - began)} to unpack the image.")
        install_crd(cluster)
        with running_operator(cluster, tmp_path / "log"):
            yield cluster.make_namespace("ml", labels={"pod-security.kubernetes.io/enforce": "restricted"})


def test_the_quickstart_trains_in_it(image: tuple[str, Path], namespace_with_image: Namespace) -> None:
    """The example as it is, but for the image's name and fewer steps; no volume of any kind."""
    job: Manifest = yaml.safe_load((ROOT / "examples/quickstart-cpu.yaml").read_text())
    job["spec"] |= {"image": image[0], "imagePullPolicy": "Never"}
    # PyYAML takes 1e-3 for a text; kubectl and split-ppo do not.
    job["spec"]["training"] |= {"steps": STEPS, "learningRate": {"actor": 1e-3, "critic": 1e-3}}
    began = time.monotonic()
    namespace_with_image.apply(job)
    done = namespace_with_image.wait(
        JOBS, "quickstart", lambda j: phase(j) in ("Succeeded", "Failed"), within=900, what="the training to end"
    )
    assert phase(done) == "Succeeded", done["status"]
    assert done["status"]["training"]["progress"] == f"{STEPS}/{STEPS}"
    print(f"From apply to Succeeded, {STEPS} steps: {cache.spell(time.monotonic() - began)}.")
