"""`split-ppo run` before anything starts: the folder of the run, and what the environment is good for."""

from pathlib import Path

import pytest

from split_ppo_trainer.local import FolderProblem, RunFolder, wrong_flavour


@pytest.mark.parametrize(
    ("device", "vllm", "word"),
    [("CPU", "0.28.0+cpu", None), ("GPU", "0.24.0", None), ("CPU", "0.24.0", "=cpu"), ("GPU", "0.28.0+cpu", "=gpu")],
)
def test_the_build_of_vllm_must_be_the_jobs(device: str, vllm: str, word: str | None) -> None:
    found = wrong_flavour(device, vllm)
    assert found is None if word is None else word in str(found)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def use(folder: RunFolder) -> None:
    folder.events.touch()


def test_each_run_has_a_folder_of_its_own_and_resume_takes_the_last(here: Path) -> None:
    for expected in ("job", "job-2", "job-3"):
        folder = RunFolder.choose(None, name="job", resume=False)
        assert folder.path == here / "runs" / expected
        use(folder)
    assert RunFolder.choose(None, name="job", resume=True).path == here / "runs" / "job-3"


def test_a_used_folder_is_resumed_or_refused(here: Path) -> None:
    use(RunFolder.choose(here / "out", name="job", resume=False))
    assert RunFolder.choose(here / "out", name="job", resume=True).path == here / "out"
    with pytest.raises(FolderProblem, match=r"holds a run already: continue it with --resume"):
        RunFolder.choose(here / "out", name="job", resume=False)


def test_nothing_to_resume_is_a_sentence(here: Path) -> None:
    with pytest.raises(FolderProblem, match="There is no run in"):
        RunFolder.choose(here / "new", name="job", resume=True)


def test_a_folder_that_cannot_be_made_is_a_sentence(here: Path) -> None:
    (here / "file").touch()
    with pytest.raises(FolderProblem, match="can't be made"):
        RunFolder.choose(here / "file" / "below", name="job", resume=False)
