"""Which refusals of the API server may go through later."""

import pytest

from split_ppo_operator.cluster import ApiError

UNHEARD_OF = (
    'serviceaccounts "job-trainer" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for '
    'APIVersion splitppo.io/v1alpha1 Kind SplitPPOJob: no matches for kind "SplitPPOJob" in version "splitppo.io/v1alpha1"'
)


@pytest.mark.parametrize(
    ("status", "message", "transient"),
    [
        (0, "the API server can't be reached", True),
        (409, "the object has been modified", True),
        (429, "too many requests", True),
        (503, "etcd is leaderless", True),
        (403, UNHEARD_OF, True),
        (403, 'serviceaccounts is forbidden: User "operator" cannot create resource', False),
        (422, "spec.workerGroupSpecs: Invalid value", False),
    ],
)
def test_what_may_go_through_later(status: int, message: str, transient: bool) -> None:
    assert ApiError(status, message).transient is transient
