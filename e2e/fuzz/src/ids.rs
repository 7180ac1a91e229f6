//! Provider IDs: kubelets write them, and they decide which cloud owns a node.

use bowline_core::{Claim, Node, ProviderId};
use bowline_provider::ProviderKind;

/// All kinds of clouds.
pub(crate) const KINDS: [&ProviderKind; 6] = [
    &bowline_cloudscale::KIND,
    &bowline_exoscale::KIND,
    &bowline_static::KIND,
    &bowline_talos::KIND,
    &bowline_triton::KIND,
    &bowline_xenorchestra::KIND,
];

pub(crate) fn provider_ids(bytes: &[u8]) {
    let text = &*crate::text(bytes);
    if let Ok(id) = ProviderId::parse(text) {
        assert_eq!(id.as_str(), text);
        let whole = match id.scheme() {
            "" => id.rest().to_owned(),
            scheme => format!("{scheme}://{}", id.rest()),
        };
        assert_eq!(whole, text, "scheme and rest are the whole");
    }
    let node = Node {
        provider_id: Some(text.to_owned()),
        ..Node::default()
    };
    for kind in KINDS {
        let is_mine = (kind.match_node)(&node).claim == Claim::Mine;
        let is_of_scheme = text.starts_with(&format!("{}://", kind.name));
        // Exoscale takes plain uuids, too.
        let is_plain = !text.contains("://");
        // Talos runs on other clouds, whose ids its nodes have.
        let is_talos = kind.name == bowline_talos::PROVIDER;
        assert!(
            !is_mine || is_of_scheme || is_plain || is_talos,
            "{}: {text}",
            kind.name
        );
    }
    bowline_core::ownership::machine_key(text);
    instances_of_each(text);
}

/// What each cloud understands, it would write in the same way.
fn instances_of_each(text: &str) {
    if let Ok(server) = bowline_cloudscale::id::ServerId::from_provider_id(text) {
        let written = server.provider_id().expect("an id that can be written");
        let again = bowline_cloudscale::id::ServerId::from_provider_id(written.as_str());
        assert_eq!(again.ok(), Some(server));
    }
    if let Some(instance) = bowline_exoscale::id::instance_id(text) {
        let written = bowline_exoscale::id::provider_id(instance);
        assert_eq!(bowline_exoscale::id::instance_id(&written), Some(instance));
    }
    if let Some(machine) = bowline_triton::id::machine_id(text) {
        let written = bowline_triton::id::provider_id(machine).expect("an id that can be written");
        assert_eq!(
            bowline_triton::id::machine_id(written.as_str()),
            Some(machine)
        );
    }
    if let Ok(vm) = bowline_xenorchestra::id::VmId::parse(text) {
        let again = bowline_xenorchestra::id::VmId::parse(&vm.to_string());
        assert_eq!(again.ok(), Some(vm));
    }
    bowline_talos::id::claim(text);
}
