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

{{/* Whom a role is for. */}}
{{- define "bowline.subjects" -}}
subjects:
- kind: ServiceAccount
  name: {{ include "bowline.account" . }}
  namespace: {{ .Release.Namespace }}
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

{{- define "bowline.lease" -}}
{{- .Values.leaderElection.name | default (include "bowline.cloud" . | fromYaml).lease -}}
{{- end -}}

{{- define "bowline.port" -}}
{{- .Values.securePort | default (include "bowline.cloud" . | fromYaml).port -}}
{{- end -}}

{{/* What --controllers says, if anything. */}}
{{- define "bowline.controllers" -}}
{{- range .Values.controllers -}}
{{- if has (trimPrefix "-" .) (list "node-ipam-controller" "nodeipam") -}}
{{- fail (printf "controllers has %q: set the value ipam.enabled instead" .) -}}
{{- end -}}
{{- end -}}
{{- $list := .Values.controllers -}}
{{- if .Values.ipam.enabled -}}
{{- $list = append ($list | default (list "*")) "node-ipam-controller" -}}
{{- end -}}
{{- join "," $list -}}
{{- end -}}

{{/* Whether a controller runs, by its names; as in the program, the first item that names it counts. */}}
{{- define "bowline.runs" -}}
{{- $names := .names -}}
{{- $items := include "bowline.controllers" .chart | default "*" | splitList "," -}}
{{- $said := list -}}
{{- range $items -}}
{{- if has (trimPrefix "-" .) $names -}}
{{- $said = append $said . -}}
{{- end -}}
{{- end -}}
{{- if $said -}}
{{- if not (hasPrefix "-" (first $said)) -}}yes{{- end -}}
{{- else if and .byDefault (has "*" $items) -}}
yes
{{- end -}}
{{- end -}}

{{- define "bowline.deletesNodes" -}}
{{- include "bowline.runs" (dict "chart" . "byDefault" true
      "names" (list "cloud-node-lifecycle" "cloud-node-lifecycle-controller")) -}}
{{- end -}}

{{- define "bowline.approvesCertificates" -}}
{{- $approving := list -}}
{{- range get .Values.config "clouds" | default list -}}
{{- if and (eq (toString .provider) "exoscale") (has "node-csr-validation" (dig "settings" "global" "sksAgentRunners" list .)) -}}
{{- $approving = append $approving .name -}}
{{- end -}}
{{- end -}}
{{- if or $approving (and (eq .Values.provider "exoscale") .Values.exoscale.csrApproval.enabled) -}}
yes
{{- else -}}
{{- include "bowline.runs" (dict "chart" . "byDefault" false
      "names" (list "node-csr-approval" "certificatesigningrequest-approving-controller")) -}}
{{- end -}}
{{- end -}}

{{/* Flags of the pod ranges, by the value that each has below `ipam`. */}}
{{- define "bowline.ipamFlags" -}}
allocator: cidr-allocator-type
clusterCIDRs: cluster-cidr
serviceCIDRs: service-cluster-ip-range
maskSizeIPv4: node-cidr-mask-size-ipv4
maskSizeIPv6: node-cidr-mask-size-ipv6
{{- end -}}

{{- define "bowline.ipamArgs" -}}
{{- $ipam := .Values.ipam -}}
{{- if not (or $ipam.clusterCIDRs (include "bowline.cloud" . | fromYaml).knowsRanges) -}}
{{- fail "ipam.clusterCIDRs is empty: say which addresses pods get, such as ipam.clusterCIDRs={10.244.0.0/16}" -}}
{{- end -}}
- --allocate-node-cidrs
{{- range $value, $flag := include "bowline.ipamFlags" . | fromYaml -}}
{{- with get $ipam $value }}
- --{{ $flag }}={{ if kindIs "slice" . }}{{ join "," . }}{{ else }}{{ . }}{{ end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Flags that have a value here, and those that need rights we do not give. */}}
{{- define "bowline.checkedArgs" -}}
{{- $ours := dict "cloud-provider" "provider" "cluster-name" "clusterName" "concurrent-service-syncs" "concurrentServiceSyncs"
      "controllers" "controllers" "leader-elect-resource-name" "leaderElection.name"
      "leader-elect-resource-namespace" "leaderElection.namespace" "hold-leases" "leaderElection.hold" "mode" "mode"
      "secure-port" "securePort" "v" "logLevel" "allocate-node-cidrs" "ipam.enabled" "config" "config" -}}
{{- with (include "bowline.cloud" . | fromYaml).configValue -}}
{{- $_ := set $ours "cloud-config" . -}}
{{- end -}}
{{- if eq .Values.provider "triton" -}}
{{- $_ := set $ours "triton-credentials-secret" "triton.existingSecret" -}}
{{- $_ := set $ours "triton-ca-file" "triton.caBundle" -}}
{{- $_ := set $ours "cluster-cidr" "ipam.clusterCIDRs" -}}
{{- range $value, $flag := include "bowline.triton.flags" . | fromYaml -}}
{{- $_ := set $ours $flag (printf "triton.%s" $value) -}}
{{- end -}}
{{- end -}}
{{- if .Values.ipam.enabled -}}
{{- range $value, $flag := include "bowline.ipamFlags" . | fromYaml -}}
{{- $_ := set $ours $flag (printf "ipam.%s" $value) -}}
{{- end -}}
{{- end -}}
{{- range $flag, $_ := get .Values.config "manager" | default dict -}}
{{- if hasKey $ours $flag -}}
{{- fail (printf "config.manager has %s: set the value %s instead" $flag (get $ours $flag)) -}}
{{- end -}}
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

{{/* One variable: its name, and a text, the key of a Secret, or a field of the pod. */}}
{{- define "bowline.variable" -}}
- name: {{ .name }}
{{- if .secret }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- else if .field }}
  valueFrom:
    fieldRef:
      # As the API server has it in the end: Helm would see a conflict otherwise.
      apiVersion: v1
      fieldPath: {{ .field }}
{{- else }}
  value: {{ .value | toString | quote }}
{{- end }}
{{ end -}}

{{/* All variables. */}}
{{- define "bowline.env" -}}
{{- include (printf "bowline.%s.env" (.Values.provider | default "config")) . -}}
{{- with .Values.apiServer -}}
{{- if eq .host "node" -}}
{{- include "bowline.variable" (dict "name" "KUBERNETES_SERVICE_HOST" "field" "status.hostIP") -}}
{{- else if .host -}}
{{- include "bowline.variable" (dict "name" "KUBERNETES_SERVICE_HOST" "value" .host) -}}
{{- end -}}
{{- if .host -}}
{{- include "bowline.variable" (dict "name" "KUBERNETES_SERVICE_PORT" "value" .port) -}}
{{- end -}}
{{- end -}}
{{- with .Values.extraEnv }}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* The file of --cloud-config, for a ConfigMap: what is given, and what is switched off. Nothing if all is as without one. */}}
{{- define "bowline.cloudConfig" -}}
{{- $values := get .Values (.Values.provider | default "cloudscale") -}}
{{- $config := deepCopy ($values.cloudConfig | default dict) -}}
{{- if eq .Values.provider "exoscale" -}}
{{- range $value, $section := dict "nodes" "instances" "loadBalancer" "loadBalancer" -}}
{{- if not (get $values $value).enabled -}}
{{- $_ := set $config $section (merge (dict "disabled" true) (get $config $section | default dict)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.provider "triton" -}}
{{- range $section, $own := include "bowline.triton.config" . | fromYaml -}}
{{- with $own -}}
{{- $_ := set $config $section (merge (deepCopy .) (get $config $section | default dict)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $config -}}
{{- toYaml $config -}}
{{- end -}}
{{- end -}}

{{/* What --cloud-config names, if it is given. */}}
{{- define "bowline.cloudConfigPath" -}}
{{- $cloud := include "bowline.cloud" . | fromYaml -}}
{{- if include "bowline.cloudConfig" . -}}
{{- printf "/etc/bowline/cloud-config/%s" $cloud.configFile -}}
{{- else if and (eq .Values.provider "xenorchestra") (include "bowline.mountedSecret" .) -}}
{{- printf "%s/%s" $cloud.secretPath .Values.xenorchestra.config.key -}}
{{- end -}}
{{- end -}}
