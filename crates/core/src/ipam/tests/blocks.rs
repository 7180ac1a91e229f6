use super::*;

fn set(range: &str, mask: u8) -> BlockSet {
    BlockSet::new(net(range), mask).unwrap()
}

fn allocate(set: &mut BlockSet) -> Option<String> {
    let (block, _) = set.next()?;
    set.take(block);
    Some(block.to_string())
}

#[test]
fn block_number_i_lies_i_block_sizes_after_the_base() {
    for (range, mask, index, block) in [
        ("10.244.0.0/16", 24, 255, "10.244.255.0/24"),
        ("10.244.0.0/14", 26, 1000, "10.244.250.0/26"),
        ("192.168.8.0/22", 25, 5, "192.168.10.128/25"),
        ("fd00:10:244::/56", 64, 7, "fd00:10:244:7::/64"),
        ("fd00:10:244::/56", 72, 300, "fd00:10:244:1:2c00::/72"),
        ("fd00:10:244::/64", 80, 65535, "fd00:10:244:0:ffff::/80"),
        ("10.32.0.0/12", 24, 4095, "10.47.255.0/24"),
        ("2001:db8:1:2::/64", 80, 1, "2001:db8:1:2:1::/80"),
        ("2001:db8:1:2::/64", 80, 65535, "2001:db8:1:2:ffff::/80"),
        ("2001:db8:1::/56", 72, 256, "2001:db8:1:1::/72"),
        ("0.0.0.0/0", 32, 4_294_967_295, "255.255.255.255/32"),
        ("::/0", 0, 0, "::/0"),
    ] {
        assert_eq!(set(range, mask).block(index).to_string(), block, "{range}");
    }
}

#[test]
fn a_range_has_so_many_blocks_or_cannot_be_cut() {
    for (range, mask, blocks) in [
        ("10.32.0.0/12", 24, Ok(4096)),
        ("10.64.0.0/14", 25, Ok(2048)),
        ("0.0.0.0/0", 32, Ok(1 << 32)),
        ("10.0.0.0/24", 24, Ok(1)),
        ("2001:db8:1:2::/64", 80, Ok(65536)),
        ("2001:db8:1::/56", 80, Err(BlockSetError::TooMany)),
        ("fd00::/48", 65, Err(BlockSetError::TooMany)),
        ("10.0.0.0/24", 23, Err(BlockSetError::NoBlock)),
        ("10.0.0.0/24", 33, Err(BlockSetError::NoBlock)),
    ] {
        let made = BlockSet::new(net(range), mask).map(|set| set.blocks());
        assert_eq!(made, blocks, "{range} {mask}");
    }
}

#[test]
fn the_search_goes_on_behind_the_last_block_and_round() {
    let mut set = set("10.50.0.0/22", 24);
    assert_eq!(allocate(&mut set).unwrap(), "10.50.0.0/24");
    assert_eq!(allocate(&mut set).unwrap(), "10.50.1.0/24");
    assert_eq!(set.free(net("10.50.0.0/24")), 1);
    assert_eq!(allocate(&mut set).unwrap(), "10.50.2.0/24");
    assert_eq!(allocate(&mut set).unwrap(), "10.50.3.0/24");
    assert_eq!(allocate(&mut set).unwrap(), "10.50.0.0/24");
    assert_eq!(allocate(&mut set), None);
}

#[test]
fn tries_are_the_used_blocks_that_are_passed() {
    let mut set = set("10.50.0.0/22", 24);
    set.mark(net("10.50.0.0/23"));
    assert_eq!(set.next().unwrap(), (net("10.50.2.0/24"), 2));
    set.take(net("10.50.3.0/24"));
    assert_eq!(set.next().unwrap(), (net("10.50.2.0/24"), 2));
}

#[test]
fn wide_and_narrow_networks_mark_the_blocks_they_touch_and_none_twice() {
    let mut set = set("10.244.0.0/16", 24);
    for (network, marked, used) in [
        ("10.244.4.0/22", 4, 4),
        ("10.244.5.0/24", 0, 4),
        ("10.244.8.128/25", 1, 5),
        ("10.244.8.0/26", 0, 5),
        ("10.245.0.0/24", 0, 5),
        ("fd00::/64", 0, 5),
        ("10.0.0.0/8", 251, 256),
    ] {
        assert_eq!(set.mark(net(network)), marked, "{network}");
        assert_eq!(set.used(), used, "{network}");
    }
    assert_eq!(set.next(), None);
    assert_eq!(set.free(net("10.244.128.0/17")), 128);
    assert_eq!(set.free(net("10.244.128.0/18")), 0);
    assert_eq!(set.next().unwrap().0, net("10.244.128.0/24"));
}
