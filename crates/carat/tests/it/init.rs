//! `carat init`: where its file lies.

use crate::support::Folder;
use std::fs;

#[test]
fn a_file_beside_another_folder_names_the_folder_of_the_app_and_is_never_overwritten() {
    let folder = Folder::new("init");
    for name in ["shop", "plans"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    folder.write("shop/config.ru", "run ->(env) { [200, {}, []] }\n");
    folder.run(&["init", "shop"]).assert_code(0);
    let beside = fs::read_to_string(folder.path("shop/carat.toml")).unwrap();
    assert!(!beside.contains("\ndir "), "{beside}");
    let elsewhere = ["init", "shop", "-o", "plans/shop.toml"];
    folder.run(&elsewhere).assert_code(0);
    let text = fs::read_to_string(folder.path("plans/shop.toml")).unwrap();
    let shop = folder.path("shop").canonicalize().unwrap();
    assert!(text.contains(&format!("\ndir     = \"{}\"\n", shop.display())), "{text}");
    folder.run(&["compare", "plans/shop.toml", "--dry-run"]).assert_code(0);
    folder.run(&elsewhere).assert_code(1).assert_says("is not overwritten");
    assert_eq!(fs::read_to_string(folder.path("plans/shop.toml")).unwrap(), text);
}

#[test]
fn the_next_command_can_be_pasted_also_where_a_name_has_a_space() {
    let folder = Folder::new("init");
    fs::create_dir(folder.path("with space")).unwrap();
    folder.write("with space/config.ru", "run ->(env) { [200, {}, []] }\n");
    let ran = folder.run(&["init", "with space"]);
    ran.assert_code(0).assert_says("next  carat compare 'with space/carat.toml'");
}

#[test]
fn compare_without_a_file_takes_the_one_that_init_writes_and_names_init_where_there_is_none() {
    let folder = Folder::new("init");
    folder.write("config.ru", "run ->(env) { [200, {}, []] }\n");
    let without = folder.run(&["compare", "--dry-run"]);
    without.assert_code(2).assert_says("carat.toml").assert_says("`carat init` writes one");
    folder.run(&["init"]).assert_code(0);
    folder.run(&["compare", "--dry-run"]).assert_code(0).assert_says("at most 30");
}
