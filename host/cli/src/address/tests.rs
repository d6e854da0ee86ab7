use super::*;

#[test]
fn the_default_socket_is_in_a_folder_of_the_user() {
    assert_eq!(socket_in(Some("/run/user/7".into()), 7), PathBuf::from("/run/user/7/homeostat/host.sock"));
    assert_eq!(socket_in(None, 7), PathBuf::from("/tmp/homeostat-7/host.sock"));
}

#[test]
fn an_invalid_server_address_is_a_usage_error() {
    let global = Global { server: Some("https://127.0.0.1".into()), ..Global::default() };
    let error = server(&global).unwrap_err();
    assert_eq!(exit::reason_of(&error), exit::ExitReason::Usage);
}
