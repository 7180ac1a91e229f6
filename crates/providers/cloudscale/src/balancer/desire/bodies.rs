//! What is sent to make what is wanted.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Wanted, WantedListener, WantedMember, WantedMonitor, WantedPool};
use crate::balancer::settings::VipWish;

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn with_tags(mut body: Map<String, Value>, tags: &BTreeMap<String, String>) -> Map<String, Value> {
    if !tags.is_empty() {
        body.insert("tags".to_owned(), json!(tags));
    }
    body
}

impl Wanted {
    pub(crate) fn body(&self, zone: &str) -> Map<String, Value> {
        let vips: Vec<Value> = self.vips.iter().map(VipWish::body).collect();
        let body = json!({"zone": zone, "name": self.name, "flavor": self.flavor,
                          "vip_addresses": vips});
        with_tags(map(body), &self.tags)
    }
}

impl VipWish {
    fn body(&self) -> Value {
        match self.address {
            Some(address) => json!({"subnet": self.subnet, "address": address}),
            None => json!({"subnet": self.subnet}),
        }
    }
}

impl WantedPool {
    /// What is sent to make it, without its load balancer.
    pub(crate) fn body(&self, tags: &BTreeMap<String, String>) -> Map<String, Value> {
        let body = json!({"name": self.name, "algorithm": self.algorithm,
                          "protocol": self.protocol});
        with_tags(map(body), tags)
    }
}

impl WantedMember {
    pub(crate) fn body(&self, tags: &BTreeMap<String, String>) -> Map<String, Value> {
        let body = json!({"name": self.name, "protocol_port": self.protocol_port,
                          "monitor_port": self.monitor_port, "address": self.address,
                          "subnet": self.subnet});
        with_tags(map(body), tags)
    }
}

impl WantedListener {
    /// What is sent to make it, without its pool.
    pub(crate) fn body(&self, tags: &BTreeMap<String, String>) -> Map<String, Value> {
        let body = json!({"name": self.name, "protocol": self.protocol,
                          "protocol_port": self.protocol_port,
                          "allowed_cidrs": self.allowed_cidrs,
                          "timeout_client_data_ms": self.timeout_client_data,
                          "timeout_member_connect_ms": self.timeout_member_connect,
                          "timeout_member_data_ms": self.timeout_member_data});
        with_tags(map(body), tags)
    }
}

impl WantedMonitor {
    /// What is sent to make it, without its pool.
    pub(crate) fn body(&self, tags: &BTreeMap<String, String>) -> Map<String, Value> {
        let mut body = map(json!({"type": self.kind, "delay_s": self.delay,
                                  "timeout_s": self.timeout, "up_threshold": self.up,
                                  "down_threshold": self.down}));
        if let Some(http) = &self.http {
            let mut options = map(json!({"expected_codes": http.expected_codes,
                                         "method": http.method, "url_path": http.url_path,
                                         "version": http.version}));
            if let Some(host) = &http.host {
                options.insert("host".to_owned(), json!(host));
            }
            body.insert("http".to_owned(), Value::Object(options));
        }
        with_tags(body, tags)
    }
}
