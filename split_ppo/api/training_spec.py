"""`spec.training`: what is trained, on what, and how."""

from typing import Annotated, Literal

from pydantic import Field

from split_ppo.api.base import ApiModel, Name, PathOrUri, schema_extra
from split_ppo.api.pods import FreeForm

PositiveInt = Annotated[int, Field(ge=1, le=2_147_483_647)]
PositiveFloat = Annotated[float, Field(gt=0)]


class Model(ApiModel):
    """The models, as a path in the pods or a name on the Hugging Face hub."""

    actor: PathOrUri
    """The policy to train; the reference policy starts as the same."""
    critic: PathOrUri | None = None
    """The value model starts from this. Default: the actor's model."""
    trust_remote_code: bool = False
    """Let transformers run code that comes with the model."""


class Data(ApiModel):
    """Parquet files with verl's columns: prompt (a list of chat messages), data_source, reward_model.ground_truth."""

    train: Annotated[list[PathOrUri], Field(min_length=1, max_length=1024)]
    """Files to train on."""
    validation: Annotated[list[PathOrUri], Field(max_length=1024)] = Field(default_factory=list)
    """Files to validate on."""
    max_prompt_length: PositiveInt = 512
    """Tokens of a prompt at the most; longer ones are left out."""
    max_response_length: PositiveInt = 512
    """Tokens of a response at the most."""


class RewardFunction(ApiModel):
    """A Python function that scores a response, from a ConfigMap or from a file in the pods."""

    model_config = schema_extra(
        (
            "has(self.configMap) != has(self.path)",
            "give the reward function's file as configMap or as path, one of the two",
        )
    )
    config_map: Name | None = None
    """ConfigMap that holds the file. `split-ppo run` takes it from the same YAML file."""
    key: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)] = "reward.py"
    """Key of the file in the ConfigMap."""
    path: PathOrUri | None = None
    """The file, in the image or on a volume; with `split-ppo run` relative to the YAML file."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)] = "compute_score"
    """The function: `(data_source, solution_str, ground_truth, extra_info=None) -> float`."""


class RewardModel(ApiModel):
    """A model that scores responses."""

    path: PathOrUri
    """The reward model, as a path or a name on the hub."""
    tensor_parallel_size: PositiveInt = 1
    """GPUs that share one copy of it."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of each GPU's memory it may take."""


class Reward(ApiModel):
    """Where rewards come from. Neither: verl's own scoring by the data's `data_source`, such as GSM8K's."""

    function: RewardFunction | None = None
    """A function of yours."""
    model: RewardModel | None = None
    """A reward model; a function beside it may combine both."""


class LearningRate(ApiModel):
    """Learning rates."""

    actor: PositiveFloat = 1e-6
    """Of the policy."""
    critic: PositiveFloat = 1e-5
    """Of the value model."""


class Rollout(ApiModel):
    """How responses are generated."""

    engine: Literal["vllm"] = "vllm"
    """Inference engine."""
    tensor_parallel_size: PositiveInt = 1
    """GPUs of one node that share one copy of the policy while generating."""
    samples_per_prompt: PositiveInt = 1
    """Responses per prompt."""
    temperature: Annotated[float, Field(ge=0, le=10)] = 1.0
    """Sampling temperature; 0 is greedy."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of each GPU's memory for the rollout engine."""


class Training(ApiModel):
    """What to train."""

    model_config = schema_extra(("!(has(self.steps) && has(self.epochs))", "give steps or epochs, not both"))
    model: Model
    """The models."""
    data: Data
    """The data."""
    reward: Reward = Field(default_factory=Reward)
    """Where rewards come from."""
    batch_size: PositiveInt = 1024
    """Prompts per step."""
    mini_batch_size: PositiveInt = 256
    """Prompts per optimiser step."""
    micro_batch_size_per_gpu: Annotated[PositiveInt, Field(alias="microBatchSizePerGPU")] = 8
    """Sequences that one GPU works on at a time."""
    learning_rate: LearningRate = Field(default_factory=LearningRate)
    """Learning rates."""
    rollout: Rollout = Field(default_factory=Rollout)
    """How responses are generated."""
    steps: PositiveInt | None = None
    """Steps to train. Either this or `epochs`; neither: one epoch."""
    epochs: PositiveInt | None = None
    """Times through the training data."""
    seed: Annotated[int, Field(ge=0, le=2_147_483_647)] = 1
    """Seed of data order and sampling."""
    config: FreeForm = Field(default_factory=dict)
    """Any setting of verl, nested as in its own configuration. Wins over the fields above. What placement decides (pools, GPUs,
    worker placement) is refused here."""
