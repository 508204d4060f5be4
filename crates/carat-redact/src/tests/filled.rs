//! Values of any type with every field filled, so that a field which is added later is filled, too.

use serde::de::value::{Error, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use serde_json::{Value, json};

/// The place of the variant of `WayLink` whose content has fields.
const FRAME: usize = 14;

/// A value whose texts are all `text`, with one element in every list and something in every option.
///
/// Of an enumeration it has the variant `pick`, counted from the start again where there are fewer.
pub(super) fn filled<T: DeserializeOwned>(text: &str, pick: usize) -> T {
    T::deserialize(Filled { field: "", text, pick }).expect("every type can be filled")
}

/// A source from which every field can be read.
#[derive(Debug, Clone, Copy)]
struct Filled<'a> {
    field: &'a str,
    text: &'a str,
    pick: usize,
}

impl Filled<'_> {
    /// Values that say themselves what they are, which their type does not tell beforehand.
    fn tagged(&self) -> Value {
        let text = self.text;
        let code = json!({ "label": text, "path": text, "line": 1 });
        let known = match self.field {
            "role" => vec![json!({ "role": "primary" })],
            "what" => vec![json!({ "kind": "user" })],
            "value" if self.pick == FRAME => vec![json!({ "variable": text, "code": code })],
            "value" => vec![Value::Null],
            "root" | "by" => vec![
                json!({ "kind": "global", "name": text }),
                json!({ "kind": "symbol", "name": text, "library": text }),
                json!({ "kind": "static_data", "library": text }),
                json!({ "kind": "frame", "variable": text, "code": code }),
                json!({ "kind": "stack", "thread": 1, "name": text }),
                json!({ "kind": "named", "name": text }),
            ],
            field => panic!("what is a {field}?"),
        };
        known[self.pick % known.len()].clone()
    }
}

macro_rules! numbers {
    ($($asked:ident => $given:ident($value:expr),)*) => {$(
        fn $asked<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$given($value)
        }
    )*};
}

impl<'de> Deserializer<'de> for Filled<'_> {
    type Error = Error;

    numbers! {
        deserialize_bool => visit_bool(true),
        deserialize_i8 => visit_i8(1),
        deserialize_i16 => visit_i16(1),
        deserialize_i32 => visit_i32(1),
        deserialize_i64 => visit_i64(1),
        deserialize_u8 => visit_u8(1),
        deserialize_u16 => visit_u16(1),
        deserialize_u32 => visit_u32(1),
        deserialize_u64 => visit_u64(1),
        deserialize_f32 => visit_f32(1.0),
        deserialize_f64 => visit_f64(1.0),
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.tagged().deserialize_any(visitor).map_err(serde::de::Error::custom)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(1, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Elements { left: length, each: self })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { left: &[self.text], each: self })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { left: fields, each: self })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(Picked { variant: variants[self.pick % variants.len()], content: self })
    }

    serde::forward_to_deserialize_any! {
        unit char bytes byte_buf unit_struct tuple_struct identifier ignored_any
    }
}

struct Elements<'a> {
    left: usize,
    each: Filled<'a>,
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(self.each).map(Some)
    }
}

struct Fields<'a, 'b> {
    left: &'b [&'b str],
    each: Filled<'a>,
}

impl<'de, 'a, 'b: 'a> MapAccess<'de> for Fields<'a, 'b> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some((field, left)) = self.left.split_first() else { return Ok(None) };
        self.left = left;
        self.each.field = field;
        let name: StrDeserializer<'_, Error> = field.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.each)
    }
}

struct Picked<'a> {
    variant: &'static str,
    content: Filled<'a>,
}

impl<'de, 'a> EnumAccess<'de> for Picked<'a> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let name: StrDeserializer<'_, Error> = self.variant.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Picked<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.content)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.content.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.content.deserialize_struct("", fields, visitor)
    }
}
