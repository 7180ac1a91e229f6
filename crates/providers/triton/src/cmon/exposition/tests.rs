//! What is read, what is dropped, and what others read of it.

use super::*;

fn source(number: u8) -> Source {
    Source {
        node: format!("k8s-{number}"),
        machine: format!("m{number}"),
        brand: "bhyve".to_owned(),
        compute_node: "c".to_owned(),
    }
}

fn page(texts: &[&str]) -> String {
    let all: Vec<_> = texts
        .iter()
        .zip(1..)
        .map(|(text, number)| (source(number), Some(Exposition::parse(text))))
        .collect();
    together(&all).0
}

#[test]
fn families_of_all_machines_stand_together_with_one_help_and_one_type() {
    let one = "# HELP mem_limit Memory limit in bytes\n# TYPE mem_limit gauge\nmem_limit 1024\n\
               # TYPE cpu counter\ncpu{mode=\"user\"} 5 1700000000000\n";
    let two = "# HELP mem_limit Memory\n# TYPE mem_limit gauge\nmem_limit 2048\n";
    let expected = r#"# HELP triton_cpu cpu of a machine, as the metrics service has it
# TYPE triton_cpu counter
triton_cpu{mode="user",node="k8s-1",machine="m1",brand="bhyve",compute_node="c"} 5
# HELP triton_mem_limit Memory limit in bytes
# TYPE triton_mem_limit gauge
triton_mem_limit{node="k8s-1",machine="m1",brand="bhyve",compute_node="c"} 1024
triton_mem_limit{node="k8s-2",machine="m2",brand="bhyve",compute_node="c"} 2048
# HELP triton_cmon_up Whether the metrics of a machine could be read.
# TYPE triton_cmon_up gauge
triton_cmon_up{node="k8s-1",machine="m1"} 1
triton_cmon_up{node="k8s-2",machine="m2"} 1
"#;
    assert_eq!(page(&[one, two]), expected);
}

#[test]
fn a_machine_that_does_not_answer_is_down_and_hides_no_other() {
    let read = Exposition::parse("up 1\n");
    let (page, _) = together(&[(source(1), None), (source(2), Some(read))]);
    assert!(page.contains("triton_cmon_up{node=\"k8s-1\",machine=\"m1\"} 0\n"));
    assert!(page.contains("triton_cmon_up{node=\"k8s-2\",machine=\"m2\"} 1\n"));
    assert!(page.contains("triton_up{node=\"k8s-2\""));
}

#[test]
fn lines_that_nobody_could_read_are_dropped_and_counted() {
    let histogram = "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1";
    let summary = "# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 1\ns_count 1";
    for (line, dropped) in [
        ("a 1", 0),
        ("a 1.5e+09", 0),
        ("a NaN", 0),
        ("a -Inf", 0),
        ("a{} 1", 0),
        ("a{x=\"1\",} 1", 0),
        ("a { x = \"1\" } 1", 0),
        ("# a comment", 0),
        ("# TYPE", 0),
        ("", 0),
        ("a", 1),
        ("a one", 1),
        ("a +NaN", 1),
        ("a 1 soon", 1),
        ("a 1 2 3", 1),
        ("1a 1", 1),
        ("a-b 1", 1),
        ("a{x=1} 1", 1),
        ("a{x=\"1} 1", 1),
        ("a{x=\"1\" y=\"2\"} 1", 1),
        ("a{x=\"1\",x=\"2\"} 1", 1),
        ("a{x:y=\"1\"} 1", 1),
        ("a{__name__=\"b\"} 1", 1),
        ("a{x=\"\\t\"} 1", 1),
        ("a{x=\"1\"}", 1),
        ("a 1\na 2", 1),
        ("a{x=\"1\",y=\"2\"} 1\na{y=\"2\",x=\"1\"} 1", 1),
        ("# TYPE h histogram\nh_bucket 1", 1),
        ("# TYPE h histogram\nh_bucket{le=\"x\"} 1", 1),
        (histogram, 0),
        (summary, 0),
        ("# TYPE s summary\ns 1", 1),
    ] {
        assert_eq!(Exposition::parse(line).dropped, dropped, "{line}");
    }
}

#[test]
fn parts_of_a_histogram_stay_together() {
    let text = "# HELP h A histogram\n# TYPE h histogram\nh_count 2\nh_bucket{le=\"1\"} 1\n\
                h_bucket{le=\"+Inf\"} 2\nh_sum 3\nother_count 7\n";
    let page = page(&[text, text]);
    assert_eq!(page.matches("# TYPE triton_h histogram\n").count(), 1);
    assert_eq!(page.matches("triton_h_bucket{le=\"1\",node=").count(), 2);
    let untyped = page.matches("# TYPE triton_other_count untyped\n");
    assert_eq!(untyped.count(), 1);
}

#[test]
fn labels_that_have_our_names_are_given_others_and_texts_are_written_as_they_were_meant() {
    let text = "# HELP a back\\\\slash \\t and \\n line\na{node=\"x\",exported_node=\"y\",t=\"q\\\"\\\\\\n\"} 1\n";
    let page = page(&[text]);
    let help = "# HELP triton_a back\\\\slash \\\\t and \\n line\n";
    assert!(page.contains(help), "{page}");
    let labels = r#"{exported_exported_node="y",exported_node="x",t="q\"\\\n",node="k8s-1""#;
    assert!(page.contains(labels), "{page}");
}

#[test]
fn a_family_that_is_another_thing_elsewhere_and_one_that_is_ours_are_left_out() {
    let all = [
        (1, "# TYPE a gauge\na 1\n"),
        (2, "# TYPE a counter\na 1\n"),
        (3, "cmon_up 1\n"),
    ];
    let all = all.map(|(number, text)| (source(number), Some(Exposition::parse(text))));
    let (page, dropped) = together(&all);
    assert_eq!(dropped, 2);
    assert!(!page.contains("triton_a{node=\"k8s-2\""), "{page}");
    assert_eq!(page.matches("# TYPE triton_cmon_up").count(), 1, "{page}");
    assert_eq!(page.matches("\ntriton_cmon_up{").count(), 3, "{page}");
}
