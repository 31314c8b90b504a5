"""Sinks: whole lines in the files, the job's status by server-side apply, and no sink ends a run."""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy
import pytest

from run_folders import SECONDS, run_plan
from split_ppo.api.status import SplitPPOJobStatus
from split_ppo.runplan import RunBalance
from split_ppo_trainer.kubernetes_status import KubernetesStatus
from split_ppo_trainer.progress import JsonlFiles, Progress, StepReport, keep_metrics_until, last_error
from split_ppo_trainer.recommendation import Recommender, balance_status

METRICS = {
    "critic/score/mean": numpy.float32(0.25),
    "timing_s/gen": 1.5,
    "timing_s/step": 4.0,
    "split/overlap_efficiency": 0.8,
    "odd": float("nan"),
}


def report(step: int, checkpoint: str | None = None) -> StepReport:
    return StepReport(step, 20, METRICS, checkpoint)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_files_hold_one_whole_line_for_each_thing(tmp_path: Path) -> None:
    progress = Progress([JsonlFiles(tmp_path)])
    progress.stage("training", "Training 20 steps.")
    progress.step(report(3, "/ckpt/global_step_2"))
    progress.error("DiskFull", "The disk is full.")
    events, (metrics,) = lines(tmp_path / "events.jsonl"), lines(tmp_path / "metrics.jsonl")
    assert [event["event"] for event in events] == ["stage", "step", "error"]
    assert events[1]["seconds"] == {"gen": 1.5, "step": 4.0}
    assert (events[1]["step"], events[1]["total_steps"], events[1]["reward"]) == (3, 20, 0.25)
    assert (events[1]["overlap_efficiency"], events[1]["checkpoint"]) == (0.8, "/ckpt/global_step_2")
    assert metrics["metrics"]["critic/score/mean"] == 0.25
    assert metrics["metrics"]["odd"] == "nan"
    assert last_error(tmp_path, since=0) == ("DiskFull", "The disk is full.")


def test_two_writers_never_mix_their_lines(tmp_path: Path) -> None:
    def write(name: str) -> None:
        progress = Progress([JsonlFiles(tmp_path)])
        for number in range(200):
            progress.stage(name, f"{name} {number} " + "x" * 500)

    writers = [threading.Thread(target=write, args=(name,)) for name in ("driver", "runner")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(lines(tmp_path / "events.jsonl")) == 400


class Broken:
    def event(self, event: Mapping[str, Any]) -> None:
        raise OSError("gone")

    def step(self, report: StepReport) -> None:
        raise OSError("gone")

    def close(self) -> None:
        raise OSError("gone")


def test_a_broken_sink_is_said_once_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress([Broken(), JsonlFiles(tmp_path)])
    progress.step(report(1))
    progress.step(report(2))
    progress.close()
    assert [line["step"] for line in lines(tmp_path / "metrics.jsonl")] == [1, 2]
    assert capsys.readouterr().err.count("Broken failed") == 1


class ApiServer:
    """Enough of an API server to see what is sent to it."""

    def __init__(self, answer: int = 200) -> None:
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.seen = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_PATCH(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.seen:
                    outer.requests.append((self.command, self.path, dict(self.headers), body))
                    outer.seen.notify_all()
                self.send_response(answer)
                self.end_headers()
                self.wfile.write(b'{"message": "forbidden"}' if answer >= 300 else b"{}")

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def wait(self, count: int) -> None:
        with self.seen:
            assert self.seen.wait_for(lambda: len(self.requests) >= count, timeout=30)


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    yield server
    server.server.shutdown()


def sink(url: str, folder: Path, interval: float, recommender: Recommender | None = None) -> KubernetesStatus:
    token = folder / "token"
    token.write_text("secret\n")
    return KubernetesStatus(
        name="demo",
        namespace="team",
        server=url,
        token_file=token,
        ca_file=None,
        recommender=recommender,
        min_interval=interval,
    )


def test_status_is_applied_to_the_jobs_own_status_and_reads_back(api: ApiServer, tmp_path: Path) -> None:
    status = sink(api.url, tmp_path, 0)
    status.step(report(3, "/ckpt/global_step_2"))
    api.wait(1)
    status.close()
    method, path, headers, body = api.requests[0]
    assert method == "PATCH"
    assert path == (
        "/apis/splitppo.io/v1alpha1/namespaces/team/splitppojobs/demo/status?fieldManager=split-ppo-trainer&force=true"
    )
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert list(body["status"]) == ["training"]
    training = SplitPPOJobStatus.model_validate(body["status"], strict=False).training
    assert training is not None
    assert (training.step, training.total_steps, training.progress) == (3, 20, "3/20")
    assert training.phase_seconds == {"gen": 1.5, "step": 4.0}
    assert training.checkpoint == "/ckpt/global_step_2"
    assert training.eta is not None


def test_where_the_run_moves_to_is_written_and_said_again_with_every_step(api: ApiServer, tmp_path: Path) -> None:
    status = sink(api.url, tmp_path, 0)
    status.step(report(3, "/ckpt/global_step_2"))
    api.wait(1)
    balance = RunBalance(mode="Apply", asked="actor 2 + critic 2", tried={"actor 2 + critic 2": 9.00001})
    moved = run_plan().model_copy(update={"balance": balance})
    Progress([status]).move(3, "a", "b", "moving to it.", balance=balance_status(moved))
    api.wait(2)
    status.step(report(4, None))
    status.close()
    expected = {"asked": "actor 2 + critic 2", "split": "actor 1 + critic 1", "settled": False}
    expected["tried"] = {"actor 2 + critic 2": 9.0}
    bodies = [body["status"] for *_, body in api.requests]
    assert [body.get("balance") for body in bodies] == [None, expected, expected]
    assert all("training" in body for body in bodies), "what is not said again would be gone"
    assert SplitPPOJobStatus.model_validate(bodies[-1], strict=False).balance is not None


def test_the_advice_goes_with_it_once_there_are_steps_enough(api: ApiServer, tmp_path: Path) -> None:
    status = sink(api.url, tmp_path, 0, Recommender.for_plan(run_plan(overlap="NextGeneration")))
    for step in range(1, 7):
        timings = {f"timing_s/{name}": took for name, took in SECONDS.items()}
        status.step(StepReport(step, 20, {**timings, "timing_s/step": 9.0}, None))
        api.wait(step)
    status.close()
    assert ["recommendation" in body["status"] for *_, body in api.requests] == [False] * 5 + [True]
    found = SplitPPOJobStatus.model_validate(api.requests[-1][3]["status"], strict=False).recommendation
    assert found is not None
    assert found.best == "Colocated 2"
    assert found.predictions is not None
    assert [p.split for p in found.predictions] == ["Colocated 2", "actor 1 + critic 1"]
    assert found.message is not None
    assert found.message.startswith("actor 1 + critic 1 takes 9.00 s a step; Colocated 2 would take")


def test_writes_are_limited_and_the_newest_one_wins(api: ApiServer, tmp_path: Path) -> None:
    status = sink(api.url, tmp_path, interval=3600)
    status.step(report(1))
    api.wait(1)
    for step in range(2, 12):
        status.step(report(step))
    status.close()
    assert [body["status"]["training"]["step"] for *_, body in api.requests] == [1, 11]


def test_a_refusal_is_said_once_and_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = ApiServer(answer=403)
    status = sink(server.url, tmp_path, interval=0)
    for step in (1, 2):
        status.step(report(step))
        server.wait(step)
    status.close()
    assert capsys.readouterr().err.count("the job's status could not be written") == 1


def test_a_resumed_run_writes_its_steps_once(tmp_path: Path) -> None:
    progress = Progress([JsonlFiles(tmp_path)])
    for step in (1, 2, 3):
        progress.step(report(step))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "me')  # killed while writing
    keep_metrics_until(tmp_path, 2)
    progress.step(report(3))
    assert [line["step"] for line in lines(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    keep_metrics_until(tmp_path / "none", 0)
