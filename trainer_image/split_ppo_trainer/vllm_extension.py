"""What vLLM's workers have in addition to verl's own extension: the run's socket, and who they are and how much memory they take.

config.py names this class where vLLM asks for one. It runs in vLLM's processes, which Ray does not know.
"""

import os

from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

from split_ppo_trainer.sockets import await_listener, own_handle
from split_ppo_trainer.usage import memory_bytes


class WorkerExtension(vLLMColocateWorkerExtension):
    def _get_zmq_handle(self) -> str:
        """Asked for right before verl connects to it."""
        handle = own_handle(super()._get_zmq_handle(), os.environ)
        await_listener(handle)
        return handle

    def memory_bytes(self) -> int:
        return memory_bytes()

    def process_id(self) -> int:
        return os.getpid()
