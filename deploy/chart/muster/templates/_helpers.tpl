{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/component: operator
{{- end }}
{{- define "muster.image" -}}
{{- with .Values.global.registry }}{{ . }}/{{ end }}{{ .Values.image.name }}:{{ .Values.global.tag | default .Chart.AppVersion }}
{{- end }}
