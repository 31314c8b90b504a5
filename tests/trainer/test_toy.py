"""The toy is what verl and vLLM need, and always the same."""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from plans import tiny_plan

from split_ppo_trainer.__main__ import with_toys
from split_ppo_trainer.failures import RunFailure
from split_ppo_trainer.toy import TOYS, UnknownToy, make, materialise, named_toys, weight_shapes
from split_ppo_trainer.toy_reward import compute_score

pytestmark = pytest.mark.trainer


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("digits", tmp_path_factory.mktemp("toys"))


def test_transformers_opens_it_and_the_vocabulary_is_the_tokenizers(toy: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = (kind.from_pretrained(toy / "model") for kind in (AutoModelForCausalLM, AutoTokenizer))
    assert model.config.vocab_size == len(tokenizer)
    assert len(tokenizer.encode("\n")) == 1
    assert tokenizer.decode(tokenizer.encode("3 + 4"), skip_special_tokens=True) == "3 + 4"
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], add_generation_prompt=True, tokenize=False
    )
    assert prompt == "<|im_start|>u\nhi<|im_end|>\n<|im_start|>a\n"
    assert {name: tuple(weight.shape) for name, weight in model.state_dict().items()} == weight_shapes(
        TOYS["digits"], len(tokenizer)
    )
    assert model.config.eos_token_id == tokenizer.eos_token_id
    assert model.config.pad_token_id == tokenizer.pad_token_id


def test_vllm_on_the_cpu_can_attend_with_it() -> None:
    assert all(toy.head_dim >= 32 for toy in TOYS.values())


def test_the_same_bytes_every_time(toy: Path, tmp_path: Path) -> None:
    again = make("digits", tmp_path)
    files = [file.relative_to(toy) for file in toy.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert len(files) == 9
    for file in files:
        assert (
            hashlib.sha256((toy / file).read_bytes()).digest() == hashlib.sha256((again / file).read_bytes()).digest()
        ), file


def test_data_has_verls_columns_and_the_reward_scores_it(toy: Path) -> None:
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(toy / "train.parquet").to_pylist()
    assert len(rows) == TOYS["digits"].train_rows
    row = rows[0]
    assert row["prompt"][0]["role"] == "user"
    truth = row["reward_model"]["ground_truth"]
    assert compute_score(row["data_source"], truth, truth) == 1.0
    assert compute_score(row["data_source"], "a1b2", truth) == 0.5
    assert compute_score(row["data_source"], "", truth) == 0.0


def test_references_become_paths_wherever_they_stand(tmp_path: Path) -> None:
    settings = {"a": {"path": "toy://digits/model"}, "b": ["toy://digits/train.parquet", "/x"], "c": 3, "d": "toys://x"}
    expected = tmp_path / "digits"
    assert materialise(settings, tmp_path) == {
        "a": {"path": str(expected / "model")},
        "b": [str(expected / "train.parquet"), "/x"],
        "c": 3,
        "d": "toys://x",
    }
    assert (expected / "model" / "config.json").is_file()


def test_names_of_toys_are_found_wherever_they_stand() -> None:
    settings = {
        "a": {"path": "toy://digits/model"},
        "b": ["toy://letters/train.parquet", "/x"],
        "c": 3,
        "d": "toys://x",
    }
    assert named_toys(settings) == {"digits", "letters"}


# Ray holds one cluster per process. The second node has an address of its own, as a pod has.
TWO_NODES = """
import sys
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from split_ppo_trainer.driver import spread_toys

here, elsewhere = map(Path, sys.argv[1:])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
ray.init(address=cluster.address)
spread_toys([here / "digits"])
cluster.add_node(num_cpus=0, node_ip_address="127.0.0.2")
spread_toys([elsewhere / "digits"])
ray.shutdown()
cluster.shutdown()
"""


def test_a_node_elsewhere_makes_its_own(toy: Path, tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    command = [sys.executable, "-c", TWO_NODES, here, elsewhere]
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        environment = {**os.environ, "RAY_TMPDIR": folder}
        done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not here.exists(), "nodes with this machine's address see its disk"
    made = elsewhere / "digits" / "model" / "model.safetensors"
    assert made.read_bytes() == (toy / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("toy://letters/model", "names no toy: there are toy://digits"),
        ("toy://digits", "write toy://digits/FILE with one of model, reward.py, train.parquet, validation.parquet"),
        ("toy://digits/test.parquet", "names no file of that toy"),
    ],
)
def test_a_reference_to_nothing_is_a_sentence(tmp_path: Path, reference: str, sentence: str) -> None:
    with pytest.raises(UnknownToy, match=sentence):
        materialise({"x": reference}, tmp_path)


def test_a_toy_that_does_not_fit_is_a_sentence(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("a disk that is full is a small tmpfs, and this user may not mount one")
    try:
        with pytest.raises(RunFailure, match=f"The toy does not fit under {disk}/toys: the disk is full"):
            with_toys(tiny_plan(steps=1, storage=disk), tmp_path)
    finally:
        subprocess.run(["umount", disk], check=True)
