"""`helm test`: plan a job, then ask the API server with a dry run whether it would take it. Nothing is made."""

import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import yaml

FILE = "/etc/helm-test/job.yaml"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

if subprocess.run([sys.executable, "-m", "split_ppo", "plan", FILE]).returncode:
    sys.exit("The job could not be planned; see above.")
namespace = (ACCOUNT / "namespace").read_text()
server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
request = urllib.request.Request(
    f"{server}/apis/splitppo.io/v1alpha1/namespaces/{namespace}/splitppojobs?dryRun=All&fieldValidation=Strict",
    data=json.dumps(yaml.safe_load(Path(FILE).read_text())).encode(),
    headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}", "Content-Type": "application/json"},
)
try:
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    answer = json.load(urllib.request.urlopen(request, timeout=30, context=trust))
except urllib.error.HTTPError as refusal:
    sys.exit(f"The API server refuses the job: {json.load(refusal).get('message')}")
print(f"The API server would take {answer['kind']} {answer['metadata']['name']}, overlap {answer['spec']['overlap']}.")
