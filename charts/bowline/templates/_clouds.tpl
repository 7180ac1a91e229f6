{{/*
What differs from cloud to cloud: the original's Lease and port; where a Secret with files is mounted; the file of --cloud-config
in the ConfigMap, the value that says it, and whether the program follows its changes; and what the cloud can do.
*/}}
{{- define "bowline.cloud" -}}
{{- if .Values.config -}}
{{- if .Values.provider -}}
{{- fail "provider and config exclude each other: the clouds are in config" -}}
{{- end -}}
{{- if not .Values.config.clouds -}}
{{- fail "config.clouds is empty: say which clouds this is for, see docs/reference/configuration.md" -}}
{{- end -}}
lease: cloud-controller-manager
port: 10258
secretPath: /var/run/secrets/talos.dev
configValue: config
{{- if or (include "bowline.uses" (list . "cloudscale")) (include "bowline.uses" (list . "exoscale"))
          (include "bowline.uses" (list . "triton")) }}
hasLoadBalancers: true
{{- end }}
{{- if include "bowline.uses" (list . "talos") }}
knowsRanges: true
{{- end }}
{{- else if eq .Values.provider "cloudscale" -}}
lease: cloud-controller-manager
port: 10258
secretPath: /etc/bowline/cloudscale
hasLoadBalancers: true
{{- else if eq .Values.provider "exoscale" -}}
lease: cloud-controller-manager
port: 10258
secretPath: /etc/bowline/exoscale
configFile: cloud.yaml
configValue: exoscale.cloudConfig
hasLoadBalancers: true
{{- else if eq .Values.provider "talos" -}}
lease: cloud-controller-manager-talos
port: 10458
# Where the program looks by default.
secretPath: /var/run/secrets/talos.dev
# The original's key: its ConfigMap has the same name.
configFile: ccm-config.yaml
configValue: talos.cloudConfig
followsConfig: true
knowsRanges: true
{{- else if eq .Values.provider "xenorchestra" -}}
lease: cloud-controller-manager-xenorchestra
port: 10258
secretPath: /etc/xenorchestra
configValue: xenorchestra.config
{{- else if eq .Values.provider "triton" -}}
lease: cloud-controller-manager
port: 10258
configFile: cloud.yaml
configValue: triton.cloudConfig
hasLoadBalancers: true
{{- else if eq .Values.provider "static" -}}
{{- if not .Values.static.cloudConfig.machines -}}
{{- fail "static.cloudConfig.machines is empty: list the machines, see docs/reference/static.md" -}}
{{- end -}}
lease: cloud-controller-manager
port: 10258
configFile: machines.yaml
configValue: static.cloudConfig
followsConfig: true
{{- else -}}
{{- fail "provider is empty: say which cloud this is for, such as provider=cloudscale, or give config for several" -}}
{{- end -}}
{{- end -}}

{{/* Whether a cloud of that kind is there: the chart, and the kind. */}}
{{- define "bowline.uses" -}}
{{- $values := (first .).Values -}}
{{- $provider := last . -}}
{{- if eq $values.provider $provider -}}yes{{- end -}}
{{- range get $values.config "clouds" | default list -}}
{{- if eq (toString .provider) $provider -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secrets that a part of config refers to, as NAMESPACE/NAME, one in each line: the part, and our namespace. */}}
{{- define "bowline.secretsIn" -}}
{{- $part := first . -}}
{{- $namespace := last . -}}
{{- if kindIs "map" $part -}}
{{- $secret := get $part "secret" -}}
{{- if and (eq (len $part) 1) (kindIs "map" $secret) -}}
{{- printf "%s/%s\n" ($secret.namespace | default $namespace) $secret.name -}}
{{- else -}}
{{- range $part -}}{{- include "bowline.secretsIn" (list . $namespace) -}}{{- end -}}
{{- end -}}
{{- else if kindIs "slice" $part -}}
{{- range $part -}}{{- include "bowline.secretsIn" (list . $namespace) -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* What has to be read of Secrets, by namespace and verbs: lists of names. */}}
{{- define "bowline.secretRights" -}}
{{- $chart := . -}}
{{- $rights := dict -}}
{{- range get .Values.config "clouds" | default list -}}
{{- $followed := dig "settings" "credentialsSecret" "" . -}}
{{- $read := include "bowline.secretsIn" (list . $chart.Release.Namespace) | trim | splitList "\n" -}}
{{- range $verbs, $places := dict "get" $read "list, watch" (list $followed) -}}
{{- range compact $places -}}
{{- $namespace := dir . -}}
{{- $here := get $rights $namespace | default dict -}}
{{- $_ := set $here $verbs (append (get $here $verbs | default list) (base .) | uniq | sortAlpha) -}}
{{- $_ := set $rights $namespace $here -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $rights -}}
{{- end -}}

{{/* The Secret that is mounted, if one is. */}}
{{- define "bowline.mountedSecret" -}}
{{- if eq .Values.provider "cloudscale" -}}
{{- with .Values.cloudscale.token -}}
{{- if .asFile -}}{{- .existingSecret -}}{{- end -}}
{{- end -}}
{{- else if eq .Values.provider "exoscale" -}}
{{- with .Values.exoscale.credentials -}}
{{- if .file -}}{{- .existingSecret -}}{{- end -}}
{{- end -}}
{{- else if include "bowline.uses" (list . "talos") -}}
{{- .Values.talos.credentials.existingSecret | default (include "bowline.talos.account" .) -}}
{{- else if and (eq .Values.provider "xenorchestra") (not .Values.xenorchestra.variables.existingSecret) -}}
{{- .Values.xenorchestra.config.existingSecret -}}
{{- end -}}
{{- end -}}

{{- define "bowline.cloudscale.env" -}}
{{- $values := .Values.cloudscale -}}
{{- with $values.token -}}
{{- if .asFile -}}
{{- include "bowline.variable" (dict "name" "CLOUDSCALE_ACCESS_TOKEN_FILE"
      "value" (printf "%s/%s" (include "bowline.cloud" $ | fromYaml).secretPath .key)) -}}
{{- else -}}
{{- include "bowline.variable" (dict "name" "CLOUDSCALE_ACCESS_TOKEN" "secret" .existingSecret "key" .key) -}}
{{- end -}}
{{- end -}}
{{- include "bowline.variable" (dict "name" "CLOUDSCALE_API_URL" "value" $values.apiUrl) -}}
{{- $optional := dict "apiTimeoutSeconds" "API_TIMEOUT" "ownershipTags" "OWNERSHIP_TAGS" "driftCheckPeriod" "DRIFT_CHECK_PERIOD"
      "serviceSourceRanges" "SERVICE_SOURCE_RANGES" "matchByAddress" "MATCH_BY_ADDRESS"
      "clusterNameAnnotation" "CLUSTER_NAME_ANNOTATION" -}}
{{- range $key, $variable := $optional -}}
{{- if hasKey $values $key -}}
{{- include "bowline.variable" (dict "name" (printf "CLOUDSCALE_%s" $variable) "value" (get $values $key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* It needs none. */}}
{{- define "bowline.static.env" -}}
{{- end -}}

{{- define "bowline.exoscale.env" -}}
{{- $values := .Values.exoscale -}}
{{- with $values.credentials -}}
{{- if .file -}}
{{- include "bowline.variable" (dict "name" "EXOSCALE_API_CREDENTIALS_FILE"
      "value" (printf "%s/%s" (include "bowline.cloud" $ | fromYaml).secretPath .file)) -}}
{{- else -}}
{{- include "bowline.variable" (dict "name" "EXOSCALE_API_KEY" "secret" .existingSecret "key" "api-key") -}}
{{- include "bowline.variable" (dict "name" "EXOSCALE_API_SECRET" "secret" .existingSecret "key" "api-secret") -}}
{{- end -}}
{{- end -}}
{{- with $values.zone -}}
{{- include "bowline.variable" (dict "name" "EXOSCALE_API_ZONE" "value" .) -}}
{{- end -}}
{{- with $values.apiEndpoint -}}
{{- include "bowline.variable" (dict "name" "EXOSCALE_API_ENDPOINT" "value" .) -}}
{{- end -}}
{{- if $values.csrApproval.enabled -}}
{{- include "bowline.variable" (dict "name" "EXOSCALE_SKS_AGENT_RUNNERS" "value" "node-csr-validation") -}}
{{- end -}}
{{- end -}}

{{/* The object of talos.dev, and the Secret that Talos makes for it. */}}
{{- define "bowline.talos.account" -}}
{{- with .Values.talos.credentials -}}
{{- if and .create (not .existingSecret) -}}
{{- printf "%s-talos-secrets" (include "bowline.account" $) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What Talos makes names talos.default, which is known to the cluster's DNS alone. */}}
{{- define "bowline.talos.env" -}}
{{- $onControlPlane := hasKey (.Values.nodeSelector | default dict) "node-role.kubernetes.io/control-plane" -}}
{{- if .Values.talos.endpoints -}}
{{- include "bowline.variable" (dict "name" "TALOS_ENDPOINTS" "value" (join "," .Values.talos.endpoints)) -}}
{{- else if include "bowline.talos.account" . -}}
{{- if and .Values.hostNetwork $onControlPlane -}}
{{- include "bowline.variable" (dict "name" "TALOS_ENDPOINTS" "field" "status.podIP") -}}
{{- else if eq .Values.dnsPolicy "Default" -}}
{{- fail "talos.endpoints is empty, and dnsPolicy=Default does not know talos.default, where Talos is for pods: set one of them" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whom the event is about that tells that Xen Orchestra cannot be reached. */}}
{{- define "bowline.xenorchestra.env" -}}
{{- range $name, $field := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" "POD_UID" "metadata.uid" -}}
{{- include "bowline.variable" (dict "name" $name "field" $field) -}}
{{- end -}}
{{- end -}}

{{/* The Secret that is followed: yours, or the one that is made for triton.privateKey. */}}
{{- define "bowline.triton.secret" -}}
{{- if .Values.triton.privateKey -}}
{{- printf "%s-credentials" (include "bowline.name" .) -}}
{{- else -}}
{{- .Values.triton.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* Whether Prometheus is led to the machines' metrics. */}}
{{- define "bowline.triton.showsMetrics" -}}
{{- if and (eq .Values.provider "triton") (ne .Values.triton.metrics.mode "off") -}}yes{{- end -}}
{{- range get .Values.config "clouds" | default list -}}
{{- if and (eq (toString .provider) "triton") (ne (dig "settings" "metrics" "mode" "off" .) "off") -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{/* Flags of Triton, by the value that each has below `triton`. With a key of yours its id is in the Secret, so that both change
together. */}}
{{- define "bowline.triton.flags" -}}
endpoint: triton-endpoint
account: triton-account
user: triton-user
datacenter: triton-datacenter
{{- if not .Values.triton.privateKey }}
keyId: triton-key-id
{{- end }}
{{- end -}}

{{- define "bowline.triton.args" -}}
{{- $values := .Values.triton -}}
- --triton-credentials-secret={{ .Release.Namespace }}/{{ include "bowline.triton.secret" . }}
{{- range $value, $flag := include "bowline.triton.flags" . | fromYaml }}
{{- with get $values $value }}
- {{ printf "--%s=%s" $flag . | quote }}
{{- end }}
{{- end }}
{{- if $values.caBundle }}
- --triton-ca-file=/etc/bowline/triton/ca.crt
{{- end }}
{{- if and $values.routes.enabled (not .Values.ipam.enabled) }}
{{- if not .Values.ipam.clusterCIDRs -}}
{{- fail "triton.routes.enabled needs ipam.clusterCIDRs: say which addresses pods have, such as ipam.clusterCIDRs={10.244.0.0/16}" -}}
{{- end }}
- --cluster-cidr={{ join "," .Values.ipam.clusterCIDRs }}
{{- end }}
{{- end -}}

{{/* Sections of the file of --cloud-config that have values of their own; what is as without them is left out. */}}
{{- define "bowline.triton.config" -}}
{{- $values := .Values.triton -}}
{{- with $values.loadBalancer }}
{{- $given := dict "publicNetwork" .publicNetwork "privateNetwork" .privateNetwork "clbImage" .clb.image "clbPackage" .clb.package }}
{{- $changed := dict "mode" (list .mode "cns") "clbReplicas" (list (int .clb.replicas) 1) "firewall" (list .firewall "auto") }}
loadBalancer:
{{- range $key, $value := $given }}
{{- if $value }}
  {{ $key }}: {{ $value | quote }}
{{- end }}
{{- end }}
{{- range $key, $pair := $changed }}
{{- if ne (first $pair) (last $pair) }}
  {{ $key }}: {{ first $pair }}
{{- end }}
{{- end }}
{{- end }}
routes:
{{- if $values.routes.enabled }}
  enabled: true
{{- with $values.routes.networks }}
  networks: {{ toJson . }}
{{- end }}
{{- end }}
metrics:
{{- if ne $values.metrics.mode "off" }}
  mode: {{ $values.metrics.mode }}
{{- end }}
{{- end -}}

{{/* The environment configures no cloud of config; it says whom events are about. */}}
{{- define "bowline.config.env" -}}
{{- if include "bowline.uses" (list . "xenorchestra") -}}
{{- include "bowline.xenorchestra.env" . -}}
{{- else if include "bowline.uses" (list . "triton") -}}
{{- include "bowline.triton.env" . -}}
{{- end -}}
{{- end -}}

{{/* Whom an event is about that is about the manager itself. */}}
{{- define "bowline.triton.env" -}}
{{- range $name, $field := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" -}}
{{- include "bowline.variable" (dict "name" $name "field" $field) -}}
{{- end -}}
{{- end -}}
