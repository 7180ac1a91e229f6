//! What changed about routes of the simulated cloud, in words.

use std::collections::BTreeMap;

use crate::sandbox::display::Mark;

/// What changed.
pub(super) fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<(Mark, String)> {
    let gone = before.keys().filter(|range| !after.contains_key(*range));
    let gone = gone.map(|range| format!("route to {range} is gone"));
    let new = after
        .iter()
        .filter(|(range, to)| before.get(*range) != Some(*to));
    let new = new.map(|(range, to)| format!("route to {range} goes via {to}"));
    gone.chain(new).map(|text| (Mark::Happened, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_read_as_sentences() {
        let routes = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs.iter();
            pairs
                .map(|(range, to)| ((*range).to_owned(), (*to).to_owned()))
                .collect()
        };
        let lines: Vec<String> = differences(
            &routes(&[
                ("10.244.0.0/24", "10.20.0.2"),
                ("10.244.1.0/24", "10.20.0.3"),
            ]),
            &routes(&[
                ("10.244.1.0/24", "10.20.0.4"),
                ("10.99.0.0/16", "10.20.0.1"),
            ]),
        )
        .into_iter()
        .map(|(_, text)| text)
        .collect();
        assert_eq!(
            lines,
            [
                "route to 10.244.0.0/24 is gone",
                "route to 10.244.1.0/24 goes via 10.20.0.4",
                "route to 10.99.0.0/16 goes via 10.20.0.1",
            ]
        );
    }
}
