//! What an account may have, and has.

use serde_json::{Value, json};

use super::model::{Cloud, Image, Limit, Machine, Package};
use super::refusals::{OrRefusal, Refusal, Reply};
use super::routes::Asked;

/// Bytes of a gibibyte in mebibytes: disks are counted in MiB, their limits in GiB.
const MIB_OF_GIB: u64 = 1024;

impl Limit {
    /// Whether a machine of that kind counts.
    fn concerns(&self, brand: &str, image: Option<&Image>) -> bool {
        let same = |wanted: &Option<String>, seen: Option<&str>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| wanted == "any" || Some(wanted) == seen)
        };
        match self.check.as_deref() {
            Some("brand") => same(&self.brand, Some(brand)),
            Some("image") => same(&self.image, image.map(|image| image.name.as_str())),
            Some("os") => same(&self.os, image.map(|image| image.os.as_str())),
            _ => true,
        }
    }

    /// How much of it something takes.
    fn weight(&self, memory: u64, disk: u64) -> u64 {
        match self.by.as_deref() {
            Some("ram") => memory,
            Some("quota") => disk.div_ceil(MIB_OF_GIB),
            _ => 1,
        }
    }

    fn show(&self, used: u64) -> Value {
        let mut shown = json!({ "value": self.value, "used": used });
        let words = [
            ("by", &self.by),
            ("check", &self.check),
            ("brand", &self.brand),
            ("image", &self.image),
            ("os", &self.os),
        ];
        for (name, value) in words {
            if let Some(value) = value {
                shown[name] = value.as_str().into();
            }
        }
        shown
    }
}

impl Cloud {
    fn used(&self, account: &str, limit: &Limit) -> u64 {
        let owned = |it: &&Machine| it.owner == account && it.state.lives();
        let all = self.machines.values().filter(owned);
        let counted = all.filter(|it| limit.concerns(&it.brand, self.images.get(&it.image)));
        let size = |value: &Value| value.as_u64().unwrap_or_default();
        counted
            .map(|it| limit.weight(size(&it.memory), size(&it.disk)))
            .sum()
    }

    /// The limits and what is used of them.
    pub(super) fn show_limits(&self, asked: &Asked<'_>) -> OrRefusal<Reply> {
        let limits = self.account(asked)?.limits.iter();
        let shown = limits.map(|limit| limit.show(self.used(&asked.account, limit)));
        Ok(Reply::ok(shown.collect()))
    }

    /// An error if a new machine would be one too many.
    pub(super) fn check_limits(
        &self,
        asked: &Asked<'_>,
        package: &Package,
        image: &Image,
        brand: &str,
    ) -> OrRefusal {
        for limit in &self.account(asked)?.limits {
            let more = limit.weight(package.memory, package.disk);
            let concerned = limit.concerns(brand, Some(image));
            if concerned && self.used(&asked.account, limit) + more > limit.value {
                let message = "Quota exceeded; to have your limits raised please contact Support";
                return Err(Refusal::denied(message));
            }
        }
        Ok(())
    }
}
