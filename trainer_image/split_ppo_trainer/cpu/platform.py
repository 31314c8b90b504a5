"""verl's platform named "cpu": chosen by VERL_PLATFORM, never detected.

verl asks its platform for a device name, a communication backend and a module that looks like torch.cuda. GPUs of a
pool are logical slots here (`ray start --num-gpus`), so the Ray resource keeps its name and placement is the same code
as on GPUs.
"""

import contextlib
import os
import types
from collections.abc import Iterator
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


class CpuDevice(types.ModuleType):
    """torch.cpu, plus the calls of torch.cuda that verl makes whatever the device is."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(torch.cpu, name)

    def is_available(self) -> bool:
        return False  # verl's memory helpers return early on this

    def memory_allocated(self, *_: Any) -> int:
        return 0

    memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated

    def mem_get_info(self, *_: Any) -> tuple[int, int]:
        return 0, 0

    def empty_cache(self, *_: Any) -> None:
        """Nothing is cached."""

    ipc_collect = reset_peak_memory_stats = set_device = synchronize = empty_cache

    def get_device_name(self, *_: Any) -> str:
        return "CPU"

    def get_rng_state(self, *_: Any) -> Any:
        return torch.get_rng_state()

    def set_rng_state(self, state: Any, *_: Any) -> None:
        torch.set_rng_state(state)


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """Answers of a machine whose accelerator is its cores."""

    _device = CpuDevice("split_ppo_cpu_device")

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> types.ModuleType:
        return self._device

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False

    def current_device(self) -> Any:
        return torch.device("cpu")  # verl does tensor.to(this); a number would mean cuda

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        """There is one."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Calls return when they are done."""

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """There is no caching allocator."""

    def empty_cache(self) -> None:
        """There is no caching allocator."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "SPLIT_PPO_VISIBLE_SLOTS"

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        """No device profiler."""

    def profiler_stop(self) -> None:
        """No device profiler."""

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False  # weights reach vLLM through /dev/shm

    def cudart(self) -> Any:
        return None
