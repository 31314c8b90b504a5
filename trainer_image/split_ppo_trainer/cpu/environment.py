"""Environment of every process of a run on the CPU.

These have to stand before torch, verl or vLLM are imported, so they travel as the job's Ray runtime environment. What
the user's own environment says wins.
"""

from collections.abc import Mapping


def cpu_environment(current: Mapping[str, str], *, offline: bool) -> dict[str, str]:
    """Variables to set for a run on the CPU; `offline` when every model is a local folder."""
    wanted = {
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "split_ppo_trainer.cpu.platform",
        # One thread per process: pools stand for machines of their own, and a dozen processes share these cores.
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # Every step asks for the same large buffers. Left alone, the allocator gives each back to the kernel and gets the next
        # as new pages to be zeroed: thousands a second, and memory traffic that the pool on the next core feels.
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
        # torch.compile is reached in the first generation even with enforce_eager; it wants a C++ compiler and a minute.
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        # Lets the executor "uni" stand (config.py asks for it): on the CPU vLLM makes it "mp" otherwise.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
    if offline:
        wanted["HF_HUB_OFFLINE"] = "1"
    return {name: current.get(name, value) for name, value in wanted.items()}
