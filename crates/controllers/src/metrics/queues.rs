//! The families of the work queues.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::families::HistogramFamily;

/// Upper bounds of queue latencies in seconds: 10 ns to 10 s in decades.
const BOUNDS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
}

/// A queue that knows how long its workers have been busy.
pub trait UnfinishedWork: Debug + Send + Sync {
    /// For each key being worked on, since when.
    fn ages(&self) -> Vec<Duration>;
}

/// From the ages of one queue to its number.
type Reduce<'a> = &'a dyn Fn(&[Duration]) -> Duration;
type Followed = Arc<Mutex<BTreeMap<&'static str, Weak<dyn UnfinishedWork>>>>;

/// `workqueue_*`.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    depth: Family<QueueLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    waited: HistogramFamily<QueueLabels>,
    worked: HistogramFamily<QueueLabels>,
    followed: Followed,
}

#[derive(Clone, Debug)]
pub struct QueueSeries {
    /// Keys ready to be handed out.
    pub depth: Gauge,
    /// Keys taken in.
    pub adds: Counter,
    /// Keys taken in after a failure.
    pub retries: Counter,
    /// Seconds from being wanted to being handed out.
    pub waited: Histogram,
    /// Seconds with a worker.
    pub worked: Histogram,
}

impl QueueMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: HistogramFamily::new(&BOUNDS),
            worked: HistogramFamily::new(&BOUNDS),
            followed: Followed::default(),
        };
        registry.register(
            "workqueue_depth",
            "Keys waiting in the queue",
            metrics.depth.clone(),
        );
        registry.register(
            "workqueue_adds",
            "Keys taken in by the queue",
            metrics.adds.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Keys taken in again after a failure",
            metrics.retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "Seconds a key waited before a worker took it",
            metrics.waited.family(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "Seconds a worker spent on a key",
            metrics.worked.family(),
        );
        registry.register_collector(Box::new(UnfinishedGauges(Arc::clone(&metrics.followed))));
        metrics
    }

    /// The series of the queue of that name, visible from now on.
    pub fn series(&self, name: &'static str) -> QueueSeries {
        let labels = QueueLabels { name };
        QueueSeries {
            depth: self.depth.get_or_create_owned(&labels),
            adds: self.adds.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            waited: self.waited.with(&labels),
            worked: self.worked.with(&labels),
        }
    }

    /// Shows how long the workers of that queue have been busy, for as long as the queue lives.
    pub fn follow(&self, name: &'static str, queue: Weak<dyn UnfinishedWork>) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.insert(name, queue);
    }
}

/// Asks the queues when somebody reads the metrics, instead of every half second.
#[derive(Debug)]
struct UnfinishedGauges(Followed);

impl Collector for UnfinishedGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let ages: Vec<(&'static str, Vec<Duration>)> = {
            let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            followed.retain(|_, queue| queue.strong_count() > 0);
            let live = followed.iter();
            live.filter_map(|(name, queue)| Some((*name, queue.upgrade()?.ages())))
                .collect()
        };
        if ages.is_empty() {
            return Ok(());
        }
        let sum = |ages: &[Duration]| ages.iter().sum::<Duration>();
        let longest = |ages: &[Duration]| ages.iter().max().copied().unwrap_or_default();
        let gauges: [(&str, &str, Reduce<'_>); 2] = [
            (
                "workqueue_unfinished_work_seconds",
                "Seconds of work in progress that no finished run accounts for yet",
                &sum,
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "Seconds the longest running worker has been busy with its key",
                &longest,
            ),
        ];
        for (name, help, value) in gauges {
            let kind = ConstGauge::new(0.0).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (name, ages) in &ages {
                let labels = QueueLabels { name };
                ConstGauge::new(value(ages).as_secs_f64())
                    .encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
