//! Addresses as machines send them, and as Rust has them.

use std::net::IpAddr;

use crate::common::{NetIp, NetIpPrefix};

impl NetIp {
    /// The address, unless the bytes are none. What follows the 16 bytes of IPv6 is a zone, and left out.
    pub fn address(&self) -> Option<IpAddr> {
        address(&self.ip)
    }
}

impl From<IpAddr> for NetIp {
    fn from(address: IpAddr) -> Self {
        Self { ip: bytes(address) }
    }
}

impl NetIpPrefix {
    /// The address, and the length of its network's prefix, unless these are none.
    pub fn address(&self) -> Option<(IpAddr, u8)> {
        let address = address(&self.ip)?;
        let length = u8::try_from(self.prefix_length).ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        (length <= most).then_some((address, length))
    }
}

impl From<(IpAddr, u8)> for NetIpPrefix {
    fn from((address, length): (IpAddr, u8)) -> Self {
        Self {
            ip: bytes(address),
            prefix_length: i32::from(length),
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(four));
    }
    let sixteen = <[u8; 16]>::try_from(bytes.get(..16)?).ok()?;
    Some(IpAddr::from(sixteen))
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_there_and_back() {
        for text in ["10.0.0.5", "0.0.0.0", "fd00::5", "::", "::ffff:10.0.0.5"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(NetIp::from(address).address(), Some(address), "{text}");
            let prefix = NetIpPrefix::from((address, 24));
            assert_eq!(prefix.address(), Some((address, 24)), "{text}");
        }
    }

    #[test]
    fn a_zone_after_the_address_is_left_out() {
        let mut ip = NetIp::from("fe80::1".parse::<IpAddr>().unwrap());
        ip.ip.extend(b"eth0");
        assert_eq!(ip.address(), Some("fe80::1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_address_is_none() {
        let ten: IpAddr = "10.0.0.5".parse().unwrap();
        for bytes in [&[][..], &[1, 2, 3], &[1, 2, 3, 4, 5], &[0; 15]] {
            assert_eq!(NetIp { ip: bytes.to_vec() }.address(), None, "{bytes:?}");
        }
        for length in [-1, 33, 256 + 24] {
            let mut prefix = NetIpPrefix::from((ten, 24));
            prefix.prefix_length = length;
            assert_eq!(prefix.address(), None, "{length}");
        }
    }
}
