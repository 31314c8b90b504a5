"""The Kubernetes half: turns SplitPPOJobs into RayClusters and follows them to their end."""
