"""A reward model as small as the toy: its body, and one random score on top."""

import json
import shutil
from pathlib import Path


def write_reward_model(model: Path, target: Path) -> Path:
    """A sequence classifier with one label, from the toy's language model."""
    import numpy
    from safetensors.numpy import load_file, save_file

    shutil.copytree(model, target)
    config = json.loads((model / "config.json").read_text())
    config |= {"architectures": ["Qwen2ForSequenceClassification"], "num_labels": 1}
    config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    (target / "config.json").write_text(json.dumps(config))
    (file,) = target.glob("*.safetensors")
    weights = load_file(file)
    weights.pop("lm_head.weight", None)
    random = numpy.random.default_rng(0)
    weights["score.weight"] = random.normal(0, 0.1, (1, config["hidden_size"])).astype(numpy.float32)
    save_file(weights, file, metadata={"format": "pt"})
    return target
