//! Finds the smallest story that still fails: leaves out acts while it does.

use crate::story::Story;

/// Most stories that are run to shrink one.
const MOST_TRIES: usize = 400;

/// The smallest part of a story for which `fails`, as far as leaving out acts finds it: first halves, then ever
/// smaller parts. The time of what is left out still passes.
pub fn shrink(story: &Story, mut fails: impl FnMut(&Story) -> bool) -> Story {
    let mut smallest = story.clone();
    let mut size = smallest.acts.len().div_ceil(2);
    let mut tries = 0;
    while size > 0 {
        let mut start = 0;
        let mut was_shrunk = false;
        while start < smallest.acts.len() && tries < MOST_TRIES {
            let candidate = without(&smallest, start, size);
            tries += 1;
            if fails(&candidate) {
                smallest = candidate;
                was_shrunk = true;
            } else {
                start += size;
            }
        }
        if tries >= MOST_TRIES {
            break;
        }
        if !was_shrunk || size > 1 {
            size /= 2;
        }
    }
    smallest
}

/// The story without so many acts from there on.
fn without(story: &Story, start: usize, size: usize) -> Story {
    let end = (start + size).min(story.acts.len());
    let mut acts = story.acts.clone();
    let passed: u64 = acts.drain(start..end).map(|(pause, _)| pause).sum();
    if let Some((pause, _)) = acts.get_mut(start) {
        *pause += passed;
    }
    Story {
        acts,
        ..story.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::{Act, Machine};
    use crate::clouds::KINDS;

    #[test]
    fn what_does_not_matter_is_left_out_and_its_time_still_passes() {
        let story = Story::of(3, &KINDS, 60);
        let wanted = [Act::Boot(Machine(0, 1)), Act::ClearFaults];
        let has = |story: &Story| {
            let mut acts = story.acts.iter().map(|(_, act)| act);
            wanted.iter().all(|it| acts.any(|act| act == it))
        };
        assert!(has(&story), "another seed is needed: {story:?}");
        let small = shrink(&story, has);
        let left: Vec<Act> = small.acts.iter().map(|(_, act)| *act).collect();
        assert_eq!(left, wanted);
        assert!(small.length() <= story.length());
        assert!(small.as_test().contains("ClearFaults"));
    }
}
