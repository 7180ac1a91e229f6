//! What a request asks for: PEM, then PKCS#10.
//!
//! The certificate is signed by another program (kube-controller-manager, in Go), which reads the same
//! bytes with another reader. Whatever the two could understand differently is refused here, so that
//! nobody gets approved for one thing and signed for another: one PEM block and nothing around it, one
//! list of extensions, each of them once, nothing left over.

use std::collections::BTreeSet;
use std::net::IpAddr;

use bowline_core::{CertificateRequest, RequestContent};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::{ExtensionRequest, ParsedCriAttribute};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

use crate::kube::csr_store::Requested;

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const END: &str = "-----END CERTIFICATE REQUEST-----";
/// Names and addresses that are read; a kubelet has a handful.
const MOST_NAMES: usize = 256;

impl Requested {
    /// What decisions about it are made of.
    pub fn facts(&self) -> CertificateRequest {
        let content = if self.is_too_large {
            Err("it is larger than any kubelet's".to_owned())
        } else {
            read(&self.request)
        };
        CertificateRequest {
            signer: self.signer.clone(),
            username: self.username.clone(),
            groups: self.groups.clone(),
            usages: self.usages.clone(),
            conditions: self.conditions.clone(),
            is_issued: self.is_issued,
            content,
        }
    }
}

/// What the bytes of `spec.request` ask for, or why they cannot be read.
fn read(bytes: &[u8]) -> Result<RequestContent, String> {
    let der = der(bytes)?;
    let (rest, request) = X509CertificationRequest::from_der(&der)
        .map_err(|error| format!("it is no PKCS#10 request: {error}"))?;
    if !rest.is_empty() {
        return Err("something follows the PKCS#10 request".into());
    }
    let info = &request.certification_request_info;
    let mut content = RequestContent {
        common_names: texts(info.subject.iter_common_name())?,
        organizations: texts(info.subject.iter_organization())?,
        ..RequestContent::default()
    };
    is_plain(&info.subject)?;
    let mut lists = Vec::new();
    for attribute in info.iter_attributes() {
        match attribute.parsed_attribute() {
            ParsedCriAttribute::ExtensionRequest(list) => lists.push(list),
            ParsedCriAttribute::ChallengePassword(_) => {}
            ParsedCriAttribute::UnsupportedAttribute => {
                return Err(format!("its attribute {} is not known", attribute.oid));
            }
        }
    }
    match lists.as_slice() {
        [] => {}
        [one] => names(one, &mut content)?,
        _ => return Err("it has several lists of extensions".into()),
    }
    let count = content.dns_names.len() + content.addresses.len();
    if count > MOST_NAMES {
        return Err(format!("it asks for {count} names, more than {MOST_NAMES}"));
    }
    Ok(content)
}

/// The bytes inside of the only PEM block.
fn der(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
    let inner = text
        .trim_ascii()
        .strip_prefix(BEGIN)
        .and_then(|it| it.strip_suffix(END))
        .ok_or("it is not one PEM block of the type CERTIFICATE REQUEST")?;
    let is_data = |it: char| it.is_ascii_alphanumeric() || "+/=\r\n".contains(it);
    if !inner.starts_with(['\r', '\n']) || !inner.chars().all(is_data) {
        return Err("there is more than data in its PEM block".into());
    }
    let (_, pem) = x509_parser::pem::parse_x509_pem(bytes)
        .map_err(|error| format!("its PEM cannot be read: {error}"))?;
    Ok(pem.contents)
}

fn texts<'a, 'b: 'a>(
    attributes: impl Iterator<Item = &'a x509_parser::x509::AttributeTypeAndValue<'b>>,
) -> Result<Vec<String>, String> {
    let text = |it: &x509_parser::x509::AttributeTypeAndValue<'_>| it.as_str().map(str::to_owned);
    let all: Result<_, _> = attributes.map(text).collect();
    all.map_err(|error| format!("its subject cannot be read: {error}"))
}

/// The subject is signed as it is: nothing but common name and organisation belongs there.
fn is_plain(subject: &X509Name<'_>) -> Result<(), String> {
    let known = subject.iter_common_name().count() + subject.iter_organization().count();
    if subject.iter_attributes().count() == known {
        return Ok(());
    }
    Err("its subject has more than common name and organisation".into())
}

/// The subject alternative names among the extensions.
fn names(list: &ExtensionRequest<'_>, content: &mut RequestContent) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for extension in &list.extensions {
        if !seen.insert(extension.oid.to_id_string()) {
            return Err(format!("its extension {} is there twice", extension.oid));
        }
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => {
                for name in &names.general_names {
                    take(name, content)?;
                }
            }
            ParsedExtension::ParseError { .. } | ParsedExtension::Unparsed => {
                return Err(format!("its extension {} cannot be read", extension.oid));
            }
            // The signer takes nothing but the names from a request.
            _ => {}
        }
    }
    Ok(())
}

fn take(name: &GeneralName<'_>, content: &mut RequestContent) -> Result<(), String> {
    match name {
        GeneralName::DNSName(name) => content.dns_names.push((*name).to_owned()),
        GeneralName::IPAddress(bytes) => content.addresses.push(address(bytes)?),
        GeneralName::RFC822Name(_) => content.emails += 1,
        GeneralName::URI(_) => content.uris += 1,
        GeneralName::Invalid(..) => return Err("one of its names cannot be read".into()),
        _ => content.others += 1,
    }
    Ok(())
}

fn address(bytes: &[u8]) -> Result<IpAddr, String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Ok(four.into());
    }
    if let Ok(sixteen) = <[u8; 16]>::try_from(bytes) {
        return Ok(sixteen.into());
    }
    Err(format!("an address in it has {} bytes", bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    fn pem(common_name: &str, organizations: &[&str], names: Vec<SanType>) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for organization in organizations {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *organization);
        }
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        params.subject_alt_names = names;
        let key = KeyPair::generate().unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap()
    }

    fn dns(name: &str) -> SanType {
        SanType::DnsName(name.try_into().unwrap())
    }

    #[test]
    fn a_kubelets_request_is_read() {
        let names = vec![
            dns("n1"),
            dns("N1.example."),
            SanType::IpAddress("10.0.0.5".parse().unwrap()),
            SanType::IpAddress("2001:db8::5".parse().unwrap()),
        ];
        let content = read(pem("system:node:n1", &["system:nodes"], names).as_bytes()).unwrap();
        assert_eq!(content.common_names, ["system:node:n1"]);
        assert_eq!(content.organizations, ["system:nodes"]);
        assert_eq!(content.dns_names, ["n1", "N1.example."]);
        let addresses: Vec<String> = content.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["10.0.0.5", "2001:db8::5"]);
        assert_eq!((content.emails, content.uris, content.others), (0, 0, 0));
    }

    #[test]
    fn names_of_other_kinds_are_counted() {
        let names = vec![
            SanType::Rfc822Name("a@example.com".try_into().unwrap()),
            SanType::URI("https://example.com/".try_into().unwrap()),
            SanType::OtherName((vec![1, 3, 6, 1, 4, 1, 311, 20, 2, 3], "u".into())),
        ];
        let content = read(pem("n", &["o"], names).as_bytes()).unwrap();
        assert_eq!((content.emails, content.uris, content.others), (1, 1, 1));
        let none = read(pem("n", &[], Vec::new()).as_bytes()).unwrap();
        assert!(none.dns_names.is_empty() && none.organizations.is_empty());
    }

    #[test]
    fn only_one_pem_block_of_the_right_type_is_read() {
        let right = pem("n", &["o"], vec![dns("n1")]);
        assert!(read(right.as_bytes()).is_ok());
        assert!(read(right.replace('\n', "\r\n").as_bytes()).is_ok());
        assert!(read(right.trim_end().as_bytes()).is_ok());
        let other = pem("n", &["o"], vec![dns("n2")]);
        for (what, wrong) in [
            ("nothing", String::new()),
            (
                "another type",
                right.replace("CERTIFICATE REQUEST", "CERTIFICATE"),
            ),
            (
                "an older type",
                right.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"),
            ),
            ("two blocks", format!("{right}{other}")),
            ("words before", format!("hello\n{right}")),
            ("words after", format!("{right}hello")),
            ("a header", right.replacen("-----\n", "-----\nA: b\n\n", 1)),
            ("blanks inside", right.replacen("-----\n", "----- \n", 1)),
            ("no data", format!("{BEGIN}\n{END}\n")),
            ("no PKCS#10", format!("{BEGIN}\nAAAA\n{END}\n")),
            ("one line", format!("{BEGIN}AAAA{END}")),
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{what}");
        }
    }

    #[test]
    fn what_two_readers_could_understand_differently_is_refused() {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "n");
        params
            .distinguished_name
            .push(DnType::OrganizationalUnitName, "x");
        let key = KeyPair::generate().unwrap();
        let wide = params.serialize_request(&key).unwrap().pem().unwrap();
        assert!(
            read(wide.as_bytes())
                .unwrap_err()
                .contains("more than common name")
        );
        let with = |oid: &'static [u64], values: &[u8]| {
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            params.subject_alt_names = vec![dns("n1")];
            let values = values.to_vec();
            let attributes = vec![rcgen::Attribute { oid, values }];
            let request = params.serialize_request_with_attributes(&key, attributes);
            read(request.unwrap().pem().unwrap().as_bytes())
        };
        // A second list of extensions, with the DNS name n2; an attribute of nobody.
        let list = b"\x31\x11\x30\x0f\x30\x0d\x06\x03\x55\x1d\x11\x04\x06\x30\x04\x82\x02n2";
        let extensions = &[1, 2, 840, 113_549, 1, 9, 14];
        assert!(
            with(extensions, list)
                .unwrap_err()
                .contains("several lists")
        );
        let unknown = with(&[1, 3, 6, 1, 4, 1, 99_999], b"\x31\x02\x05\x00");
        assert!(unknown.unwrap_err().contains("is not known"));
        let many = (0..300).map(|it| dns(&format!("n{it}"))).collect();
        assert!(
            read(pem("n", &["o"], many).as_bytes())
                .unwrap_err()
                .contains("300 names")
        );
    }

    #[test]
    fn addresses_have_four_or_sixteen_bytes() {
        assert_eq!(address(&[10, 0, 0, 5]), Ok("10.0.0.5".parse().unwrap()));
        assert!(address(&[10, 0, 0]).is_err() && address(&[0; 8]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_bring_the_reader_down(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = read(&bytes);
        }

        #[test]
        fn no_change_of_a_request_brings_the_reader_down(at in 0_usize..700, byte in any::<u8>()) {
            use x509_parser::pem::parse_x509_pem;
            let right = pem("system:node:n1", &["system:nodes"], vec![dns("n1")]);
            let mut der = parse_x509_pem(right.as_bytes()).unwrap().1.contents;
            let at = at % der.len();
            der[at] = byte;
            let data = pem_of(&der);
            let _ = read(data.as_bytes());
        }
    }

    /// PEM of any bytes; the base64 is that of Kubernetes objects.
    fn pem_of(der: &[u8]) -> String {
        use k8s_openapi::ByteString;
        let value = serde_json::to_value(ByteString(der.to_vec())).unwrap();
        format!("{BEGIN}\n{}\n{END}\n", value.as_str().unwrap())
    }
}
