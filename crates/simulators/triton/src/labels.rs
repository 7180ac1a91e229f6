//! Tags and metadata of machines. Their changes are jobs: reads show the old value until they end.

use serde_json::{Map, Value};

use super::Triton;
use super::jobs::Work;
use super::model::{Cloud, Machine};
use super::refusals::{OrRefusal, Refusal, Reply};
use super::routes::Asked;
use super::tag_rules::{self, NEVER};

/// Metadata that cannot be deleted.
const KEPT: [&str; 3] = ["credentials", "administrator_pw", "root_authorized_keys"];

impl Triton {
    /// Carries out a call about tags or metadata, if it is one.
    pub(super) fn label_call(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
    ) -> OrRefusal<Option<Reply>> {
        let reply = match asked.operation {
            "listmachinetags" => Reply::ok(Value::Object(cloud.loaded(asked)?.tags.clone())),
            "getmachinetag" => tag(cloud.loaded(asked)?, asked)?,
            "addmachinetags" => self.set_tags(cloud, asked, false)?,
            "replacemachinetags" => self.set_tags(cloud, asked, true)?,
            "deletemachinetags" => {
                let id = cloud.loaded(asked)?.id.clone();
                self.begin_job(
                    cloud,
                    asked,
                    &id,
                    ("set_tags", Work::ReplaceTags(Map::new())),
                );
                Reply::no_content()
            }
            "deletemachinetag" => {
                let machine = cloud.loaded(asked)?;
                let key = asked.text("tag");
                if !machine.tags.contains_key(&key) {
                    return Err(Refusal::not_found(format!("tag \"{key}\" not found")));
                }
                let id = machine.id.clone();
                self.begin_job(cloud, asked, &id, ("remove_tags", Work::RemoveTag(key)));
                Reply::no_content()
            }
            "listmachinemetadata" => {
                Reply::ok(Value::Object(cloud.loaded(asked)?.metadata.clone()))
            }
            "getmachinemetadata" => {
                let key = asked.text("key");
                let found = cloud.loaded(asked)?.metadata.get(&key).cloned();
                Reply::ok(found.ok_or_else(|| no_metadata(&key))?)
            }
            "addmachinemetadata" => self.add_metadata(cloud, asked)?,
            "deletemachinemetadata" => self.delete_metadata(cloud, asked)?,
            "deleteallmachinemetadata" => {
                let machine = cloud.loaded(asked)?;
                let (id, mut left) = (machine.id.clone(), machine.metadata.clone());
                left.retain(|key, _| KEPT.contains(&key.as_str()));
                let work = Work::ReplaceMetadata(left);
                self.begin_job(cloud, asked, &id, ("remove_metadata", work));
                Reply::no_content()
            }
            _ => return Ok(None),
        };
        Ok(Some(reply))
    }

    fn begin_job(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
        id: &str,
        (action, work): (&'static str, Work),
    ) -> String {
        let delay = cloud.timings.job;
        let deed = Some((action, asked.caller.clone()));
        cloud.begin(id, asked.now, delay, deed, work);
        self.world.random.uuid()
    }

    fn set_tags(&self, cloud: &mut Cloud, asked: &Asked<'_>, replace: bool) -> OrRefusal<Reply> {
        let machine = cloud.loaded(asked)?;
        let tags = given(asked)?;
        if let Some(problem) = tag_rules::problem(&tags) {
            let verb = if replace { "replacing" } else { "adding" };
            let message = format!("error {verb} tags: Invalid tag parameters");
            return Err(Refusal::validation(&message, "tags", "Invalid", &problem));
        }
        let (id, mut future) = (machine.id.clone(), cloud.future_of(machine));
        let (action, work) = if replace {
            future.tags.clone_from(&tags);
            ("replace_tags", Work::ReplaceTags(tags))
        } else {
            future.tags.extend(tags.clone());
            ("set_tags", Work::SetTags(tags))
        };
        let job = self.begin_job(cloud, asked, &id, (action, work));
        Ok(Reply::ok(Value::Object(future.tags)).header("x-job-uuid", job))
    }

    fn add_metadata(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
        let machine = cloud.loaded(asked)?;
        let mut metadata = given(asked)?;
        metadata.retain(|key, _| !key.ends_with("_pw"));
        let (id, mut future) = (machine.id.clone(), cloud.future_of(machine));
        future.metadata.extend(metadata.clone());
        let work = ("set_metadata", Work::SetMetadata(metadata));
        let job = self.begin_job(cloud, asked, &id, work);
        Ok(Reply::ok(Value::Object(future.metadata)).header("x-job-uuid", job))
    }

    fn delete_metadata(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
        let machine = cloud.loaded(asked)?;
        let key = asked.text("key");
        if KEPT.contains(&key.as_str()) {
            return Err(Refusal::argument(format!("{key} cannot be deleted")));
        }
        if !machine.metadata.contains_key(&key) {
            return Err(no_metadata(&key));
        }
        let id = machine.id.clone();
        self.begin_job(
            cloud,
            asked,
            &id,
            ("remove_metadata", Work::RemoveMetadata(key)),
        );
        Ok(Reply::no_content())
    }
}

impl Cloud {
    /// A machine as it will be when the jobs under way have ended well.
    fn future_of(&self, machine: &Machine) -> Machine {
        let mut future = machine.clone();
        for event in self.events.values() {
            let super::jobs::Event::Job(job) = event else {
                continue;
            };
            if job.machine != machine.id {
                continue;
            }
            match job.work.clone() {
                Work::SetTags(tags) => future.tags.extend(tags),
                Work::ReplaceTags(tags) => future.tags = tags,
                Work::RemoveTag(key) => drop(future.tags.remove(&key)),
                Work::SetMetadata(metadata) => future.metadata.extend(metadata),
                Work::ReplaceMetadata(metadata) => future.metadata = metadata,
                Work::RemoveMetadata(key) => drop(future.metadata.remove(&key)),
                _ => {}
            }
        }
        future
    }
}

fn no_metadata(key: &str) -> Refusal {
    Refusal::not_found(format!("metadata key \"{key}\" not found"))
}

/// Every parameter, wherever it came from, except the few that never become one.
fn given(asked: &Asked<'_>) -> OrRefusal<Map<String, Value>> {
    let mut given = asked.parameters.0.clone();
    given.retain(|key, _| !NEVER.contains(&key.as_str()));
    for (key, value) in &given {
        if value.is_object() || value.is_array() || value.is_null() {
            let message = format!("{key} must be a string, number or boolean");
            return Err(Refusal::argument(message));
        }
    }
    Ok(given)
}

/// One tag; numbers and booleans come as the empty string.
fn tag(machine: &Machine, asked: &Asked<'_>) -> OrRefusal<Reply> {
    let key = asked.text("tag");
    let found = machine.tags.get(&key);
    let found = found.ok_or_else(|| Refusal::not_found(format!("tag \"{key}\" not found")))?;
    Ok(Reply::ok(found.as_str().unwrap_or_default().into()))
}
