{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/component: operator
{{- end }}
{{- define "muster.image" -}}
{{- with .Values.global.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .Values.image.name }}:{{ .Values.global.tag | default .Chart.AppVersion }}
{{- end }}
{{- /* What --controllers is told; empty: nothing, so all of them run. */}}
{{- define "muster.controllers" -}}
{{- $list := .Values.operator.controllers }}
{{- if not .Values.defaultQueue.createDefaultQueue }}
{{- $list = append $list "-defaults" }}
{{- end }}
{{- if not .Values.global.mpi }}
{{- if has "mpijob" $list }}
{{- fail "operator.controllers: mpijob needs global.mpi: the launchers of MPIJobs run commands in pods" }}
{{- end }}
{{- $list = append $list "-mpijob" }}
{{- end }}
{{- join "," $list }}
{{- end }}
{{- /* "yes" where the operator of `root` runs the controller `name`. */}}
{{- define "muster.runs" -}}
{{- $list := splitList "," (include "muster.controllers" .root) }}
{{- $only := false }}
{{- range $list }}
{{- if and . (not (hasPrefix "-" .)) }}
{{- $only = true }}
{{- end }}
{{- end }}
{{- if has "*" $list }}
{{- $only = false }}
{{- end }}
{{- if and (not (has (printf "-%s" .name) $list)) (or (not $only) (has .name $list)) }}yes{{ end }}
{{- end }}
{{- /* "yes" where others than kubectl port-forward reach the page. */}}
{{- define "muster.page.service" -}}
{{- if and .Values.page.enabled (or .Values.page.tlsSecret .Values.page.plain) }}yes{{ end }}
{{- end }}
{{- define "muster.page.mounts" -}}
{{- if .Values.page.enabled }}
{{- with .Values.page.tlsSecret }}
- {name: page, mountPath: /etc/muster/page, readOnly: true}
{{- end }}
{{- with .Values.page.proxy.secretName }}
- {name: page-proxy, mountPath: /etc/muster/page-proxy, readOnly: true}
{{- end }}
{{- with .Values.page.proxy.clientSecretName }}
- {name: page-proxy-ca, mountPath: /etc/muster/page-proxy-ca, readOnly: true}
{{- end }}
{{- end }}
{{- end }}
{{- define "muster.page.volumes" -}}
{{- with .Values.page.tlsSecret }}
- {name: page, secret: {secretName: {{ . }}}}
{{- end }}
{{- with .Values.page.proxy.secretName }}
- {name: page-proxy, secret: {secretName: {{ . }}, items: [{key: secret, path: secret}]}}
{{- end }}
{{- with .Values.page.proxy.clientSecretName }}
- {name: page-proxy-ca, secret: {secretName: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}}
{{- end }}
{{- end }}
