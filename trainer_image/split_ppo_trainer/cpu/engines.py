"""verl's FSDP engines, registered for device "cpu".

Two things in them want a GPU. A model that only infers (the reference policy) is offloaded to pinned memory, which
takes a CUDA driver: here it stays where it is, which is the CPU. And verl loads value heads with flash_attention_2
written into the call. Its own language-model path reads the attention from the model's config and picks the class from
the architecture's name, so this engine walks that path with the value head's architecture.
"""

import dataclasses
from typing import Any

from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead


class CpuLanguageEngine(FSDPEngineWithLMHead):
    """A language model; a forward-only one without offloading."""

    engine_config: Any

    def _build_fsdp_module(self, module: Any) -> Any:
        config: Any = self.engine_config
        self.engine_config = dataclasses.replace(config, forward_only=False)
        try:
            return super()._build_fsdp_module(module)
        finally:
            self.engine_config = config


class CpuValueEngine(FSDPEngineWithValueHead):
    """A token classifier with one label, attention as configured."""

    def _build_module(self) -> Any:
        config, kind = self.model_config.hf_config, self.model_config.model_type
        config.num_labels = 1
        config.classifier_dropout = 0.0
        config.hidden_dropout = "0"
        config.summary_dropout_prob = 0.0
        config.architectures = [value_head_architecture(config.architectures)]
        self.model_config.model_type = "language_model"
        try:
            return super()._build_module()
        finally:
            self.model_config.model_type = kind


def value_head_architecture(architectures: list[str] | None) -> str:
    """`Qwen2ForCausalLM` -> `Qwen2ForTokenClassification`."""
    name = (architectures or ["ForCausalLM"])[0]
    return name.split("For")[0] + "ForTokenClassification"


for _kind, _engine in (("language_model", CpuLanguageEngine), ("value_model", CpuValueEngine)):
    EngineRegistry.register(model_type=_kind, backend=["fsdp", "fsdp2"], device="cpu")(_engine)
