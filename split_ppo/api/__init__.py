"""The SplitPPOJob resource: pydantic types that are the one source of the CRD, the editor schema and the reference page."""

GROUP = "splitppo.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "SplitPPOJob"
PLURAL = "splitppojobs"
SINGULAR = "splitppojob"
SHORT_NAME = "sppo"
CATEGORIES = ("all", "ray")
