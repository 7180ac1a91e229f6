//! Provider ids (`xenorchestra://<pool>/<VM>`), and the two byte orders in which a machine reports
//! its id.

use bowline_core::{Claim, Node, quote};
use thiserror::Error;
use uuid::Uuid;

/// What every provider id of this cloud begins with.
pub const SCHEME: &str = "xenorchestra://";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmId {
    /// The pool that the VM was in when its node got the id; none if that was not known. A VM may
    /// have moved since.
    pub pool: Option<Uuid>,
    pub vm: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VmIdError {
    #[error("foreign providerID or empty {}", quote(.0))]
    Foreign(String),
    #[error(
        "providerID {} didn't match expected format \"xenorchestra://PoolID/InstanceID\"",
        quote(.0)
    )]
    Format(String),
    #[error("InstanceID must be a UUID, got {}", quote(.0))]
    Vm(String),
    #[error("PoolID must be a UUID, got {}", quote(.0))]
    Pool(String),
}

impl VmId {
    pub fn parse(text: &str) -> Result<Self, VmIdError> {
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return Err(VmIdError::Foreign(text.to_owned()));
        };
        let parts = rest.split_once('/');
        let parts = parts.filter(|(_, vm)| !vm.is_empty() && !vm.contains('/'));
        let (pool, vm) = parts.ok_or_else(|| VmIdError::Format(text.to_owned()))?;
        let vm = uuid(vm).ok_or_else(|| VmIdError::Vm(vm.to_owned()))?;
        let pool = match pool {
            "" => None,
            pool => Some(uuid(pool).ok_or_else(|| VmIdError::Pool(pool.to_owned()))?),
        };
        Ok(Self { pool, vm })
    }
}

impl std::fmt::Display for VmId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pool = self.pool.map(|pool| pool.to_string()).unwrap_or_default();
        write!(f, "{SCHEME}{pool}/{}", self.vm)
    }
}

/// A uuid in any of its usual forms: with dashes or without, also in braces or after `urn:uuid:`.
/// The nil uuid names nothing.
pub fn uuid(text: &str) -> Option<Uuid> {
    let text = text.to_ascii_lowercase();
    let bare = match text.strip_prefix("urn:uuid:") {
        Some(bare) => bare,
        None => match text.strip_prefix('{') {
            Some(open) => open.strip_suffix('}')?,
            None => &text,
        },
    };
    // The lengths rule out what the parser takes beyond these forms.
    let is_plain = matches!(bare.len(), 32 | 36);
    let uuid = is_plain.then(|| Uuid::try_parse(bare).ok())??;
    (!uuid.is_nil()).then_some(uuid)
}

/// The same id from a machine whose firmware writes the first three fields in the other byte
/// order. Its own inverse.
#[must_use]
pub fn swapped(id: Uuid) -> Uuid {
    Uuid::from_bytes(id.to_bytes_le())
}

/// Whose a node is, by what it carries. Without a provider id it may be ours if its machine has an
/// id as VMs have them: only the API can answer that.
pub(crate) fn claim(node: &Node) -> Claim {
    let Some(provider_id) = &node.provider_id else {
        return match uuid(node.system_uuid.trim()) {
            Some(_) => Claim::Mine,
            None => Claim::Foreign,
        };
    };
    match VmId::parse(provider_id) {
        Ok(_) => Claim::Mine,
        Err(VmIdError::Foreign(_)) => Claim::Foreign,
        Err(error) => Claim::Malformed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PA, VM1, known};
    use bowline_test_kit::rows;
    use proptest::prelude::*;

    #[test]
    fn provider_ids_are_read_as_the_table_says() {
        let (pool, vm): (Uuid, Uuid) = (PA.parse().unwrap(), VM1.parse().unwrap());
        let both = VmId {
            pool: Some(pool),
            vm,
        };
        let alone = VmId { pool: None, vm };
        let swapped_form = (PA.to_uppercase(), VM1.replace('-', ""));
        let swapped_form = format!(
            "xenorchestra://{{{}}}/urn:uuid:{}",
            swapped_form.0, swapped_form.1
        );
        assert_eq!(VmId::parse(&swapped_form), Ok(both));
        let fill = |text: &str| {
            let nil = "00000000-0000-0000-0000-000000000000";
            text.replace("PA", PA)
                .replace("VM1", VM1)
                .replace("NIL", nil)
        };
        for [id, wanted] in rows(
            r#"xenorchestra://PA/VM1  | both
               xenorchestra:///VM1    | alone
               xenorchestra://VM1     | wrong form
               xenorchestra://abc/VM1 | PoolID must be a UUID, got "abc"
               xenorchestra://PA/abc  | InstanceID must be a UUID, got "abc"
               xenorchestra://PA/VM1/ | wrong form
               xenorchestra://NIL/VM1 | PoolID must be a UUID, got "NIL"
               cloud://x              | foreign providerID or empty "cloud://x"
                                      | foreign providerID or empty """#,
        ) {
            let id = fill(id);
            let wanted = match wanted {
                "both" => Ok(both),
                "alone" => Ok(alone),
                "wrong form" => Err(format!(
                    "providerID \"{id}\" didn't match expected format \
                     \"xenorchestra://PoolID/InstanceID\""
                )),
                wanted => Err(fill(wanted)),
            };
            let read = VmId::parse(&id).map_err(|error| error.to_string());
            assert_eq!(read, wanted, "{id}");
        }
    }

    #[test]
    fn xenorchestra_case_77_a_pool_without_a_number_is_malformed() {
        let nil = format!("xenorchestra://00000000-0000-0000-0000-000000000000/{VM1}");
        assert!(matches!(claim(&known("w1", &nil)), Claim::Malformed(_)));
    }

    #[test]
    fn xenorchestra_case_44_only_the_exact_scheme_is_ours() {
        for (id, wanted) in [
            (format!("xenorchestra://{PA}/{VM1}"), "mine"),
            (format!("xenorchestra:///{VM1}"), "mine"),
            ("xenorchestra-lab://a/b".into(), "foreign"),
            (
                "exoscale://6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c".into(),
                "foreign",
            ),
            ("xenorchestra://not-a-uuid/x".into(), "malformed"),
            (String::new(), "foreign"),
        ] {
            let got = match claim(&known("w1", &id)) {
                Claim::Mine => "mine",
                Claim::Malformed(_) => "malformed",
                Claim::Foreign | Claim::Fallback | Claim::FallbackIfAlone => "foreign",
            };
            assert_eq!(got, wanted, "{id}");
        }
    }

    #[test]
    fn without_an_id_a_machine_that_could_be_a_vm_may_be_ours() {
        for (reported, wanted) in [
            (VM1, Claim::Mine),
            ("", Claim::Foreign),
            ("rack 7", Claim::Foreign),
        ] {
            let mut node = known("w1", "");
            node.system_uuid = reported.to_owned();
            assert_eq!(claim(&node), wanted, "{reported}");
        }
    }

    #[test]
    fn machines_tell_their_id_in_two_byte_orders() {
        for [reported, swapped_form] in rows(
            "c1a9d5b2-4e7f-4a63-9b1d-0f2e3d4c5b6a | b2d5a9c1-7f4e-634a-9b1d-0f2e3d4c5b6a
             3fe665e8-303d-0b4f-83e0-8fdfc1e30eb7 | e865e63f-3d30-4f0b-83e0-8fdfc1e30eb7
             00112233-4455-6677-8899-AABBCCDDEEFF | 33221100-5544-7766-8899-aabbccddeeff
             9f0e4c6d-1b2a-4f3e-8d7c-5a6b7c8d9e0f | 6d4c0e9f-2a1b-3e4f-8d7c-5a6b7c8d9e0f",
        ) {
            let id = uuid(reported).unwrap();
            assert_eq!(id.to_string(), reported.to_lowercase());
            assert_eq!(swapped(id).to_string(), swapped_form);
        }
        for wrong in [
            "",
            "abc",
            "{c1a9d5b2-4e7f-4a63-9b1d-0f2e3d4c5b6a",
            "urn:uuid:",
        ] {
            assert_eq!(uuid(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn ids_round_trip(pool in proptest::option::of(1u128..), vm in 1u128..) {
            let id = VmId { pool: pool.map(Uuid::from_u128), vm: Uuid::from_u128(vm) };
            prop_assert_eq!(VmId::parse(&id.to_string()), Ok(id));
            prop_assert_eq!(swapped(swapped(id.vm)), id.vm);
        }

        #[test]
        fn nothing_that_a_node_carries_stops_the_reader(text in ".{0,80}") {
            let _ = VmId::parse(&format!("{SCHEME}{text}"));
        }
    }
}
