"""The training half: verl's PPO with its roles on separate pools, on Kubernetes or on this machine."""
