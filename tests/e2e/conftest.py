"""One site for the whole mission: two real nodes, KubeRay, and split-ppo installed by its chart from its own image.

What each test saw (`kubectl get sppo -w` while it ran, `kubectl describe` at its end) is kept in a folder whose path is
printed; `--record FILE` writes a table of the last results with dates and durations for the documentation.
"""

import json
import os
import platform
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cluster.charts import CHART, Release
from cluster.operators import JOBS, phase
from cluster.test_clean_up import Host, processes_of
from cluster.test_training import environment, project
from e2e.training import Training, Volumes
from testbed import cache, images, needs
from testbed.api import Manifest
from testbed.cluster import Cluster, Namespace, find_kubectl
from testbed.local import LocalCluster
from testbed.node import NodeSpec

__all__ = ["environment", "project"]  # fixtures

SYSTEM = "split-ppo-system"
HERE = Path(__file__).parent
KNOWN = HERE.parents[1] / "benchmarks/results/e2e.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", metavar="FILE", help="write the results as a table to this file")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(1800))


@dataclass
class Site:
    cluster: LocalCluster
    release: Release
    before: Host
    _open: ExitStack = field(repr=False)

    def close(self) -> None:
        self._open.close()

    def left_behind(self) -> dict[str, object]:
        """What there is on the machine that was not there before, by kind."""
        after, name = vars(Host(self.cluster.run.name)), self.cluster.run.name
        changed = {kind: found for kind, found in after.items() if found != vars(self.before)[kind]}
        return changed | ({"processes": found} if (found := processes_of(name)) else {})


def values() -> dict[str, object]:
    """The chart's values that say where the operator's image is; all else is the default."""
    repository, _, tag = images.operator().tag.rpartition(":")
    return {"image": {"repository": repository, "tag": tag, "pullPolicy": "Never"}}


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    if reason := needs.reason_against(nodes=True):
        pytest.skip(reason)
    needs.require(nodes=True)
    before = Host("")
    with ExitStack() as stack:
        racks = [NodeSpec(gpus=2, labels={"split-ppo.test/rack": rack}) for rack in "ab"]
        cluster = stack.enter_context(LocalCluster.start(nodes=racks))
        cluster.load_image(images.operator().archive)
        release = Release(cluster, SYSTEM)
        release.install(CHART, values(), "--create-namespace", "--wait", "--timeout", "5m")
        yield Site(cluster, release, before, stack)


@pytest.fixture(scope="session")
def kept(request: pytest.FixtureRequest) -> Path:
    folder = cache.root() / "e2e" / datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    folder.mkdir(parents=True)
    request.config.stash[KEPT] = folder
    return folder


@pytest.fixture
def ml(site: Site, kept: Path, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    """A user's namespace, `restricted`, watched like a user would."""
    name = request.node.name.removeprefix("test_").replace("_", "-").split("[")[0][:40].rstrip("-")
    made = site.cluster.make_namespace(
        f"{name}-{secrets.token_hex(2)}", labels={"pod-security.kubernetes.io/enforce": "restricted"}
    )
    with watched(site.cluster, made, kept / f"{request.node.name}.txt"):
        yield made
    made.remove()


class watched:
    """`kubectl get sppo -w` into a file, and `kubectl describe` after it."""

    def __init__(self, cluster: Cluster, namespace: Namespace, file: Path) -> None:
        self.cluster, self.namespace, self.file = cluster, namespace, file

    def __enter__(self) -> None:
        command = [str(find_kubectl()), "--kubeconfig", str(self.cluster.kubeconfig), "-n", self.namespace.name]
        self.file.write_text("$ kubectl get sppo -w\n")
        with self.file.open("a") as out:
            self.process = subprocess.Popen([*command, "get", "sppo", "-w"], stdout=out, stderr=out)

    def __exit__(self, *_: object) -> None:
        ends = {phase(job) for job in self.namespace.find(JOBS)}
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and not all(end in self.file.read_text() for end in ends):
            time.sleep(0.1)  # kubectl hears of the end as we do, but may be a moment later
        self.process.terminate()
        self.process.wait()
        described = self.cluster.kubectl("describe", "sppo", "-n", self.namespace.name, check=False)
        with self.file.open("a") as out:
            out.write(f"\n$ kubectl describe sppo\n{described}")


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """The folder of this machine behind the claim for checkpoints."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@pytest.fixture
def train(ml: Namespace, environment: Path, project: Path, checkpoints: Path) -> Callable[..., Training]:
    """`train(name, changes)` is `kubectl apply` of the quickstart, with the changes to its spec that a test needs."""
    volumes = Volumes(environment, project, checkpoints)

    def apply(name: str = "quickstart", changes: dict[str, Any] | None = None, *others: Manifest) -> Training:
        return Training.apply(ml, volumes, name, changes or {}, *others)

    return apply


BEGAN = f"{datetime.now(UTC):%Y-%m-%dT%H:%M}"
KEPT = pytest.StashKey[Path]()
RESULTS = pytest.StashKey[dict[str, dict[str, Any]]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.when == "call" or report.outcome != "passed":
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        line = (item.obj.__doc__ or item.name).strip().splitlines()[0]  # type: ignore[attr-defined]
        item.config.stash.setdefault(RESULTS, {})[item.name] = {
            "shown": line + (f" ({item.callspec.id})" if hasattr(item, "callspec") else ""),
            "outcome": f"{report.outcome}: {why}" if why else report.outcome,
            "seconds": round(report.duration, 1),
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "run": BEGAN,
        }
    return report  # type: ignore[return-value]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if KEPT in config.stash:
        terminalreporter.write_line(f"What the tests saw is kept in {config.stash[KEPT]}")
    if (file := config.getoption("--record")) and (results := config.stash.get(RESULTS, {})):
        known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
        known |= results
        KNOWN.write_text(json.dumps(known, indent=2) + "\n")
        Path(file).write_text(table(known))
        terminalreporter.write_line(f"The results are written to {file}")


def table(results: dict[str, dict[str, Any]]) -> str:
    """The last result of each test; a part of them may have been run later than the rest."""
    total = cache.spell(sum(found["seconds"] for found in results.values()))
    passed = sum(found["outcome"] == "passed" for found in results.values())
    runs = {found["run"] for found in results.values()}
    of = "All of one run." if len(runs) == 1 else "Each row is that test's own last result: they are not of one run."
    lines = [
        "# The mission, as last run",
        "",
        f"`make e2e`, on Linux {platform.machine()} with {len(os.sched_getaffinity(0))} cores and two real nodes: {passed} of "
        f"{len(results)} passed when last run, {total} of tests in all. {of}",
        "",
        "| what was shown | result | took | when |",
        "|---|---|---|---|",
    ]
    for found in results.values():
        took = cache.spell(found["seconds"])
        lines.append(f"| {found['shown']} | {found['outcome']} | {took} | {found['date']} |")
    return "\n".join([*lines, ""])
