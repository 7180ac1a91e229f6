//! Compares the published ingress with the wanted one, the way the API server stores it.

use crate::{Ingress, IpMode};

/// The entrances as they are to be stored: an address has a mode if the server knows modes, a name
/// has none.
pub fn storable_ingress(wanted: &[Ingress], has_ip_mode: bool) -> Vec<Ingress> {
    let storable = |it: &Ingress| Ingress {
        ip_mode: match (&it.ip, has_ip_mode) {
            (Some(_), true) => Some(it.ip_mode.unwrap_or(IpMode::Vip)),
            _ => None,
        },
        ..it.clone()
    };
    wanted.iter().map(storable).collect()
}

/// What is to be written so that the Service shows `wanted`; none if it does.
pub fn ingress_to_write(
    published: &[Ingress],
    wanted: &[Ingress],
    has_ip_mode: bool,
) -> Option<Vec<Ingress>> {
    let wanted = storable_ingress(wanted, has_ip_mode);
    (storable_ingress(published, has_ip_mode) != wanted).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(address: &str, ip_mode: Option<IpMode>) -> Ingress {
        Ingress {
            ip: Some(address.into()),
            hostname: None,
            ip_mode,
        }
    }

    #[test]
    fn a_missing_mode_is_vip_and_differences_are_written_whole() {
        let (bare, vip) = (ip("192.0.2.1", None), ip("192.0.2.1", Some(IpMode::Vip)));
        let proxy = ip("192.0.2.1", Some(IpMode::Proxy));
        let name = Ingress {
            hostname: Some("lb.example.test".into()),
            ..Ingress::default()
        };
        let none = Vec::new();
        let list = |one: &Ingress| vec![one.clone()];
        let (bare, vip, proxy, name) = (list(&bare), list(&vip), list(&proxy), list(&name));
        for (published, wanted, modes, written) in [
            (&none, &none, true, None),
            (&none, &bare, true, Some(&vip)),
            (&none, &bare, false, Some(&bare)),
            (&vip, &bare, true, None),
            (&bare, &vip, true, None),
            (&bare, &proxy, false, None),
            (&vip, &proxy, true, Some(&proxy)),
            (&vip, &none, true, Some(&none)),
            (&vip, &name, true, Some(&name)),
            (&name, &name, true, None),
        ] {
            let to_write = ingress_to_write(published, wanted, modes);
            assert_eq!(to_write.as_ref(), written);
        }
    }
}
