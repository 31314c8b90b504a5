"""What can be found wrong with a run's files before anything starts.

verl opens models, data and rewards a minute and a half into its start-up, in processes whose errors reach the user late
or not at all. These checks open the same files here, without torch. A name that is not a path on this machine is taken
for a hub's and left to verl.
"""

import importlib.util
import inspect
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from split_ppo.verl_config import lookup
from split_ppo_trainer.failures import RunFailure, bad_input

SCHEMES = ("hdfs://", "s3://", "gs://", "http://", "https://")


def check_inputs(settings: Mapping[str, Any]) -> None:
    """Raise for the first thing that is wrong."""
    _check_model("actor", lookup(settings, "actor_rollout_ref.model.path"))
    _check_model("critic", lookup(settings, "critic.model.path"))
    if lookup(settings, "reward.reward_model.enable"):
        _check_model("reward", lookup(settings, "reward.reward_model.model_path"))
    sample = None
    prompt_key = lookup(settings, "data.prompt_key") or "prompt"
    scored_by_model = bool(lookup(settings, "reward.reward_model.enable"))
    for kind in ("train_files", "val_files"):
        for path in _as_list(lookup(settings, f"data.{kind}")):
            row = _check_data(path, prompt_key=prompt_key, scored_by_model=scored_by_model)
            sample = sample or row
    _check_reward(settings, sample)


def is_local(path: str) -> bool:
    """A path on this machine, rather than a name on a hub or a URL."""
    return not path.startswith(SCHEMES) and (path.startswith(("/", ".", "~")) or Path(path).exists())


def all_models_local(settings: Mapping[str, Any]) -> bool:
    """Whether a hub is needed for nothing."""
    paths = [lookup(settings, "actor_rollout_ref.model.path"), lookup(settings, "critic.model.path")]
    paths.append(lookup(settings, "reward.reward_model.model_path"))
    return all(is_local(path) for path in paths if path)


def _check_model(role: str, path: Any) -> None:
    if not path:
        raise bad_input(f"No model for the {role} is named; set training.model.{role}.")
    if not is_local(str(path)):
        return
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise bad_input(f"The {role}'s model {path} is not a folder on this machine; name one, or a model on the hub.")
    if not (folder / "config.json").is_file():
        raise bad_input(f"The {role}'s model {path} has no config.json; a model in Hugging Face's format is needed.")


def _check_data(path: Any, *, prompt_key: str, scored_by_model: bool) -> dict[str, Any] | None:
    """The first row, when the file is here and readable."""
    if not is_local(str(path)):
        return None
    file = Path(path).expanduser()
    if not file.is_file():
        raise bad_input(f"The data file {path} is not there.")
    if file.suffix != ".parquet":
        return None
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        table = parquet.ParquetFile(file)
        rows = next(table.iter_batches(batch_size=1), None)
    except (pyarrow.ArrowException, OSError) as problem:
        raise bad_input(f"The data file {path} is not a parquet file that can be read: {problem}") from problem
    columns = table.schema_arrow.names
    needed = [prompt_key] if scored_by_model else [prompt_key, "data_source", "reward_model"]
    absent = [name for name in needed if name not in columns]
    if absent:
        raise bad_input(
            f"The data file {path} has no column {', '.join(absent)}; it has {', '.join(columns)}. verl reads the prompt from "
            f"{prompt_key} and hands data_source and reward_model to the reward."
        )
    if rows is None or rows.num_rows == 0:
        raise bad_input(f"The data file {path} has no rows.")
    row: dict[str, Any] = rows.to_pylist()[0]
    if not scored_by_model and "ground_truth" not in (row["reward_model"] or {}):
        raise bad_input(f"The column reward_model of {path} has no field ground_truth.")
    return row


def _check_reward(settings: Mapping[str, Any], sample: Mapping[str, Any] | None) -> None:
    path = lookup(settings, "reward.custom_reward_function.path")
    name = lookup(settings, "reward.custom_reward_function.name") or "compute_score"
    if not path or not is_local(str(path)):
        return
    function = _load(Path(path).expanduser(), name)
    if sample is None or inspect.iscoroutinefunction(function) or lookup(settings, "reward.reward_model.enable"):
        return
    truth = (sample.get("reward_model") or {}).get("ground_truth")
    keywords = lookup(settings, "reward.custom_reward_function.reward_kwargs") or {}
    try:
        function(
            data_source=sample.get("data_source"),
            solution_str=str(truth),
            ground_truth=truth,
            extra_info=sample.get("extra_info") or {},
            **keywords,
        )
    except Exception as problem:
        raise _reward_failure(f"{path}: {name} raised", problem, path) from problem


def _load(file: Path, name: str) -> Any:
    if not file.is_file():
        raise bad_input(f"The reward file {file} is not there.")
    spec = importlib.util.spec_from_file_location("split_ppo_reward_check", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        raise _reward_failure(f"The reward file {file} cannot be imported:", problem, str(file)) from problem
    function = getattr(module, name, None)
    if not callable(function):
        functions = [n for n, f in vars(module).items() if inspect.isfunction(f)]
        raise bad_input(f"The reward file {file} has no function {name}; it has {', '.join(functions) or 'none'}.")
    return function


def _reward_failure(what: str, problem: Exception, path: str) -> RunFailure:
    lines = [
        frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if Path(frame.filename) == Path(path)
    ]
    where = f" (line {lines[-1]})" if lines else ""
    return bad_input(f"{what} {type(problem).__name__}: {problem}{where}, when tried on the first row of the data.")


def _as_list(value: Any) -> Iterable[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else value
