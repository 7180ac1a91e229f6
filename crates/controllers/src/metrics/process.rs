//! `process_*`, read from the kernel whenever somebody asks.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The unit of times in `/proc`: fixed at 100 a second for user space on every Linux architecture
/// that we build for.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc/self`; what cannot be read is left out.
#[derive(Debug)]
pub(super) struct ProcessMetrics {
    start_only: bool,
}

impl ProcessMetrics {
    pub(super) fn all() -> Self {
        Self { start_only: false }
    }

    pub(super) fn start_only() -> Self {
        Self { start_only: true }
    }
}

/// What `/proc/self/stat` and `/proc/stat` say, in seconds and bytes.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    started: f64,
    virtual_bytes: f64,
}

/// The fields after the command's closing parenthesis: state is the first of them (field 3).
fn parse_stat(stat: &str, boot: f64) -> Option<Stat> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some(Stat {
        cpu_seconds: (number(14)? + number(15)?) / TICKS_PER_SECOND,
        started: boot + number(22)? / TICKS_PER_SECOND,
        virtual_bytes: number(23)?,
    })
}

/// The soft limit in a line of `/proc/self/limits`; unlimited counts as -1, as elsewhere.
fn parse_limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find(|line| line.starts_with(name))?;
    let soft = line[name.len()..].split_whitespace().next()?;
    if soft == "unlimited" {
        return Some(-1.0);
    }
    soft.parse().ok()
}

/// The number in a line such as `VmRSS:  1234 kB` or `btime 1700000000`.
fn parse_line(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[expect(clippy::cast_precision_loss, reason = "a count of open files is small")]
fn open_files() -> Option<f64> {
    // One of the entries is the directory being read.
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    Some(count.saturating_sub(1) as f64)
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let boot = read("/proc/stat").and_then(|stat| parse_line(&stat, "btime "));
        let stat = read("/proc/self/stat").and_then(|stat| parse_stat(&stat, boot?));
        let mut gauge = |name: &str, help: &str, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let gauge = ConstGauge::new(value);
            let family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(family)
        };
        gauge(
            "process_start_time_seconds",
            "Unix time at which the process started.",
            stat.as_ref().map(|stat| stat.started),
        )?;
        if self.start_only {
            return Ok(());
        }
        let limits = read("/proc/self/limits").unwrap_or_default();
        let status = read("/proc/self/status").unwrap_or_default();
        gauge("process_open_fds", "Open file descriptors.", open_files())?;
        gauge(
            "process_max_fds",
            "Most file descriptors that may be open.",
            parse_limit(&limits, "Max open files"),
        )?;
        gauge(
            "process_virtual_memory_bytes",
            "Virtual memory in bytes.",
            stat.as_ref().map(|stat| stat.virtual_bytes),
        )?;
        gauge(
            "process_virtual_memory_max_bytes",
            "Most virtual memory in bytes, -1 for no limit.",
            parse_limit(&limits, "Max address space"),
        )?;
        gauge(
            "process_resident_memory_bytes",
            "Resident memory in bytes.",
            parse_line(&status, "VmRSS:").map(|kilobytes| kilobytes * 1024.0),
        )?;
        if let Some(stat) = stat {
            let counter = ConstCounter::new(stat.cpu_seconds);
            let help = "User and system CPU time in seconds.";
            let kind = counter.metric_type();
            let family = encoder.encode_descriptor("process_cpu_seconds", help, None, kind)?;
            counter.encode(family)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_files_are_understood() {
        let stat = "42 (bow) line)) S 1 42 42 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 3 0 1000 \
                    104857600 2000 18446744073709551615";
        let expected = Stat {
            cpu_seconds: 2.0,
            started: 1_700_000_010.0,
            virtual_bytes: 104_857_600.0,
        };
        assert_eq!(parse_stat(stat, 1_700_000_000.0), Some(expected));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  4096  files\n\
                      Max address space  unlimited  unlimited  bytes\n";
        assert_eq!(parse_limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(parse_limit(limits, "Max address space"), Some(-1.0));
        assert_eq!(
            parse_line("VmPeak: 1 kB\nVmRSS:\t  77 kB\n", "VmRSS:"),
            Some(77.0)
        );
        assert_eq!(parse_stat("nonsense", 0.0), None);
    }
}
