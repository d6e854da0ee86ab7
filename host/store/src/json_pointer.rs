//! The names in JSON pointers. Source: RFC 6901.

/// Returns a name as it stands in a JSON pointer.
pub fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Returns the name that a part of a JSON pointer stands for.
pub fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn a_name_is_read_from_a_pointer_as_it_was_written() {
        for (name, part) in [("a", "a"), ("a/b", "a~1b"), ("a~1b", "a~01b"), ("~/", "~0~1"), ("", "")] {
            assert_eq!((escape(name).as_str(), unescape(part).as_str()), (part, name));
        }
    }
}
