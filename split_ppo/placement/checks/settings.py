"""Checks on the rest of the spec: `config`, the reward, lengths of training, versions."""

from collections.abc import Iterator

from split_ppo import versions
from split_ppo.placement.checks.case import Case, Check, finding
from split_ppo.placement.plan import Finding
from split_ppo.verl_config import OWNED, leaves
from split_ppo.verl_known import is_known, suggestion

# Token authentication of Ray's Jobs API came with 2.52, the health endpoint that KubeRay probes with 2.53.
OLDEST_RAY = (2, 53, 0)


def config_leaves_placement_alone(case: Case) -> Iterator[Finding]:
    for path, value in leaves(case.spec.training.config):
        owner = next((o for o in OWNED if path == o or path.startswith(f"{o}.")), None)
        if owner is not None:
            yield finding(
                "OwnedSetting",
                f"training.config.{path}",
                f"training.config sets {path} to {value!r}, which is decided elsewhere; remove it and use {OWNED[owner]}.",
            )


def config_is_nested(case: Case) -> Iterator[Finding]:
    for dotted in (key for key in case.spec.training.config if "." in key):
        first, rest = dotted.split(".", 1)
        yield finding(
            "ConfigNotNested",
            f"training.config.{dotted}",
            f"training.config has the key {dotted!r} with a dot in it; settings are nested: write {first}: {{{rest}: …}}.",
        )


def config_is_known(case: Case) -> Iterator[Finding]:
    """verl ignores what it does not know, so a typo would train something else than was asked for."""
    for path, _ in leaves(case.spec.training.config):
        if "." in path.split(".")[0] or is_known(path) or any(path.startswith(owner) for owner in OWNED):
            continue
        meant = suggestion(path)
        if meant is None and case.spec.image is not None:
            continue  # an image of the user's own may have a verl that knows it
        hint = f"did you mean {meant}?" if meant else "see verl's documentation for its settings."
        yield finding(
            "UnknownSetting",
            f"training.config.{path}",
            f"training.config sets {path}, which verl {versions.VERL} does not know and would ignore: {hint}",
        )


def one_length(case: Case) -> Iterator[Finding]:
    training = case.spec.training
    if training.steps is not None and training.epochs is not None:
        yield finding(
            "StepsAndEpochs",
            "training.epochs",
            f"Both steps ({training.steps}) and epochs ({training.epochs}) are given: keep one of them.",
        )


def reward_function_has_a_file(case: Case) -> Iterator[Finding]:
    function = case.spec.training.reward.function
    if function is None or (function.config_map is None) != (function.path is None):
        return
    have = "both a configMap and a path" if function.path else "neither a configMap nor a path"
    yield finding(
        "RewardFunctionFile",
        "training.reward.function",
        f"The reward function has {have}; give one of them, such as configMap: my-reward.",
    )


def ray_version_works(case: Case) -> Iterator[Finding]:
    asked = case.spec.ray_version
    if case.spec.image is None and asked != versions.RAY:
        yield finding(
            "RayVersion",
            "rayVersion",
            f"rayVersion is {asked}, but this release's trainer image has Ray {versions.RAY}, and the two must be the same: "
            "leave rayVersion out, or name an image with that Ray.",
        )
    elif tuple(int(part) for part in asked.split(".")) < OLDEST_RAY:
        oldest = ".".join(map(str, OLDEST_RAY))
        yield finding(
            "RayVersion",
            "rayVersion",
            f"rayVersion is {asked}; token authentication and health probes need {oldest} or newer: use a newer image.",
        )


CHECKS: tuple[Check, ...] = (
    config_leaves_placement_alone,
    config_is_nested,
    config_is_known,
    one_length,
    reward_function_has_a_file,
    ray_version_works,
)
