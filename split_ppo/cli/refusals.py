"""What an API server refuses, as sentences that say what is missing and who can help. Pure: an answer in, words out."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from split_ppo.api import GROUP

NO_CRD = (
    "This cluster knows no SplitPPOJobs: the operator is not installed here, or this is not the cluster you meant{where}. "
    "`split-ppo schema --crd | kubectl apply -f -` installs the resource alone."
)
_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_REASONS = (
    ("Connection refused", "nothing listens there"),
    ("Name or service not known", "there is no such host"),
    ("No route to host", "there is no way to it"),
    ("timed out", "it does not answer"),
    ("certificate", "its certificate is not the one that the kubeconfig trusts"),
    ("Connection reset", "it broke off the connection"),
)


class ClusterError(Exception):
    """The cluster can't or won't; the text is for the user. Status 0 when it could not be reached."""

    def __init__(self, text: str, *, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Answer:
    """A refusal as it came over the wire."""

    status: int
    text: str

    @property
    def body(self) -> dict[str, Any]:
        try:
            found = json.loads(self.text)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def from_api_server(self) -> bool:
        """The API server's own refusals are a JSON Status; what it passes on from a service is whatever that says."""
        return self.body.get("kind") == "Status"


def explain(answer: Answer, *, path: str, context: str = "", purpose: str = "") -> ClusterError:
    """The sentence for a refusal of `path`; `purpose` says what the refused thing was wanted for."""
    where = f" (context {context})" if context else ""
    message = str(answer.body.get("message") or answer.text.strip()[:500])
    details = answer.body.get("details") or {}
    if answer.status == 401:
        text = f"The API server does not know you{where}: log in again, or choose another context with --context."
    elif answer.status == 403:
        text = _forbidden(message, purpose)
    elif answer.status == 404 and not details.get("name") and f"/{GROUP}/" in path:
        text = NO_CRD.format(where=where)
    elif answer.status == 404 and not details.get("name"):
        text = f"The API server{where} knows nothing of {path}."
    elif answer.status == 404:
        text = f"There is no {_kind(details)} {details['name']}."
    elif answer.status in (400, 409, 422):
        text = _sentence(_causes(answer.body) or message)
    else:
        text = f"The API server answers {answer.status}: {_sentence(message)}"
    return ClusterError(text, status=answer.status)


def unreachable(server: str, error: object, *, context: str) -> ClusterError:
    """The API server did not answer at all."""
    found = str(error)
    reason = next((words for sign, words in _REASONS if sign in found), found.rsplit(": ", 1)[-1])
    using = f" of the context {context}" if context else ""
    return ClusterError(f"The API server{using}, {server}, can't be reached: {reason}.")


def unknown(what: str, name: str, known: Iterable[str], *, where: str) -> str:
    """`There is no job trian in namespace ml. Did you mean train?`"""
    names = sorted(known)
    meant = get_close_matches(name, names, n=1)
    if meant:
        hint = f" Did you mean {meant[0]}?"
    elif names:
        hint = f" There {'is' if len(names) == 1 else 'are'} {', '.join(names[:8])}{' …' if len(names) > 8 else ''}."
    else:
        hint = ""
    return f"There is no {what} {name}{where}.{hint}"


def _forbidden(message: str, purpose: str) -> str:
    found = _FORBIDDEN.search(message)
    if found is None:
        return f"The API server forbids it: {_sentence(message)}"
    resource = found["resource"] + (f".{found['group']}" if found["group"] else "")
    where = f" in namespace {found['namespace']}" if found["namespace"] else " in the whole cluster"
    need = f" {purpose}" if purpose else ""
    return (
        f"You are {found['user']} and may not {found['verb']} {resource}{where}.{need} "
        f"Whoever manages the cluster can allow it: a Role with the verb {found['verb']} on {resource}."
    )


def _causes(body: dict[str, Any]) -> str:
    """Every complaint about the object, each with its field; the message repeats them in one line."""
    causes = (body.get("details") or {}).get("causes") or []
    lines = [": ".join(filter(None, (c.get("field", ""), _tidy(c.get("message", ""))))) for c in causes]
    return "\n  ".join([f"The API server does not accept it, for {len(lines)} reasons:", *lines]) if lines[1:] else ""


def _tidy(message: str) -> str:
    return re.sub(r"^Invalid value: .*?: (?=[a-z])", "", message, count=1, flags=re.DOTALL)


def _kind(details: dict[str, Any]) -> str:
    if details.get("kind") == "namespaces":
        return "namespace"
    group = details.get("group", "")
    return str(details.get("kind", "object")) + (f".{group}" if group else "")


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
