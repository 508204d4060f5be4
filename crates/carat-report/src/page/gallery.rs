//! Collects the values that the script needs of every picture on the page.

use crate::chart::Picture;
use carat_model::Variant;
use maud::{Markup, PreEscaped, html as markup};
use serde_json::{Map, Value, json};

/// Rows of variants in the parts that are printed though they are closed: more would take more than six sheets.
const ROWS_ON_PAPER: usize = 36;
/// Bytes of such values at most; a picture beyond that has no cursor.
const HOVER_LIMIT: usize = 240_000;

/// The pictures and the parts shown so far.
#[derive(Debug, Default)]
pub(crate) struct Gallery {
    hover: Map<String, Value>,
    size: usize,
    /// Id and title of every part of the page so far.
    contents: Vec<(String, Markup)>,
    /// Rows of variants on paper so far.
    on_paper: usize,
}

impl Gallery {
    /// The picture's markup; keeps its values for the script.
    pub(crate) fn show(&mut self, picture: Picture) -> Markup {
        let size = picture.hover.to_string().len();
        // A page of many pictures stays small: the later ones have no cursor.
        if !picture.hover.is_null() && self.size + size < HOVER_LIMIT {
            self.size += size;
            self.hover.insert(picture.id, picture.hover);
        }
        picture.markup
    }

    /// A part of the page that is closed at first, and its line in the table of contents.
    pub(crate) fn part(&mut self, id: &str, title: &Markup, body: &Markup) -> Markup {
        self.add_part(id, false, title, body)
    }

    /// The same for what the verdict rests on, with so many rows of variants: it is printed although it is closed, as long
    /// as there is room.
    pub(crate) fn proof(&mut self, id: &str, title: &Markup, rows: usize, body: &Markup) -> Markup {
        let fits = self.on_paper == 0 || self.on_paper + rows <= ROWS_ON_PAPER;
        self.on_paper += rows;
        self.add_part(id, fits, title, body)
    }

    fn add_part(&mut self, id: &str, is_printed: bool, title: &Markup, body: &Markup) -> Markup {
        self.contents.push((id.to_owned(), title.clone()));
        // The id is inside, because a browser that follows a link opens what is around its target.
        markup! {
            details.part.proof[is_printed] { summary { h2 { (title) } } section id=(id) { (body) } }
        }
    }

    /// Links to every part that was drawn; empty without any.
    pub(crate) fn contents(&self) -> Markup {
        markup! {
            @if !self.contents.is_empty() {
                nav.contents aria-label="Contents" {
                    ul { @for (id, title) in &self.contents { li { a href={ "#" (id) } { (title) } } } }
                }
            }
        }
    }

    /// A titled picture for a grid of several; empty without one.
    pub(crate) fn panel(&mut self, title: &str, picture: impl Into<Option<Picture>>) -> Markup {
        self.add_panel("panel", title, picture.into())
    }

    /// The same of one variant, in its colour.
    pub(crate) fn variant_panel(
        &mut self,
        class: usize,
        title: &str,
        picture: impl Into<Option<Picture>>,
    ) -> Markup {
        self.add_panel(&format!("panel of v{class}"), title, picture.into())
    }

    fn add_panel(&mut self, class: &str, title: &str, picture: Option<Picture>) -> Markup {
        markup! {
            @if let Some(picture) = picture { div class=(class) { h3 { (title) } (self.show(picture)) } }
        }
    }

    /// All values as one element that the browser does not execute.
    pub(crate) fn data(self, variants: &[Variant]) -> Markup {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let all = json!({ "variants": names, "charts": self.hover });
        markup! {
            script type="application/json" #carat-data { (PreEscaped(in_script(&all))) }
        }
    }
}

/// JSON that cannot end the script element around it.
pub(super) fn in_script(value: &Value) -> String {
    value
        .to_string()
        .chars()
        .map(|c| match c {
            // `</script>` in a name would end the element; escapes mean the same in JSON.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", c as u32),
            c => c.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_verdict_rests_on_is_printed_as_long_as_there_is_room() {
        let mut gallery = Gallery::default();
        let mut is_printed = |rows| {
            let part = gallery.proof("id", &markup! { "A" }, rows, &markup! { "B" });
            part.into_string().contains("proof")
        };
        // The first part is printed however large it is.
        assert_eq!([30, 6, 1].map(&mut is_printed), [true, true, false]);
        assert!(Gallery::default().proof("id", &markup! {}, 99, &markup! {}).0.contains("proof"));
    }

    #[test]
    fn json_in_a_page_cannot_end_its_element() {
        let text = in_script(&serde_json::json!({"</script><!--": "&\u{2028}"}));
        assert_eq!(text, "{\"\\u003c/script\\u003e\\u003c!--\":\"\\u0026\\u2028\"}");
        assert!(serde_json::from_str::<Value>(&text).is_ok());
    }
}
