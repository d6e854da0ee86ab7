use super::unpack;

#[test]
fn packed_bytes_come_in_their_order_without_zeros() {
    for (packed, expected) in
        [(*b"panicked", &b"panicked"[..]), (*b"at\0\0\0\0\0\0", b"at"), (*b"\0a\0b\0c\0d", b"abcd"), ([0; 8], b"")]
    {
        let (bytes, length) = unpack(u64::from_le_bytes(packed));
        assert_eq!(&bytes[..length], expected);
    }
}
