//! What a list that lacks something proves.
