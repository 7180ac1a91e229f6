use serde_json::{Value, json};

use super::*;

const ACCOUNT: Uuid = Uuid::from_u128(0xaaaa_aaaa_0000_4000_8000_0000_0000_000a);

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// Networks by number: whether they are public, and their zones.
fn networks(entries: &[(u128, bool, &[&str])]) -> BTreeMap<Uuid, Network> {
    let network = |(number, public, zones): &(u128, bool, &[&str])| -> (Uuid, Network) {
        let suffixes = zones.iter().flat_map(|zone| {
            // In the wrong order, as an operator may have them.
            [format!("svc.acct.{zone}"), format!("inst.acct.{zone}")]
        });
        let suffixes: Vec<String> = suffixes.collect();
        let mut body = json!({"id": id(*number), "name": "n", "public": public});
        if !suffixes.is_empty() {
            body["suffixes"] = json!(suffixes);
        }
        (id(*number), serde_json::from_value(body).unwrap())
    };
    entries.iter().map(network).collect()
}

/// A machine with cards on these networks; the first is its first.
fn machine(number: u128, cards: &[(u128, &str)]) -> Machine {
    let nics: Vec<Value> = cards
        .iter()
        .enumerate()
        .map(|(at, (network, ip))| json!({"ip": ip, "primary": at == 0, "network": id(*network)}))
        .collect();
    let body = json!({"id": id(number), "name": "m", "state": "running", "nics": nics});
    serde_json::from_value(body).unwrap()
}

struct Question {
    networks: BTreeMap<Uuid, Network>,
    targets: Vec<Machine>,
    names: BTreeMap<Uuid, Vec<String>>,
    internal: bool,
    network: Option<Uuid>,
    zone: Option<&'static str>,
    published: Option<&'static str>,
}

impl Question {
    fn new(networks: BTreeMap<Uuid, Network>, targets: Vec<Machine>) -> Self {
        Self {
            networks,
            targets,
            names: BTreeMap::new(),
            internal: false,
            network: None,
            zone: None,
            published: None,
        }
    }

    fn answer(&self) -> Choice {
        let targets: Vec<&Machine> = self.targets.iter().collect();
        let zones = Zones {
            networks: &self.networks,
            account: ACCOUNT,
            targets: &targets,
            names: &self.names,
            internal: self.internal,
            network: self.network,
            zone: self.zone,
            published: self.published,
        };
        zones.choose()
    }

    #[track_caller]
    fn place(&self) -> (Option<u128>, String, usize) {
        match self.answer() {
            Choice::Place(Place {
                network,
                suffix,
                others,
            }) => (network.map(|it| it.as_u128()), suffix, others.len()),
            other => panic!("{other:?}"),
        }
    }
}

fn said(network: u128, suffix: &str) -> (Option<u128>, String, usize) {
    (Some(network), suffix.to_owned(), 0)
}

#[test]
fn a_public_name_is_on_the_network_that_all_targets_are_on() {
    let all = || networks(&[(1, true, &["a"]), (2, true, &["b"]), (3, false, &["c"])]);
    let cards = [(3, "10.0.0.1"), (2, "203.0.113.1"), (1, "203.0.113.2")];
    let one = machine(1, &cards);
    let two = machine(2, &[(2, "203.0.113.3"), (3, "10.0.0.2")]);
    let question = Question::new(all(), vec![one.clone(), two]);
    assert_eq!(question.place(), said(2, "svc.acct.b"));
    // None is public: that of the first card.
    let private = machine(2, &[(3, "10.0.0.2")]);
    let question = Question::new(all(), vec![one, private]);
    assert_eq!(question.place(), said(3, "svc.acct.c"));
}

#[test]
fn of_several_zones_the_one_that_targets_have_names_in_is_taken() {
    let all = networks(&[(1, true, &["a"]), (2, true, &["b", "aa"])]);
    let one = machine(1, &[(1, "203.0.113.1"), (2, "203.0.113.2")]);
    let mut question = Question::new(all, vec![one]);
    let ambiguous = (Some(1), "svc.acct.a".to_owned(), 1);
    assert_eq!(question.place(), ambiguous);
    question.names = [(id(1), vec!["m.inst.acct.b".to_owned()])].into();
    let first = said(2, "svc.acct.aa");
    assert_eq!(
        question.place(),
        first,
        "the first suffix in the order of texts"
    );
    question.published = Some("web.prod.svc.acct.a");
    assert_eq!(question.place(), said(1, "svc.acct.a"), "it is kept");
    question.network = Some(id(2));
    assert_eq!(question.place(), said(2, "svc.acct.aa"), "it was named");
}

#[test]
fn an_internal_name_is_on_the_first_card_or_the_lowest_id() {
    let all = networks(&[(1, false, &["a"]), (2, false, &["b"]), (3, true, &["c"])]);
    let cards = [(3, "203.0.113.1"), (2, "10.0.0.1"), (1, "10.0.1.1")];
    let mut question = Question::new(all, vec![machine(1, &cards)]);
    question.internal = true;
    assert_eq!(question.place(), said(1, "svc.acct.a"));
    question.published = Some("web.prod.svc.acct.b");
    assert_eq!(question.place(), said(2, "svc.acct.b"), "it is kept");
    question.published = Some("web.prod.svc.acct.c");
    assert_eq!(question.place(), said(1, "svc.acct.a"), "it is public");
    question.published = None;
    question.targets = vec![machine(1, &[(2, "10.0.0.1"), (1, "10.0.1.1")])];
    assert_eq!(question.place(), said(2, "svc.acct.b"));
    // Nobody is on a private one: that of the first card.
    question.targets = vec![machine(1, &[(3, "203.0.113.1")])];
    assert_eq!(question.place(), said(3, "svc.acct.c"));
}

#[test]
fn a_public_card_of_a_hidden_network_is_on_every_public_entry() {
    let all = networks(&[(1, true, &["a"]), (2, false, &["b"])]);
    let pooled = machine(1, &[(9, "198.51.100.7"), (2, "10.0.0.1")]);
    let question = Question::new(all.clone(), vec![pooled.clone()]);
    assert_eq!(question.place(), said(1, "svc.acct.a"));
    let address = addresses_on(&pooled, Some(id(1)), &all);
    assert_eq!(
        address,
        ["198.51.100.7".parse::<std::net::IpAddr>().unwrap()]
    );
    let shared = machine(1, &[(9, "100.64.0.9"), (2, "10.0.0.1")]);
    assert!(addresses_on(&shared, Some(id(1)), &all).is_empty());
    let first = addresses_on(&shared, None, &all);
    assert_eq!(first, ["100.64.0.9".parse::<std::net::IpAddr>().unwrap()]);
}

#[test]
fn without_suffixes_the_configuration_or_the_targets_names_say_the_zone() {
    let all = networks(&[(1, true, &[])]);
    let mut question = Question::new(all, vec![machine(1, &[(1, "203.0.113.1")])]);
    assert_eq!(question.answer(), Choice::Unknown);
    let name = |zone: &str| format!("{}.inst.{ACCOUNT}.{zone}", id(1));
    question.names = [(id(1), vec![name("z.example"), "m.inst.x.other".to_owned()])].into();
    let suffix = |zone: &str| format!("svc.{ACCOUNT}.{zone}");
    assert_eq!(question.place(), said(1, &suffix("z.example")));
    question
        .names
        .insert(id(1), vec![name("z.example"), name("y.example")]);
    let zones = ["y.example", "z.example"].map(str::to_owned).into();
    assert_eq!(question.answer(), Choice::Unclear(zones));
    question.zone = Some("w.example");
    assert_eq!(question.place(), said(1, &suffix("w.example")));
    question.targets.clear();
    assert_eq!(question.place(), (None, suffix("w.example"), 0));
}
