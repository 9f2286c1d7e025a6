{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/component: operator
{{- end }}
{{- define "muster.image" -}}
{{- with .Values.global.registry }}{{ . }}/{{ end }}{{ .Values.image.name }}:{{ .Values.global.tag | default .Chart.AppVersion }}
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
