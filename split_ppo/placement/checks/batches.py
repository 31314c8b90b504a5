"""Checks on batch sizes. verl finds most of these out itself, after minutes of start-up and deep inside a worker.

Every message ends with sizes that fit all pools at once: with s samples per prompt and r ranks in a pool, a mini batch must be
a multiple of r·micro ÷ gcd(r·micro, s) prompts for each pool, and the batch a multiple of the mini batch.
"""

from collections.abc import Iterator
from math import gcd, lcm

from split_ppo.placement.checks.case import Case, Check, Setting, finding
from split_ppo.placement.plan import Finding, RoleName

_BATCH = ("data.train_batch_size", "training.batchSize")
_MINI = {
    "ActorRollout": ("actor_rollout_ref.actor.ppo_mini_batch_size", "training.miniBatchSize"),
    "Critic": ("critic.ppo_mini_batch_size", "training.miniBatchSize"),
}
_MICRO = {
    "ActorRollout": ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "training.microBatchSizePerGPU"),
    "Critic": ("critic.ppo_micro_batch_size_per_gpu", "training.microBatchSizePerGPU"),
}
_DYNAMIC = {"ActorRollout": "actor_rollout_ref.actor.use_dynamic_bsz", "Critic": "critic.use_dynamic_bsz"}


def numbers_are_numbers(case: Case) -> Iterator[Finding]:
    """A number that was overridden by something else can't be checked any further."""
    for path, _ in (_BATCH, *_MINI.values(), *_MICRO.values()):
        value = case.setting(path)
        if value is not None and case.number(path, "") is None:
            yield finding(
                "NotANumber",
                f"training.config.{path}",
                f"training.config.{path} is {value!r}; it must be a whole number of at least 1.",
            )


def batch_divides_over_pools(case: Case) -> Iterator[Finding]:
    batch = case.number(*_BATCH)
    if not case.placed or batch is None:
        return
    samples = _samples(case)
    sizes: dict[str, int] = {}
    for role in _trained(case):
        sizes.setdefault(case.plan.roles[role], case.data_parallel_size(role))
    for pool, ranks in sizes.items():
        if batch.value * samples % ranks:
            per_prompt = f" x {samples} samples" if samples > 1 else ""
            yield finding(
                "BatchNotDivisible",
                batch.field,
                f"{batch.field} is {batch.value}{per_prompt}, and pool {pool} shares it among {ranks} ranks, which does not come "
                f"out even. {_fitting(case)}",
            )


def mini_divides_batch(case: Case) -> Iterator[Finding]:
    batch = case.number(*_BATCH)
    seen: set[str] = set()
    for role in _trained(case):
        mini = case.number(*_MINI[role])
        if batch is None or mini is None or batch.value % mini.value == 0 or mini.field in seen:
            continue
        seen.add(mini.field)
        yield finding(
            "MiniBatchNotDivisor",
            mini.field,
            f"{mini.field} is {mini.value} and does not divide {batch.field}, which is {batch.value}. {_fitting(case)}",
        )


def micro_divides_mini(case: Case) -> Iterator[Finding]:
    if not case.placed:
        return
    samples = _samples(case)
    seen: set[tuple[str, int]] = set()
    for role in _trained(case):
        mini, micro = case.number(*_MINI[role]), case.number(*_MICRO[role])
        ranks = case.data_parallel_size(role)
        if mini is None or (mini.field, ranks) in seen:
            continue
        seen.add((mini.field, ranks))
        yield from _micro(case, role, mini, micro, samples, ranks)


def _micro(
    case: Case, role: RoleName, mini: Setting, micro: Setting | None, samples: int, ranks: int
) -> Iterator[Finding]:
    pool = case.plan.roles[role]
    if mini.value * samples % ranks:
        yield finding(
            "MiniBatchNotDivisible",
            mini.field,
            f"{mini.field} is {mini.value}{f' x {samples} samples' if samples > 1 else ''}, and pool {pool} shares it among "
            f"{ranks} ranks, which does not come out even. {_fitting(case)}",
        )
        return
    if micro is None or case.setting(_DYNAMIC[role]):
        return
    per_rank = mini.value * samples // ranks
    each = f"each of the {ranks} ranks" if ranks > 1 else "the one rank"
    if per_rank % micro.value:
        yield finding(
            "MicroBatchNotDivisor",
            micro.field,
            f"{micro.field} is {micro.value}, but {each} of pool {pool} has {per_rank} sequences of a mini "
            f"batch, which {micro.value} does not divide. {_fitting(case)}",
        )


def _fitting(case: Case) -> str:
    """Sizes near the ones asked for that fit every pool; see the module's text."""
    batch, mini, micro = case.number(*_BATCH), case.number(*_MINI["ActorRollout"]), case.number(*_MICRO["ActorRollout"])
    if not case.placed or batch is None or mini is None:
        return f"Use a divisor of {batch.value}." if batch else ""
    size = micro.value if micro and not case.setting(_DYNAMIC["ActorRollout"]) else 1
    shares = [case.data_parallel_size(role) * size for role in _trained(case)]
    unit = lcm(*(share // gcd(share, _samples(case)) for share in shares))
    fit_mini = _nearest_multiple(min(mini.value, batch.value), unit)
    fit_batch = _nearest_multiple(batch.value, fit_mini)
    return f"What fits every pool: batchSize {fit_batch}, miniBatchSize {fit_mini}, microBatchSizePerGPU {size}."


def _nearest_multiple(value: int, of: int) -> int:
    return max((value + of // 2) // of, 1) * of


def _samples(case: Case) -> int:
    samples = case.number("actor_rollout_ref.rollout.n", "training.rollout.samplesPerPrompt")
    return samples.value if samples else 1


def _trained(case: Case) -> list[RoleName]:
    return ["ActorRollout", "Critic"] if case.has_critic else ["ActorRollout"]


CHECKS: tuple[Check, ...] = (numbers_are_numbers, batch_divides_over_pools, mini_divides_batch, micro_divides_mini)
