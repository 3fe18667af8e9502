{{- define "cgpu.webhook" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: cgpu
  labels:
    {{- include "cgpu.labels" .root | nindent 4 }}
webhooks:
- name: pods.cgpu.dev
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: {{ .root.Values.webhook.failurePolicy }}
  timeoutSeconds: 10
  clientConfig:
    service: {name: cgpu-webhook, namespace: {{ .root.Release.Namespace }}, path: /admit}
    caBundle: {{ .bundle | quote }}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    resources: [pods]
    operations: [CREATE]
    scope: Namespaced
  # Other pods do not depend on cgpu-scheduler.
  matchConditions:
  - name: asks-for-gpus
    expression: >-
      (object.spec.containers + object.spec.?initContainers.orValue([])).exists(c,
      c.?resources.?limits.orValue({}).exists(k,
      ["aliyun.com/", "cgpu.dev/", "nvidia.com/"].exists(p, k.startsWith(p))))
      || [object.metadata.?labels.orValue({}), object.metadata.?annotations.orValue({})].exists(m,
      m.exists(k, k.startsWith("aliyun.com/") || k.startsWith("cgpu.dev/")))
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      - {{ .root.Release.Namespace }}
      {{- range .root.Values.webhook.excludedNamespaces }}
      - {{ . }}
      {{- end }}
{{- end }}
