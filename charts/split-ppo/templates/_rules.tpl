{{- /*
What the operator does in a namespace with jobs, verb by verb. A test runs it through a job's whole life and compares this
list with the API server's audit log: a verb too few and a verb too many both fail.
*/ -}}
{{- define "split-ppo.jobRules" -}}
# Deleted only when a job's ttlSecondsAfterFinished is over.
- apiGroups: [splitppo.io]
  resources: [splitppojobs]
  verbs: [get, list, watch, delete]
# Also what the Role of each job's trainer holds: nobody may grant what he does not have.
- apiGroups: [splitppo.io]
  resources: [splitppojobs/status]
  verbs: [patch]
# Asked for by the admission plugin OwnerReferencesPermissionEnforcement (OpenShift has it on): what is made for a job is owned by it.
- apiGroups: [splitppo.io]
  resources: [splitppojobs/finalizers]
  verbs: [update]
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# KubeRay says what is wrong with a RayCluster only in Events.
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
# The token of a job's Ray cluster. No list, no watch: its name must be known.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
# Ray's Jobs API.
- apiGroups: [""]
  resources: [services/proxy]
  verbs: [get, create]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [create, patch]
# Why Kueue keeps a job waiting.
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [list]
{{- end -}}
