"""vLLM general plugin: keep linear weights loadable on the CPU.

vLLM's CPU backend packs each linear weight for its kernels and drops the original, after which weights cannot be loaded
again; PPO loads them after every step. vLLM's own fallback for shapes it cannot pack is torch's linear: this takes it
always.
"""


def register() -> None:
    """Called by vLLM in each of its processes (entry point `vllm.general_plugins`); does nothing where vLLM runs on GPUs."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    import torch
    from vllm.model_executor.layers import utils

    def keep_weight(layer: torch.nn.Module, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    utils.dispatch_cpu_unquantized_gemm = keep_weight
