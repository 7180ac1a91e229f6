//! What changed about a load balancer of the simulated cloud, in words.

use std::collections::BTreeSet;

use bowline_simulator::sandbox::Balancer;

/// What changed. `word` is what the cloud calls a load balancer; where there are many machines they
/// are not told one by one.
pub(super) fn differences(
    word: &str,
    before: Option<&Balancer>,
    after: Option<&Balancer>,
    many: bool,
) -> Vec<String> {
    let nothing = Balancer::default();
    let (old, new) = match (before, after) {
        (None, None) => return Vec::new(),
        (Some(old), None) => return vec![format!("{word} {} is gone", old.name)],
        (old, Some(new)) => (old.unwrap_or(&nothing), new),
    };
    let mut lines = Vec::new();
    match (before, new.is_made) {
        (None, false) => lines.push("is being created".to_owned()),
        (None, true) => lines.push("is there".to_owned()),
        (Some(old), true) if !old.is_made => lines.push("is ready".to_owned()),
        (Some(_), _) => {}
    }
    let gained = new.parts.difference(&old.parts);
    lines.extend(gained.map(|part| format!("got {part}")));
    let lost = old.parts.difference(&new.parts);
    lines.extend(lost.map(|part| format!("lost {part}")));
    if !many {
        lines.extend(targets("got", &new.targets, &old.targets));
        lines.extend(targets("lost", &old.targets, &new.targets));
    }
    let lines = lines.into_iter();
    lines
        .map(|text| format!("{word} {} {text}", new.name))
        .collect()
}

/// What matters of that: that it comes and goes, and its targets.
pub(super) fn main_differences(
    word: &str,
    before: Option<&Balancer>,
    after: Option<&Balancer>,
) -> Vec<String> {
    let without_parts = |balancer: &Balancer| Balancer {
        parts: BTreeSet::new(),
        ..balancer.clone()
    };
    let (before, after) = (before.map(without_parts), after.map(without_parts));
    differences(word, before.as_ref(), after.as_ref(), false)
}

/// The targets that only the first set has; nothing if there are none.
fn targets(verb: &str, these: &BTreeSet<String>, those: &BTreeSet<String>) -> Option<String> {
    let names: Vec<&str> = these.difference(those).map(String::as_str).collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("{verb} target {name}")),
        names => Some(format!("{verb} targets {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balancer(is_made: bool, parts: &[&str], targets: &[&str]) -> Balancer {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Balancer {
            name: "lb-1".to_owned(),
            is_made,
            parts: set(parts),
            targets: set(targets),
            ..Balancer::default()
        }
    }

    #[test]
    fn differences_read_as_sentences() {
        let promised = balancer(false, &[], &[]);
        let made = balancer(true, &[], &[]);
        let whole = balancer(true, &["listener tcp/80", "pool tcp"], &["w-1", "w-2"]);
        let changed = balancer(true, &["pool tcp"], &["w-2", "w-3"]);
        for (before, after, many, wanted) in [
            (
                None,
                Some(&promised),
                false,
                &["NLB lb-1 is being created"][..],
            ),
            (None, Some(&made), false, &["NLB lb-1 is there"]),
            (Some(&promised), Some(&made), false, &["NLB lb-1 is ready"]),
            (
                Some(&made),
                Some(&whole),
                false,
                &[
                    "NLB lb-1 got listener tcp/80",
                    "NLB lb-1 got pool tcp",
                    "NLB lb-1 got targets w-1, w-2",
                ],
            ),
            (
                Some(&whole),
                Some(&changed),
                false,
                &[
                    "NLB lb-1 lost listener tcp/80",
                    "NLB lb-1 got target w-3",
                    "NLB lb-1 lost target w-1",
                ],
            ),
            (
                Some(&whole),
                Some(&changed),
                true,
                &["NLB lb-1 lost listener tcp/80"],
            ),
            (Some(&whole), Some(&whole), false, &[]),
            (Some(&whole), None, true, &["NLB lb-1 is gone"]),
            (None, None, false, &[]),
        ] {
            assert_eq!(differences("NLB", before, after, many), wanted);
        }
        assert_eq!(
            main_differences("a: NLB", Some(&whole), Some(&changed)),
            ["a: NLB lb-1 got target w-3", "a: NLB lb-1 lost target w-1"]
        );
        assert_eq!(
            main_differences("a: NLB", None, Some(&whole)),
            ["a: NLB lb-1 is there", "a: NLB lb-1 got targets w-1, w-2"]
        );
    }
}
