"""Split-placement PPO: one SplitPPOJob, planned, trained here, or trained on Kubernetes."""

__version__ = "0.1.0"
