//! Addresses as people write them: `eth0/10.0.0.5/24`, with flags in brackets where there are some.

use std::net::IpAddr;

use bowline_talos_api::specs::{AddressStatusSpec, EXTERNAL_LINK, Family, Scope};

/// Something that is no address of a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address of a link; write eth0/10.0.0.5/24, with flags eth0/fd00::5/64(128)")]
pub struct AddressError(pub String);

/// Reads one address: `<link>/<address>/<prefix length>`, then flags in brackets (128: permanent).
pub fn address(text: &str) -> Result<AddressStatusSpec, AddressError> {
    let wrong = || AddressError(text.to_owned());
    let (body, flags) = match text.split_once('(') {
        Some((body, flags)) => {
            let flags = flags.strip_suffix(')').ok_or_else(wrong)?;
            (body, flags.parse().map_err(|_| wrong())?)
        }
        None => (text, 0),
    };
    let mut parts = body.split('/');
    let (Some(link), Some(ip), Some(length), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
    let length: u8 = length.parse().map_err(|_| wrong())?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    if link.is_empty() || length > most {
        return Err(wrong());
    }
    let family = if ip.is_ipv4() {
        Family::Inet4
    } else {
        Family::Inet6
    };
    Ok(AddressStatusSpec {
        address: Some((ip, length).into()),
        link_name: link.to_owned(),
        link_index: u32::from(link != EXTERNAL_LINK),
        family: family.into(),
        scope: scope(ip).into(),
        flags,
        ..AddressStatusSpec::default()
    })
}

/// Reads several.
pub fn addresses<T: AsRef<str>>(texts: &[T]) -> Result<Vec<AddressStatusSpec>, AddressError> {
    texts.iter().map(|one| address(one.as_ref())).collect()
}

fn scope(ip: IpAddr) -> Scope {
    let link = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if ip.is_loopback() {
        Scope::Host
    } else if link {
        Scope::Link
    } else {
        Scope::Global
    }
}

/// The id of an address among the resources of its machine.
pub(super) fn id(spec: &AddressStatusSpec) -> String {
    let (ip, length) = ip_of(spec);
    format!("{}/{ip}/{length}", spec.link_name)
}

/// The address itself, without its network's length.
pub(super) fn ip_of(spec: &AddressStatusSpec) -> (IpAddr, u8) {
    let prefix = spec.address.as_ref();
    let address = prefix.and_then(bowline_talos_api::common::NetIpPrefix::address);
    address.unwrap_or((IpAddr::from([0; 4]), 0))
}

/// Whether a Node could have it as its own: neither one of this machine alone nor one of another network.
pub(super) fn is_own(spec: &AddressStatusSpec) -> bool {
    spec.link_name != EXTERNAL_LINK && spec.scope == i32::from(Scope::Global)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let permanent = address("eth0/2001:db8:8:0::7/64(128)").unwrap();
        assert_eq!(id(&permanent), "eth0/2001:db8:8::7/64");
        assert_eq!(permanent.flags, 128);
        assert_eq!(permanent.family, i32::from(Family::Inet6));
        let external = address("external/203.0.113.10/32").unwrap();
        assert_eq!((external.link_index, external.scope), (0, 0));
        assert!(!is_own(&external));
        for (text, wanted) in [
            ("lo/127.0.0.1/8", Scope::Host),
            ("lo/::1/128", Scope::Host),
            ("eth0/fe80::1/64", Scope::Link),
            ("eth0/169.254.1.1/16", Scope::Link),
            ("eth0/10.0.0.1/8", Scope::Global),
        ] {
            assert_eq!(address(text).unwrap().scope, i32::from(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "eth0",
            "eth0/10.0.0.1",
            "eth0/10.0.0.1/33",
            "eth0/10.0.0/8",
            "/10.0.0.1/8",
            "eth0/10.0.0.1/8/9",
            "eth0/10.0.0.1/8(x)",
            "eth0/10.0.0.1/8(1",
        ] {
            assert_eq!(address(text), Err(AddressError(text.to_owned())));
        }
    }
}
