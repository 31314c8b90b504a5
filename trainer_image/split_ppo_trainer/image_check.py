"""Run once while the image is built: is what was installed what `split_ppo.versions` says, and can it be used?"""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata

from split_ppo import versions


def main(flavour: str) -> int:
    expected = {"ray": versions.RAY, "verl": versions.VERL, **(versions.GPU if flavour == "gpu" else versions.CPU)}
    wrong = [
        f"{name} is {found}, wanted {want}" for name, want in expected.items() if (found := installed(name)) != want
    ]
    if flavour == "cpu" and "cpu" not in installed("vllm"):
        wrong.append("the CPU build of vLLM does not answer to the name vllm")
    plugins = [point.name for point in metadata.entry_points(group="vllm.general_plugins")]
    if "split_ppo_cpu" not in plugins:
        wrong.append("vLLM would not find the plugin split_ppo_cpu")
    needed = ["torch", "vllm", "verl", "transfer_queue", "split_ppo_trainer"] + ["flash_attn"] * (flavour == "gpu")
    wrong += [f"{name} cannot be imported" for name in needed if importlib.util.find_spec(name) is None]
    for sentence in wrong:
        print(f"image: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


def installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
