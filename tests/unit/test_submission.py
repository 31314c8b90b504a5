import re
from pathlib import Path

from builders import make_job
from split_ppo.ends import ENDS
from split_ppo_operator.desired.plan_file import checkpoint_folder
from split_ppo_operator.submission import end_reason, entrypoint, last_words, submission_id

ROOT = Path(__file__).parents[2]
STORED = {"storage": {"checkpoints": {"claimName": "c", "path": "/ckpt"}}}


def test_the_first_attempt_starts_and_later_ones_resume() -> None:
    job = make_job(STORED, uid="6f9619ff-8b86-d011-b42d-00c04fc964ff")
    assert entrypoint(job, 1).endswith(
        "--output /ckpt/job-6f9619ff/attempts/1 --log /ckpt/job-6f9619ff/attempts/1/run.log"
    )
    assert entrypoint(job, 2).endswith("/attempts/2/run.log --resume")


def test_a_job_made_again_under_an_old_name_starts_in_a_folder_of_its_own() -> None:
    first, second = (make_job(STORED, uid=uid) for uid in ("11111111-8b86", "22222222-8b86"))
    assert checkpoint_folder(first) == "/ckpt/job-11111111"
    assert checkpoint_folder(second) == "/ckpt/job-22222222"


def test_without_storage_there_is_nothing_to_resume_from() -> None:
    assert "--resume" not in entrypoint(make_job(), 2)


def test_the_id_is_the_same_for_the_same_attempt() -> None:
    job = make_job(uid="u")
    assert submission_id(job, 3) == submission_id(job, 3) == "u-3"


def test_the_last_line_is_what_is_said() -> None:
    assert (
        last_words("log\nNoModel: there is none.\n\n", 2) == "The training ended (exit code 2): NoModel: there is none."
    )
    assert end_reason("log\nNoModel: there is none.", 2) == "BadInput"
    assert last_words("killed", None) == "The training ended: killed."
    assert last_words("", 1) == "The training ended (exit code 1) without a word."


def test_a_word_of_the_trainer_that_is_known_is_the_reason() -> None:
    assert end_reason("log\nDiskFull: The checkpoint does not fit.\n", 1) == "DiskFull"
    assert end_reason("log\nKeyError: KeyError: 'x'", 1) == "TrainingFailed"
    assert end_reason("", 1) == "TrainingFailed"


def test_every_word_the_trainer_may_say_is_known() -> None:
    sources = "".join(file.read_text() for file in (ROOT / "trainer_image/split_ppo_trainer").rglob("*.py"))
    said = set(re.findall(r'RunFailure\(\s*"(\w+)"', sources)) | set(re.findall(r'"(\w*Stalled)"', sources))
    assert said == ENDS
