"""What makes verl, FSDP and vLLM run on a machine without GPUs. Loaded only there; nothing here is imported on GPUs.

Everything goes through registries of verl and a plugin entry point of vLLM. This file stays empty of imports: vLLM
loads the plugin below in every one of its processes and must not pull in verl with it.
"""
