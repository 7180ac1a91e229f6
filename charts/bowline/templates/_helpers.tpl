{{/* The name of everything. */}}
{{- define "bowline.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "bowline" .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-bowline" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "bowline.account" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "bowline.name" . -}}
{{- else -}}
{{- fail "serviceAccount.name is empty: with serviceAccount.create=false, name an account that exists" -}}
{{- end -}}
{{- end -}}

{{- define "bowline.selectorLabels" -}}
{{- if .Values.selectorLabels -}}
{{- toYaml .Values.selectorLabels -}}
{{- else -}}
app.kubernetes.io/name: bowline
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- end -}}

{{/* Helm adds its own when it installs. */}}
{{- define "bowline.labels" -}}
app.kubernetes.io/name: bowline
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "bowline.image" -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is empty: build the image with deploy/image, push it to your registry, and say where it is" -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Flags that have a value here, and those that need rights we do not give. */}}
{{- define "bowline.checkedArgs" -}}
{{- $ours := dict "cloud-provider" "provider" "cluster-name" "clusterName" "concurrent-service-syncs" "concurrentServiceSyncs"
      "leader-elect-resource-name" "leaderElection.name" "leader-elect-resource-namespace" "leaderElection.namespace"
      "mode" "mode" "secure-port" "securePort" "v" "logLevel" -}}
{{- if eq .Values.provider "exoscale" -}}
{{- $_ := set $ours "cloud-config" "exoscale.cloudConfig" -}}
{{- end -}}
{{- range .Values.extraArgs -}}
{{- $flag := regexReplaceAll "^--?([^=]*).*$" . "$1" | replace "_" "-" -}}
{{- if hasKey $ours $flag -}}
{{- fail (printf "extraArgs has %q: set the value %s instead" . (get $ours $flag)) -}}
{{- end -}}
{{- if and $.Values.rbac.create (has $flag (list "use-service-account-credentials" "enable-leader-migration")) -}}
{{- fail (printf "extraArgs has %q, which needs more rights than this chart gives: make the roles yourself, and set rbac.create=false" .) -}}
{{- end }}
- {{ . | quote }}
{{- end -}}
{{- end -}}

{{/* The cloud's variables, and the files that they name. */}}
{{- define "bowline.env" -}}
{{- if eq .Values.provider "cloudscale" -}}
{{- include "bowline.cloudscale.env" .Values.cloudscale -}}
{{- else if eq .Values.provider "exoscale" -}}
{{- include "bowline.exoscale.env" .Values.exoscale -}}
{{- else if .Values.provider -}}
{{- fail (printf "the chart cannot deploy provider=%s yet: run the image in the place of its original" .Values.provider) -}}
{{- else -}}
{{- fail "provider is empty: say which cloud this is for, such as provider=cloudscale" -}}
{{- end -}}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{- define "bowline.cloudscale.env" -}}
{{- if .token.asFile -}}
- name: CLOUDSCALE_ACCESS_TOKEN_FILE
  value: {{ printf "/etc/bowline/cloudscale/%s" .token.key | quote }}
{{- else -}}
- name: CLOUDSCALE_ACCESS_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .token.existingSecret }}
      key: {{ .token.key }}
{{- end }}
- name: CLOUDSCALE_API_URL
  value: {{ .apiUrl | quote }}
{{- $values := . }}
{{- $optional := dict "apiTimeoutSeconds" "API_TIMEOUT" "ownershipTags" "OWNERSHIP_TAGS" "driftCheckPeriod" "DRIFT_CHECK_PERIOD"
      "serviceSourceRanges" "SERVICE_SOURCE_RANGES" "matchByAddress" "MATCH_BY_ADDRESS"
      "clusterNameAnnotation" "CLUSTER_NAME_ANNOTATION" }}
{{- range $key, $variable := $optional }}
{{- if hasKey $values $key }}
- name: CLOUDSCALE_{{ $variable }}
  value: {{ get $values $key | toString | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "bowline.exoscale.env" -}}
{{- if .credentials.file -}}
- name: EXOSCALE_API_CREDENTIALS_FILE
  value: {{ printf "/etc/bowline/exoscale/%s" .credentials.file | quote }}
{{- else -}}
- name: EXOSCALE_API_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .credentials.existingSecret }}
      key: api-key
- name: EXOSCALE_API_SECRET
  valueFrom:
    secretKeyRef:
      name: {{ .credentials.existingSecret }}
      key: api-secret
{{- end }}
{{- with .zone }}
- name: EXOSCALE_API_ZONE
  value: {{ . | quote }}
{{- end }}
{{- with .apiEndpoint }}
- name: EXOSCALE_API_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- if .csrApproval.enabled }}
- name: EXOSCALE_SKS_AGENT_RUNNERS
  value: node-csr-validation
{{- end }}
{{- end -}}

{{/* The file of --cloud-config: what is given, and what is switched off. Nothing if all is as without one. */}}
{{- define "bowline.cloudConfig" -}}
{{- if eq .Values.provider "exoscale" -}}
{{- $config := deepCopy .Values.exoscale.cloudConfig -}}
{{- range $value, $section := dict "nodes" "instances" "loadBalancer" "loadBalancer" -}}
{{- if not (get $.Values.exoscale $value).enabled -}}
{{- $_ := set $config $section (merge (dict "disabled" true) (get $config $section | default dict)) -}}
{{- end -}}
{{- end -}}
{{- if $config -}}
{{- toYaml $config -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secret that is mounted, if one is. */}}
{{- define "bowline.mountedSecret" -}}
{{- if and (eq .Values.provider "cloudscale") .Values.cloudscale.token.asFile -}}
{{- .Values.cloudscale.token.existingSecret -}}
{{- else if and (eq .Values.provider "exoscale") .Values.exoscale.credentials.file -}}
{{- .Values.exoscale.credentials.existingSecret -}}
{{- end -}}
{{- end -}}
