"""What should exist for a job: pure functions from (job, plan, attempt) to Kubernetes objects.

Names are functions of job and attempt, never random, so that a crash between two writes can't make a second of anything.
"""

from split_ppo_operator.desired.names import cluster_name
from split_ppo_operator.desired.objects import desired_objects
from split_ppo_operator.desired.pods import pod_request

__all__ = ["cluster_name", "desired_objects", "pod_request"]
