//! What people put into the configuration of Prometheus. Pure.

use std::fmt::Write as _;

use super::targets::Endpoint;

/// Where Prometheus finds Secrets that its operator mounts.
const SECRETS: &str = "/etc/prometheus/secrets";

/// The data center, as Prometheus has to know it.
pub(crate) struct Place<'a> {
    pub(crate) endpoint: &'a Endpoint,
    /// The login whose machines they are.
    pub(crate) account: &'a str,
    pub(crate) secret: &'a str,
    pub(crate) has_authorities: bool,
    pub(crate) insecure: bool,
}

impl Place<'_> {
    fn tls(&self, indent: &str) -> String {
        let folder = format!("{SECRETS}/{}", self.secret);
        let mut text = format!(
            "{indent}tls_config:\n{indent}  cert_file: {folder}/tls.crt\n{indent}  key_file: {folder}/tls.key\n"
        );
        if self.insecure {
            let _ = writeln!(text, "{indent}  insecure_skip_verify: true");
        } else if self.has_authorities {
            let _ = writeln!(text, "{indent}  ca_file: {folder}/ca.crt");
        }
        text
    }
}

pub(crate) fn by_our_list(page: &str, place: &Place<'_>) -> String {
    let tls = place.tls("  ");
    let secret = place.secret;
    format!(
        "\
# Metrics of machines, found through Bowline's own list. Mount the Secret {secret} where
# cert_file says. Whoever asks for the list needs the right to get its path (nonResourceURLs).
scrape_configs:
- job_name: triton-machines
  scheme: https
{tls}  http_sd_configs:
  - url: {page}
    authorization:
      credentials_file: /var/run/secrets/kubernetes.io/serviceaccount/token
    tls_config:
      # The manager's certificate is made by itself.
      insecure_skip_verify: true
  relabel_configs:
{RELABEL}"
    )
}

const RELABEL: &str = "  \
  - source_labels: [__meta_triton_machine_id]
    target_label: machine
  - source_labels: [__meta_triton_machine_alias]
    target_label: alias
  - source_labels: [__meta_triton_machine_brand]
    target_label: brand
  - source_labels: [__meta_triton_server_id]
    target_label: compute_node
";

/// By the service's own list, which Prometheus knows how to ask for.
pub(crate) fn by_the_service(group: &str, place: &Place<'_>) -> String {
    let (account, tls) = (place.account, place.tls("  "));
    let (host, port) = (&place.endpoint.host, place.endpoint.port);
    let discovery_tls = place.tls("    ");
    format!(
        "\
# Metrics of machines, found through the metrics service itself: those in the cluster's group. Mount
# the Secrets where cert_file says.
scrape_configs:
- job_name: triton
  scheme: https
{tls}  triton_sd_configs:
  - account: \"{account}\"
    dns_suffix: {host}
    endpoint: {host}
    port: {port}
    groups: [{group}]
    version: 1
{discovery_tls}  relabel_configs:
{RELABEL}"
    )
}

#[cfg(test)]
mod tests {
    use bowline_http::BaseUrl;
    use serde_json::{Value, json};

    use super::*;

    fn parsed(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn snippets_are_scrape_configs_of_prometheus() {
        let url = BaseUrl::parse("https://cmon.eg-1.cns.example.com:9163").unwrap();
        let endpoint = Endpoint::of(&url).unwrap();
        let place = Place {
            endpoint: &endpoint,
            account: "acme",
            secret: "triton-cmon-client",
            has_authorities: true,
            insecure: false,
        };
        let folder = "/etc/prometheus/secrets/triton-cmon-client";
        let tls = json!({
            "cert_file": format!("{folder}/tls.crt"), "key_file": format!("{folder}/tls.key"),
            "ca_file": format!("{folder}/ca.crt"),
        });
        let ours = parsed(&by_our_list("https://b:10258/sd/triton", &place));
        let job = &ours["scrape_configs"][0];
        assert_eq!(
            job["http_sd_configs"][0]["url"],
            "https://b:10258/sd/triton"
        );
        assert_eq!(job["tls_config"], tls);
        assert_eq!(job["relabel_configs"].as_array().unwrap().len(), 4);

        let theirs = parsed(&by_the_service("k8s-prod", &place));
        let discovery = &theirs["scrape_configs"][0]["triton_sd_configs"][0];
        assert_eq!(
            *discovery,
            json!({
                "account": "acme", "dns_suffix": "cmon.eg-1.cns.example.com",
                "endpoint": "cmon.eg-1.cns.example.com", "port": 9163,
                "groups": ["k8s-prod"], "version": 1, "tls_config": tls,
            })
        );
    }
}
