"""What the light half says of verl is true of the real verl: its settings, its schema, its own validation."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from split_ppo.api.generate import ROOT
from split_ppo.jobfile import load_jobs
from split_ppo.placement.checks import check_job
from split_ppo.runplan import RunPlan, resolve
from split_ppo.verl_config import OWNED, leaves
from split_ppo.verl_known import is_known, known_paths

pytestmark = pytest.mark.trainer
pytest.importorskip("verl", reason="needs the trainer's environment: make install-trainer")
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model on this disk: verl opens the model's own config to validate the critic, and there is no hub here."""
    from split_ppo_trainer.toy import make

    return str(make("digits", tmp_path_factory.mktemp("toy")) / "model")


def run_plan(example: Path) -> RunPlan:
    [item] = load_jobs(example.read_text(), str(example)).jobs
    plan = check_job(item.job)
    assert plan.findings == ()
    return resolve(item.job, plan, checkpoint_dir="/checkpoints/job", reward_file="/reward.py")


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verl_settings", ROOT / "tools/verl_settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_of_settings_is_verls() -> None:
    assert set(tool().known_settings()) == known_paths(), "run `.venv/bin/python tools/verl_settings.py`"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_every_setting_we_make_is_known(example: Path) -> None:
    assert [path for path, _ in leaves(run_plan(example).verl) if not is_known(path)] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_verl_itself_accepts_the_config(example: Path, model: str) -> None:
    """The complete config becomes verl's own dataclasses and passes its validation, pool by pool."""
    from verl.utils.config import omega_conf_to_dataclass

    from split_ppo_trainer.config import check, compose

    plan = run_plan(example)
    for section in ("actor_rollout_ref", "critic"):
        plan.verl[section]["model"]["path"] = model
    config = compose(plan)
    check(config, plan)
    for section in ("actor_rollout_ref.actor", "actor_rollout_ref.rollout", "critic", "algorithm"):
        omega_conf_to_dataclass(_select(config, section))
    for path, value in leaves(plan.verl):
        if path not in OWNED and not path.startswith(("trainer.", "transfer_queue.")):
            assert _select(config, path) == value, path


def _select(config: object, path: str) -> object:
    from omegaconf import OmegaConf

    found = OmegaConf.select(config, path)
    return OmegaConf.to_container(found) if OmegaConf.is_list(found) else found
