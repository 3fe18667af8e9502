{{- /* Custom metrics of pods, for HorizontalPodAutoscalers: cgpu-scheduler answers beside the webhook. */ -}}
{{- define "cgpu.apiservices" -}}
{{- if .root.Values.autoscaling.enabled }}
{{- range $version, $priority := dict "v1beta1" 100 "v1beta2" 200 }}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata:
  name: {{ $version }}.custom.metrics.k8s.io
  labels:
    {{- include "cgpu.labels" $.root | nindent 4 }}
spec:
  group: custom.metrics.k8s.io
  version: {{ $version }}
  groupPriorityMinimum: 100
  versionPriority: {{ $priority }}
  service: {name: cgpu-webhook, namespace: {{ $.root.Release.Namespace }}, port: 443}
  caBundle: {{ $.bundle | quote }}
{{- end }}
{{- end }}
{{- end }}
