"""vLLM general plugin: keep linear weights loadable on the CPU.

vLLM's CPU backend packs each linear weight for its kernels and drops the original, after which weights cannot be loaded
again; PPO loads them after every step. This keeps the original beside the packed copy. verl tells vLLM after each load that
weights have changed, and vLLM packs them anew.
"""


def register() -> None:
    """Called by vLLM in each of its processes (entry point `vllm.general_plugins`); does nothing where vLLM runs on GPUs."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    import torch
    from vllm.model_executor.layers import utils

    pack = utils.dispatch_cpu_unquantized_gemm

    def pack_and_keep(layer: torch.nn.Module, remove_weight: bool) -> None:
        pack(layer, remove_weight=False)

    utils.dispatch_cpu_unquantized_gemm = pack_and_keep
