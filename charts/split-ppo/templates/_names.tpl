{{- define "split-ppo.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{- define "split-ppo.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else if contains (include "split-ppo.name" .) .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "split-ppo.name" .) | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Of objects that have no namespace, and of those in namespaces of others. */ -}}
{{- define "split-ppo.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "split-ppo.fullname" .) -}}
{{- end -}}

{{- define "split-ppo.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "split-ppo.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.create is false: say in serviceAccount.name which ServiceAccount the operator shall use." .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "split-ppo.selector" -}}
app.kubernetes.io/name: {{ include "split-ppo.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "split-ppo.labels" -}}
{{ include "split-ppo.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "split-ppo.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "split-ppo.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "split-ppo.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ int . }}
runAsGroup: {{ int . }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}
