{{- define "retrieval.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "retrieval.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "retrieval.labels" -}}
{{ include "retrieval.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "retrieval.image" -}}
image: {{ printf "%s:%s" .root.Values.image.repository (.root.Values.image.tag | default .root.Chart.AppVersion) | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- end }}

{{- define "retrieval.prefectUrl" -}}
{{- if .Values.prefect.enabled }}http://{{ include "retrieval.name" . }}-prefect:4200/api{{ else }}{{ required "prefect.apiUrl is needed where prefect.enabled is false" .Values.prefect.apiUrl }}{{ end }}
{{- end }}

{{/* What every pod may not do. */}}
{{- define "retrieval.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "retrieval.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Settings of a role: those of values.yaml, its secrets as files, and Prefect's address where it speaks with it. */}}
{{- define "retrieval.env" -}}
{{- range $name, $value := .root.Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- range .secrets }}
- {name: RETRIEVAL_{{ . | upper }}_FILE, value: /run/secrets/retrieval/{{ . }}}
{{- end }}
{{- if .prefect }}
- {name: RETRIEVAL_PREFECT_API_URL, value: {{ include "retrieval.prefectUrl" .root | quote }}}
{{- end }}
{{- if .root.Values.caSecret }}
- {name: SSL_CERT_FILE, value: /run/secrets/ca/ca.crt}
{{- end }}
{{- end }}

{{- define "retrieval.mounts" -}}
- {name: home, mountPath: /var/lib/retrieval}
- {name: tmp, mountPath: /tmp}
- {name: secrets, mountPath: /run/secrets/retrieval, readOnly: true}
{{- if .root.Values.caSecret }}
- {name: ca, mountPath: /run/secrets/ca, readOnly: true}
{{- end }}
{{- end }}

{{- define "retrieval.volumes" -}}
- name: home
  emptyDir: {sizeLimit: {{ .home }}}
- name: tmp
  emptyDir: {sizeLimit: {{ .tmp }}}
- name: secrets
  secret:
    secretName: {{ .root.Values.existingSecret }}
    defaultMode: 0440
    items:
      {{- range .secrets }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- if .root.Values.caSecret }}
- name: ca
  secret: {secretName: {{ .root.Values.caSecret }}, defaultMode: 0444}
{{- end }}
{{- end }}

{{- define "retrieval.annotations" -}}
retrieval/secret-version: {{ .Values.secretVersion | quote }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}
