//! How many requests were made.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_simulator::World;
use bowline_simulator::journal::{Entry, Journal};

/// The journal keeps 100,000 calls: it is emptied long before.
const EMPTIED_EVERY: Duration = Duration::from_millis(200);

/// Requests since the beginning: those to the API server are writes, by everybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Writes to Nodes that were made.
    pub(crate) nodes: u64,
    /// Writes to Nodes that were refused because somebody was faster.
    pub(crate) conflicts: u64,
    pub(crate) events: u64,
    pub(crate) services: u64,
    pub(crate) leases: u64,
    /// Requests to clouds, reads too.
    pub(crate) cloud_calls: u64,
}

impl Counts {
    /// What was added since then.
    pub(crate) fn since(self, then: Self) -> Self {
        Self {
            nodes: self.nodes - then.nodes,
            conflicts: self.conflicts - then.conflicts,
            events: self.events - then.events,
            services: self.services - then.services,
            leases: self.leases - then.leases,
            cloud_calls: self.cloud_calls - then.cloud_calls,
        }
    }

    /// What a kube-apiserver's page of metrics says.
    pub(crate) fn of_metrics(page: &str) -> Self {
        let mut counts = Self::default();
        let lines = page.lines();
        for line in lines.filter_map(|line| line.strip_prefix("apiserver_request_total{")) {
            let Some((labels, value)) = line.rsplit_once("} ") else {
                continue;
            };
            let label = |name: &str| {
                let labels = labels.split(',');
                let mut values = labels.filter_map(|one| one.strip_prefix(name)?.strip_prefix('='));
                values.next().unwrap_or_default().trim_matches('"')
            };
            let is_write = ["POST", "PUT", "PATCH", "APPLY", "DELETE"].contains(&label("verb"));
            // A float: 1e+06 is a million.
            let value: f64 = value.trim().parse().unwrap_or_default();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a counter"
            )]
            let value = value as u64;
            if is_write {
                counts.add(label("resource"), label("code").parse().unwrap_or(0), value);
            }
        }
        counts
    }

    fn add(&mut self, resource: &str, status: u16, count: u64) {
        let made = (200..300).contains(&status);
        match resource {
            "nodes" if made => self.nodes += count,
            "nodes" if status == 409 => self.conflicts += count,
            "events" if made => self.events += count,
            "services" if made => self.services += count,
            "leases" if made => self.leases += count,
            _ => {}
        }
    }

    fn record(&mut self, entry: &Entry) {
        if entry.server != "kubernetes" {
            self.cloud_calls += 1;
        } else if entry.is_mutating() {
            let parts: Vec<&str> = entry.path.split('/').collect();
            let known = ["nodes", "events", "services", "leases"];
            // A Node or a namespace may be called so, too: the first is the resource.
            let resource = parts.iter().find(|part| known.contains(part));
            self.add(resource.copied().unwrap_or_default(), entry.status, 1);
        }
    }
}

/// Counts the calls to all simulated servers of a world.
pub(crate) struct Tally {
    journal: Journal,
    counts: Arc<Mutex<Counts>>,
    task: tokio::task::JoinHandle<()>,
}

impl Tally {
    pub(crate) fn of(world: &World) -> Self {
        let (journal, counts) = (world.journal.clone(), Arc::default());
        let (emptied, counted) = (journal.clone(), Arc::clone(&counts));
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(EMPTIED_EVERY).await;
                count(&emptied, &counted);
            }
        });
        Self {
            journal,
            counts,
            task,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        count(&self.journal, &self.counts)
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn count(journal: &Journal, counts: &Mutex<Counts>) -> Counts {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    for entry in journal.take() {
        counts.record(&entry);
    }
    *counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_metrics_is_counted() {
        let line = |resource: &str, verb: &str, code: u16, value: &str| {
            format!(
                "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"\",group=\"\",\
                 resource=\"{resource}\",scope=\"resource\",subresource=\"\",verb=\"{verb}\",version=\"v1\"}} \
                 {value}"
            )
        };
        let page = [
            "# TYPE apiserver_request_total counter".to_owned(),
            line("nodes", "PATCH", 200, "7"),
            line("nodes", "POST", 201, "1e+06"),
            line("nodes", "PATCH", 409, "2"),
            line("nodes", "LIST", 200, "9"),
            line("events", "POST", 201, "3"),
            line("pods", "POST", 201, "4"),
        ];
        let counts = Counts::of_metrics(&page.join("\n"));
        assert_eq!(
            (counts.nodes, counts.conflicts, counts.events),
            (1_000_007, 2, 3)
        );
        assert_eq!(counts.since(counts), Counts::default());
    }
}
