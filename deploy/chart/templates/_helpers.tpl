{{- define "windlass.name" -}}
{{- if contains "windlass" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-windlass" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "windlass.selector" -}}
app.kubernetes.io/name: windlass
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "windlass.labels" -}}
{{ include "windlass.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "windlass.image" -}}
{{- $repository := required "image.repository: name the image that you built from deploy/image/Dockerfile" .Values.image.repository -}}
{{- if .Values.image.digest }}{{ $repository }}@{{ .Values.image.digest }}{{ else }}{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{/* A setting as a variable. Lists are separated by blanks. */}}
{{- define "windlass.settings" -}}
{{- range $name, $value := .Values.settings }}
- name: WINDLASS_{{ $name | upper }}
  value: {{ if kindIs "slice" $value }}{{ join " " $value | quote }}{{ else if kindIs "float64" $value }}{{ $value | int64 | toString | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end }}

{{- define "windlass.secrets" -}}
- name: WINDLASS_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.secret | quote }}, key: database-url}}
- name: WINDLASS_KEY
  valueFrom: {secretKeyRef: {name: {{ .Values.secret | quote }}, key: key}}
- name: WINDLASS_ADMIN_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .Values.secret | quote }}, key: admin-token, optional: true}}
{{- end }}

{{- define "windlass.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "windlass.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
