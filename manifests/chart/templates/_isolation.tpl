{{/* The flags of both programs about networks of other namespaces. OpenShift's Multus isolates namespaces. */}}
{{- define "nadra.isolation" -}}
{{- $global := .Values.globalNamespaces }}
{{- if .Values.openshift }}
{{- $global = concat $global (list "openshift-multus" "openshift-sriov-network-operator" "openshift-cnv") | uniq }}
{{- end }}
{{- if or .Values.namespaceIsolation .Values.openshift }}
- --namespace-isolation
- {{ printf "--global-namespaces=%s" (join "," $global) | quote }}
{{- end }}
{{- end }}
