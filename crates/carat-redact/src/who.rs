//! Who keeps what for an audience: a shared report has no names of variables, keys, files and threads.

use crate::rules::RedactionRules;
use carat_outside::who::{CodePlace, Holder, KeeperKind, KeptBy, Way, WayLink, WayRoot, WhoCensus};

/// Edits the names of classes and of libraries.
pub(crate) trait NameEditor {
    /// The rules for other names.
    fn rules(&self) -> &RedactionRules;
    /// The name of a class.
    fn edit_class(&mut self, name: &mut String);
    /// The name of a library.
    fn edit_library(&mut self, name: &mut String);
}

/// Edits every name.
pub(crate) fn edit_who(editor: &mut dyn NameEditor, who: &mut WhoCensus) {
    for class in &mut who.classes {
        editor.edit_class(&mut class.name);
        class.ways.iter_mut().for_each(|counted| edit_way(editor, &mut counted.way));
        class.holder.iter_mut().for_each(|holder| edit_way(editor, &mut holder.way));
    }
    who.holders.iter_mut().for_each(|holder| edit_way(editor, &mut holder.way));
    let trees = who.kept.iter_mut();
    for node in trees.flat_map(|kept| kept.nodes.iter_mut().chain(&mut kept.doubtful)) {
        match &mut node.by {
            KeptBy::Step(step) => {
                edit_link(editor, &mut step.link);
                edit_holder(editor, &mut step.of);
            }
            KeptBy::Itself(holder) => edit_holder(editor, holder),
            KeptBy::Root(root) => edit_root(editor, root),
        }
        node.classes.iter_mut().for_each(|class| editor.edit_class(&mut class.name));
    }
    who.unnamed.iter_mut().for_each(|reason| editor.rules().edit_line(reason));
}

/// Edits every name on a way.
pub(crate) fn edit_way(editor: &mut dyn NameEditor, way: &mut Way) {
    edit_holder(editor, &mut way.object);
    for step in &mut way.steps {
        edit_link(editor, &mut step.link);
        edit_holder(editor, &mut step.of);
    }
    way.root.iter_mut().for_each(|root| edit_root(editor, root));
}

fn edit_holder(editor: &mut dyn NameEditor, holder: &mut Holder) {
    match holder.kind {
        KeeperKind::Variables | KeeperKind::Code | KeeperKind::Internal => {
            editor.rules().edit_name(&mut holder.name);
        }
        _ => editor.edit_class(&mut holder.name),
    }
    edit_code(editor, &mut holder.code);
    if let Some((_, name)) = &mut holder.thread {
        edit_secret(editor, name, "thread");
    }
}

fn edit_code(editor: &mut dyn NameEditor, code: &mut Option<CodePlace>) {
    // Label and path name methods and files of the application.
    if editor.rules().is_shared() {
        *code = None;
    }
    if let Some(code) = code {
        editor.rules().edit_name(&mut code.label);
        editor.rules().edit_name(&mut code.path);
    }
}

/// A name of the application, which a shared report does not have.
fn edit_secret(editor: &mut dyn NameEditor, name: &mut String, shown: &str) {
    match editor.rules().is_shared() {
        true => shown.clone_into(name),
        false => editor.rules().edit_name(name),
    }
}

fn edit_link(editor: &mut dyn NameEditor, link: &mut WayLink) {
    match link {
        WayLink::Symbol(name) if name.is_empty() => {}
        WayLink::Symbol(name) => edit_secret(editor, name, "[name]"),
        WayLink::KeyOf(class) | WayLink::ClassKey(class) => editor.edit_class(class),
        WayLink::Variable(name) => edit_secret(editor, name, "@[name]"),
        WayLink::Member(name) | WayLink::Method(name) | WayLink::Captured(name) => {
            edit_secret(editor, name, "[name]");
        }
        WayLink::Constant(name) => edit_secret(editor, name, "[NAME]"),
        WayLink::Frame { variable, code } => {
            variable.iter_mut().for_each(|name| edit_secret(editor, name, "[name]"));
            edit_code(editor, code);
        }
        WayLink::Unnamed
        | WayLink::Element(_)
        | WayLink::Key
        | WayLink::Default
        | WayLink::VariableNumber(_)
        | WayLink::MemberNumber(_)
        | WayLink::Class
        | WayLink::Shared => {}
    }
}

fn edit_root(editor: &mut dyn NameEditor, root: &mut WayRoot) {
    match root {
        WayRoot::Global { name } => edit_secret(editor, name, "$[name]"),
        WayRoot::Symbol { name, library } => {
            edit_secret(editor, name, "[name]");
            editor.edit_library(library);
        }
        WayRoot::StaticData { library } => editor.edit_library(library),
        WayRoot::Frame { variable, code } => {
            variable.iter_mut().for_each(|name| edit_secret(editor, name, "[name]"));
            edit_code(editor, code);
        }
        WayRoot::Named { name } => edit_secret(editor, name, "root"),
        WayRoot::Stack { name, .. } => edit_secret(editor, name, "thread"),
        WayRoot::Vm | WayRoot::Finalizer | WayRoot::SymbolTable | WayRoot::OtherMemory => {}
    }
}
