//! Who may have which names and addresses in a certificate.
