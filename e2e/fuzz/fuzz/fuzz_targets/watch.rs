#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (bowline_fuzz::target("watch").run)(bytes));
