"""Environment variables that every process of a run needs, by device: in the pods and on this machine alike."""

from split_ppo.api.placement_spec import Device

_ALWAYS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "TOKENIZERS_PARALLELISM": "false",
}
_CPU = {
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": "split_ppo_trainer.cpu.platform",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # Without it the first generation compiles for most of a minute and needs a C++ compiler.
    "TORCHDYNAMO_DISABLE": "1",
}


def environment(device: Device) -> dict[str, str]:
    return {**_ALWAYS, **(_CPU if device == "CPU" else {})}
