//! The reference page's part about annotations, written from their table.

use super::table::{PORT_SETTINGS, TABLE};

/// Settings of single ports as a person may write them.
pub(super) const EXAMPLE: &str = r#"{"https": {"pool-protocol": "proxyv2", "timeout-client-data-ms": 600000},
 "53/udp": {"health-monitor-type": "udp-connect"},
 "9090": {"listener-allowed-cidrs": ["10.0.0.0/8"], "health-monitor-type": "http",
          "health-monitor-http": {"url_path": "/ready"}}}"#;

/// The table, and what there is to know about settings of single ports, in Markdown.
pub fn reference() -> String {
    let mut page = TABLE.reference();
    page.push_str(&single_ports());
    page
}

fn single_ports() -> String {
    let key = PORT_SETTINGS.key;
    let example: Vec<String> = EXAMPLE.lines().map(|line| format!("  {line}")).collect();
    format!(
        "\n### Settings of single ports\n\n\
         `{key}` is a JSON object. Its keys name ports of the\n\
         Service: `443` is every port with that number, `443/tcp` the one with that protocol, and a word\n\
         is the name of a port; the latter two win over a mere number. Its values are JSON objects of\n\
         settings, by the words in the last column above; they hold for that port and win over the\n\
         annotation for all ports, which wins over the default. Numbers are JSON numbers, lists are JSON\n\
         lists, `health-monitor-http` is a JSON object and taken as a whole.\n\n\
         ```yaml\n{key}: |\n{}\n```\n\n\
         `pool-protocol` concerns TCP ports and `udp-connect` UDP ports; said of a number that both have,\n\
         they change nothing for the other one. A port, a setting or a value that cannot be used is reported\n\
         as above, with the port and the setting.\n",
        example.join("\n")
    )
}
