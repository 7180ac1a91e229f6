use super::sign_in::client_id;

#[test]
fn the_name_of_our_token_is_the_vector_s() {
    let id = client_id("https://xo.example.net/", "svc-k8s@corp.lan");
    assert_eq!(id, "bowline-c1552cb29880");
}
