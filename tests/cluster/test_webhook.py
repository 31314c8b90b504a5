"""Admission webhooks served by pods work: the API server reaches a Service's pods, on whatever node they are."""

import base64
import time
from pathlib import Path

import pytest

from cluster.test_nodes import pod, run, service
from testbed import pki
from testbed.api import ApiError
from testbed.cluster import Namespace

# Refuses every object that does not carry the label `polite`, and says so.
SCRIPT = """
import http.server, json, ssl
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers['Content-Length'])))['request']
        polite = 'polite' in review['object']['metadata'].get('labels', {})
        answer = {'uid': review['uid'], 'allowed': polite, 'status': {'message': 'say please'}}
        body = json.dumps({'apiVersion': 'admission.k8s.io/v1', 'kind': 'AdmissionReview', 'response': answer}).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(('', 8443), Answer)
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain('/certificate/tls.crt', '/certificate/tls.key')
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def config_map(name: str, **labels: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


@pytest.mark.parametrize("which", [0, 1])
def test_a_pod_decides_what_is_admitted(real_namespace: Namespace, tmp_path: Path, which: int) -> None:
    node = real_namespace.cluster.real_nodes()[which]
    authority = pki.make_authority(tmp_path, "webhook-ca")
    own = authority.issue("webhook", "/CN=webhook", hosts=(f"webhook.{real_namespace.name}.svc",))
    encoded = {
        "tls.crt": base64.b64encode(own.certificate.read_bytes()).decode(),
        "tls.key": base64.b64encode(own.key.read_bytes()).decode(),
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "certificate"}, "type": "kubernetes.io/tls"}
    real_namespace.apply({**secret, "data": encoded})
    volume = {"volumes": [{"name": "certificate", "secret": {"secretName": "certificate"}}]}
    server = pod(real_namespace, "webhook", script=SCRIPT, node=node, **volume)
    server["spec"]["containers"][0] |= {
        "volumeMounts": [{"name": "certificate", "mountPath": "/certificate"}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
    }
    run(real_namespace, server)
    real_namespace.apply(service("webhook", ports=[{"port": 443, "targetPort": 8443}]))
    hook = {
        "name": "politeness.split-ppo.test",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {
            "caBundle": base64.b64encode(authority.own.certificate.read_bytes()).decode(),
            "service": {"namespace": real_namespace.name, "name": "webhook"},
        },
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": real_namespace.name}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    }
    configuration = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    real_namespace.apply({**configuration, "metadata": {"name": real_namespace.name}, "webhooks": [hook]})
    try:
        assert refusal(real_namespace) == "say please"
        real_namespace.apply(config_map("polite", polite="yes"))
    finally:
        real_namespace.api.delete("validatingwebhookconfigurations.admissionregistration.k8s.io", real_namespace.name)


def refusal(namespace: Namespace) -> str:
    """What the webhook says to an impolite object, once the API server has taken notice of it (it does so in a second)."""
    for attempt in range(100):
        try:
            namespace.apply(config_map(f"rude-{attempt}"))
        except ApiError as error:
            if "no endpoints available" not in str(error):
                return str(error).rpartition(": ")[2]
        time.sleep(0.2)  # nothing tells when the API server has read the new configuration
    return "nothing"
