"""Does a plan fit what there is? One sentence with both numbers where it does not."""

from collections.abc import Iterator

from split_ppo.placement.plan import Finding, PlacementPlan


def fits(plan: PlacementPlan, *, nodes: int, gpus_per_node: int) -> Iterator[Finding]:
    """Findings where `nodes` machines with `gpus_per_node` each can't hold the plan."""
    machines = plan.machines()
    largest = max((sum(m.values()) for m in machines), default=0)
    if largest > gpus_per_node:
        yield _short(
            f"The plan needs {largest} {plan.device}s on one node and a node here has {gpus_per_node}: "
            "use smaller pools on more nodes, or layout: AcrossNodes."
        )
    elif len(machines) > nodes:
        yield _short(
            f"The plan needs {plan.total_gpus} {plan.device}s on {len(machines)} nodes and there are "
            f"{nodes * gpus_per_node} on {nodes}: use fewer of them, or layout: WithinNodes."
        )


def _short(message: str) -> Finding:
    return Finding(reason="NotEnough", field="spec.placement", message=message)
