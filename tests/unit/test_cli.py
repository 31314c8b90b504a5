"""The command line as a user meets it, in a process of its own where that matters."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from split_ppo.api.generate import ROOT
from split_ppo.cli.main import COMMANDS, cli

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
FOUR = str(ROOT / "examples/four-gpus.yaml")


def call(*args: str, text: str | None = None, color: bool = False) -> Result:
    return CliRunner().invoke(cli, args, input=text, color=color)


def changed(old: str, new: str) -> str:
    text = Path(FOUR).read_text()
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_every_example_plans(example: Path) -> None:
    result = call("plan", str(example))
    assert result.exit_code == 0, result.output
    assert "finding" not in result.output


def test_draws_nodes_and_who_sits_where() -> None:
    output = call("plan", str(ROOT / "examples/six-and-two.yaml")).output
    assert "six-and-two: Split, WithinNodes, actor 12 + critic 4 of 16 GPUs" in output
    assert "nodes 0-1  [A][A][A][A][A][A][C][C]" in output
    assert "critic_pool  reference policy, critic" in output
    assert "RayCluster six-and-two-1" in output
    assert "cpu 25, nvidia.com/gpu 6" in output


def test_the_original_example_is_four_and_four() -> None:
    plan = json.loads(call("plan", str(ROOT / "examples/deepseek-7b-gsm8k.yaml"), "-o", "json").output)
    assert [p["gpus"] for p in plan["pools"]] == [[4], [4]]


def test_colour_in_a_terminal_and_plain_in_a_pipe() -> None:
    assert "\x1b[" not in call("plan", FOUR).output
    assert "\x1b[" in call("plan", FOUR, color=True).output


def test_json_and_yaml_say_the_same() -> None:
    as_json, as_yaml = call("plan", FOUR, "-o", "json"), call("plan", FOUR, "-o", "yaml")
    assert json.loads(as_json.output) == yaml.safe_load(as_yaml.output)


def test_findings_end_with_1_and_their_place() -> None:
    result = call("plan", "-", text=changed("gpusPerNode: 4", "gpusPerNode: 7"))
    assert result.exit_code == 1
    assert "2 findings: this job would not be started" in result.output
    assert "BatchNotDivisible  standard input:14" in result.output
    as_json = call("plan", "-", "-o", "json", text=changed("gpusPerNode: 4", "gpusPerNode: 7"))
    assert as_json.exit_code == 1
    assert [f["reason"] for f in json.loads(as_json.output)["findings"]] == [
        "BatchNotDivisible",
        "MiniBatchNotDivisible",
    ]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["plan", "no-such.yaml"], "no-such.yaml can't be read: no such file or directory"),
        (["plan", "/"], "can't be read: is a directory"),
        (["plan", sys.executable], "is not a text file in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_ends_with_2(args: list[str], words: str) -> None:
    result = call(*args)
    assert result.exit_code == 2
    assert words in result.output


def test_wrong_yaml_ends_with_2_and_the_line() -> None:
    result = call("plan", "-", text=changed("batchSize", "batchsize"))
    assert result.exit_code == 2
    assert "standard input:14: unknown field spec.training.batchsize. Did you mean batchSize?" in result.output


def test_several_documents_are_planned_in_order() -> None:
    text = "---\n".join(p.read_text() for p in EXAMPLES[:2]) + "---\nkind: Service\n"
    plans = json.loads(call("plan", "-o", "json", text=text).output)
    assert isinstance(plans, list)
    assert len(plans) == 2


def test_manifests_are_yaml_for_kubectl() -> None:
    documents = list(yaml.safe_load_all(call("plan", FOUR, "--manifests").output))
    assert [d["kind"] for d in documents] == ["ServiceAccount", "Role", "RoleBinding", "RayCluster"]


def test_no_manifests_of_a_job_that_would_not_start() -> None:
    result = call("plan", "-", "--manifests", text=changed("gpusPerNode: 4", "gpusPerNode: 7"))
    assert result.exit_code == 1
    assert "RayCluster" not in result.stdout
    assert "BatchNotDivisible" in result.stderr


def test_available_says_both_numbers() -> None:
    result = call("plan", FOUR, "--available", "1x2")
    assert result.exit_code == 1
    assert "needs 4 GPUs on one node and a node here has 2" in " ".join(result.output.split())
    assert call("plan", FOUR, "--available", "1x4").exit_code == 0
    assert "not like 2x8" in call("plan", FOUR, "--available", "lots").output


def test_validate_is_silent_when_all_is_well() -> None:
    result = call("validate", *map(str, EXAMPLES))
    assert (result.exit_code, result.output) == (0, "")


def test_validate_knows_what_a_local_run_needs() -> None:
    text = changed("name: four-gpus", "name: 4-gpus")
    assert call("validate", "-", text=text).exit_code == 1
    assert call("validate", "--local", "-", text=text).exit_code == 0


def test_schema_prints_what_is_committed() -> None:
    assert json.loads(call("schema").output) == json.loads((ROOT / "docs/splitppojob.schema.json").read_text())
    crd = yaml.safe_load((ROOT / "crds/splitppo.io_splitppojobs.yaml").read_text())
    assert yaml.safe_load(call("schema", "--crd").output) == crd


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    result = call("completion", shell)
    assert result.exit_code == 0
    assert "_SPLIT_PPO_COMPLETE" in result.output


def test_a_wrong_command_is_told_the_right_one() -> None:
    result = call("paln", FOUR)
    assert result.exit_code == 2
    assert "There is no command paln. Did you mean plan?" in result.output


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_teaches(name: str) -> None:
    result = call(name, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.output


def test_help_imports_nothing_heavy() -> None:
    """`--help` answers at once because of what it does not import; a clock would say less."""
    code = (
        "import sys\nfrom split_ppo.cli.main import cli\n"
        "try: cli(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'pydantic', 'yaml', 'kubernetes', 'kopf', 'rich', 'aiohttp', 'ray', 'torch', 'verl'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "split-ppo plan job.yaml" in done.stdout


def test_planning_imports_neither_kubernetes_nor_the_trainer() -> None:
    code = (
        "import sys\nfrom split_ppo.cli.main import cli\n"
        f"try: cli(['plan', {FOUR!r}, '--manifests'])\nexcept SystemExit: pass\n"
        "heavy = {'kubernetes', 'kopf', 'aiohttp', 'ray', 'torch', 'verl'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("argv", "prog"),
    [
        ([str(Path(sys.executable).parent / "split-ppo")], "split-ppo"),
        ([str(Path(sys.executable).parent / "kubectl-split_ppo")], "kubectl split-ppo"),
        ([sys.executable, "-m", "split_ppo"], "python -m split_ppo"),
    ],
)
def test_is_reached_by_each_of_its_names(argv: list[str], prog: str) -> None:
    done = subprocess.run([*argv, "--help"], capture_output=True, text=True, check=True)
    assert f"Usage: {prog} " in done.stdout
