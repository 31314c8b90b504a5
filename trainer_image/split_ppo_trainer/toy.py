"""A model and a dataset small enough for a laptop, made on the spot: nothing is fetched from a hub.

A job refers to them by `toy://NAME/FILE` (`toy://digits/model`, `toy://digits/train.parquet`, …); the trainer makes
the folder, on every node that does not see its own, and puts the real paths in their place, so that one YAML works on a
laptop and in pods without a shared disk.

Invariants, each of which verl or vLLM needs: the model's vocabulary is exactly the tokenizer's (vLLM masks the rest,
the trainer does not), one token for a newline, a chat template, head_dim >= 32 (vLLM's CPU attention knows no
smaller). The same name and seed give the same bytes. Written without torch and transformers: importing them takes
longer than everything here.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEME = "toy://"
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'][0] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>a\n{% endif %}"
)
# transformers 5 opens a Qwen2 model's tokenizer as Qwen2Tokenizer, which adds <|endoftext|> where it is missing: one
# more than vocab_size.
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"


@dataclass(frozen=True)
class Toy:
    """What there is under one name. Both ask for sums of two digits; they differ in the size of the model."""

    hidden_size: int
    layers: int
    heads: int
    train_rows: int = 2048
    validation_rows: int = 32
    seed: int = 0

    @property
    def intermediate_size(self) -> int:
        return 3 * self.hidden_size

    @property
    def kv_heads(self) -> int:
        return self.heads // 2

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.heads


TOYS = {
    "digits": Toy(hidden_size=128, layers=2, heads=4),  # 0.5 million parameters: seconds per step on one core
    "digits-16m": Toy(hidden_size=512, layers=5, heads=8),  # computing outweighs most of what is around it
    "digits-30m": Toy(hidden_size=640, layers=6, heads=10),  # and all of it: for measuring
}


class UnknownToy(ValueError):
    """A toy:// reference that names nothing; the message is for the user."""


def named_toys(settings: Any) -> set[str]:
    """Names of the toys that settings refer to, known or not."""
    if isinstance(settings, Mapping):
        return set().union(*map(named_toys, settings.values()))
    if isinstance(settings, list | tuple):
        return set().union(*map(named_toys, settings))
    if isinstance(settings, str) and settings.startswith(SCHEME):
        return {settings.removeprefix(SCHEME).partition("/")[0]}
    return set()


def materialise(settings: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The settings with every toy:// reference replaced by a path under `directory`, and what it names made there."""

    def replace(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: replace(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [replace(item) for item in value]
        if isinstance(value, str) and value.startswith(SCHEME):
            return str(resolve(value, directory))
        return value

    return {key: replace(value) for key, value in settings.items()}


def resolve(reference: str, directory: Path) -> Path:
    """Make the toy that `toy://NAME/FILE` names, unless it is there, and return FILE's path."""
    name, _, file = reference.removeprefix(SCHEME).partition("/")
    if name not in TOYS:
        raise UnknownToy(f"{reference} names no toy: there are {', '.join(SCHEME + known for known in TOYS)}.")
    folder = make(name, directory)
    path = folder / file
    if not file or not path.exists():
        there = ", ".join(sorted(entry.name for entry in folder.iterdir() if entry.name != "__pycache__"))
        raise UnknownToy(f"{reference} names no file of that toy: write {SCHEME}{name}/FILE with one of {there}.")
    return path


def make(name: str, directory: Path) -> Path:
    """The folder of one toy, complete or not there at all."""
    target = directory / name
    if target.is_dir():
        return target
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f".{name}.partial-{secrets.token_hex(4)}"  # process ids repeat where pods share a disk
    toy = TOYS[name]
    vocabulary = write_tokenizer(partial / "model")
    write_model(partial / "model", toy, vocabulary)
    write_rows(partial / "train.parquet", rows=toy.train_rows, split="train", seed=toy.seed)
    write_rows(partial / "validation.parquet", rows=toy.validation_rows, split="validation", seed=toy.seed + 1)
    shutil.copyfile(Path(__file__).with_name("toy_reward.py"), partial / "reward.py")
    try:
        partial.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        shutil.rmtree(partial)  # another process was faster; it made the same bytes
    return target


def write_tokenizer(folder: Path) -> dict[str, int]:
    """Bytes and three special tokens; returns the vocabulary."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    folder.mkdir(parents=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*alphabet, PAD, START, END])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in (PAD, START, END)])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": PAD,
        "unk_token": PAD,
        "eos_token": END,
        "extra_special_tokens": [START],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 512,
    }
    write_json(folder / "tokenizer_config.json", config)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return vocabulary


def write_model(folder: Path, toy: Toy, vocabulary: Mapping[str, int]) -> None:
    """A Qwen2 of random weights, as transformers would initialise it."""
    import numpy
    from safetensors.numpy import save_file

    special = {"bos_token_id": None, "eos_token_id": vocabulary[END], "pad_token_id": vocabulary[PAD]}
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": len(vocabulary),
        "hidden_size": toy.hidden_size,
        "intermediate_size": toy.intermediate_size,
        "num_hidden_layers": toy.layers,
        "num_attention_heads": toy.heads,
        "num_key_value_heads": toy.kv_heads,
        "max_position_embeddings": 512,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        **special,
    }
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", special)
    random = numpy.random.Generator(numpy.random.PCG64(toy.seed))
    weights: dict[str, Any] = {}
    for name, shape in weight_shapes(toy, len(vocabulary)).items():
        if name.endswith("norm.weight"):
            weights[name] = numpy.ones(shape, dtype=numpy.float32)
        elif name.endswith(".bias"):
            weights[name] = numpy.zeros(shape, dtype=numpy.float32)
        else:
            weights[name] = random.standard_normal(shape, dtype=numpy.float32) * numpy.float32(0.02)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors writes 0600; a pod's ranks may be another user


def weight_shapes(toy: Toy, vocabulary: int) -> dict[str, tuple[int, ...]]:
    hidden, inner, kv = toy.hidden_size, toy.intermediate_size, toy.kv_heads * toy.head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, hidden)}
    for layer in range(toy.layers):
        prefix = f"model.layers.{layer}."
        for projection, width in (("q", hidden), ("k", kv), ("v", kv)):
            shapes[f"{prefix}self_attn.{projection}_proj.weight"] = (width, hidden)
            shapes[f"{prefix}self_attn.{projection}_proj.bias"] = (width,)
        shapes[f"{prefix}self_attn.o_proj.weight"] = (hidden, hidden)
        shapes[f"{prefix}mlp.gate_proj.weight"] = (inner, hidden)
        shapes[f"{prefix}mlp.up_proj.weight"] = (inner, hidden)
        shapes[f"{prefix}mlp.down_proj.weight"] = (hidden, inner)
        shapes[f"{prefix}input_layernorm.weight"] = (hidden,)
        shapes[f"{prefix}post_attention_layernorm.weight"] = (hidden,)
    return {**shapes, "model.norm.weight": (hidden,), "lm_head.weight": (vocabulary, hidden)}


def write_rows(path: Path, *, rows: int, split: str, seed: int) -> None:
    """Sums of two digits, in the columns that verl's dataset and reward loop read."""
    import random

    import pyarrow
    from pyarrow import parquet

    chooser = random.Random(seed)
    table = []
    for index in range(rows):
        left, right = chooser.randint(0, 9), chooser.randint(0, 9)
        table.append(
            {
                "data_source": "toy_digits",
                "prompt": [{"role": "user", "content": f"what is {left} + {right} ?"}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": str(left + right)},
                "extra_info": {"split": split, "index": index},
            }
        )
    parquet.write_table(pyarrow.Table.from_pylist(table), path)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m split_ppo_trainer.toy", description="Write a toy model and its data."
    )
    parser.add_argument("name", choices=sorted(TOYS))
    parser.add_argument("directory", type=Path, help="the toy is written to DIRECTORY/NAME")
    arguments = parser.parse_args()
    print(make(arguments.name, arguments.directory))


if __name__ == "__main__":
    main()
