//! Malformed requests and responses (RFC 9114 sections 4.1.2, 4.2, 4.3 and 4.4).
//!
//! `h3` keeps fields in a map, in which the order and the repetition of pseudo-header fields is lost, and does not
//! compare `Content-Length` with the body. This follows one message on a stream and judges what `h3` does not.
//!
//! Not judged: whether the values mean something to the application, and the length of a response's body. A client
//! knows whether there is to be one (RFC 9110 section 8.6), and may keep the part that came.

use thiserror::Error;

use crate::qpack::{Section, Undecodable};

/// Why a message is malformed. The text completes "the request" or "the response".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Malformed {
    #[error("repeats {0}")]
    Repeated(&'static str),
    #[error("has a pseudo-header field after another field")]
    LatePseudo,
    #[error("has a pseudo-header field that is not defined for it")]
    UnknownPseudo,
    #[error("has a pseudo-header field in its trailers")]
    PseudoInTrailers,
    #[error("lacks {0}")]
    Missing(&'static str),
    #[error("has an invalid {0}")]
    Invalid(&'static str),
    #[error("has {0}, which does not belong in it")]
    Misplaced(&'static str),
    #[error("has a field name that is empty, has uppercase letters or is no token")]
    Name,
    #[error("has a control character in a field value")]
    Value,
    #[error("has the field {0}, which HTTP/3 does not know")]
    ConnectionSpecific(&'static str),
    #[error("has :authority and host fields that differ")]
    AuthoritiesDiffer,
    #[error("has Content-Length fields that differ")]
    LengthsDiffer,
    #[error("has a body of {body} bytes or more, but Content-Length says {length}")]
    TooLong { body: u64, length: u64 },
    #[error("has a body of {body} bytes, but Content-Length says {length}")]
    TooShort { body: u64, length: u64 },
}

/// What is wrong with a field section.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Undecodable(Undecodable),
    Malformed(Malformed),
}

impl From<Undecodable> for Fault {
    fn from(undecodable: Undecodable) -> Self {
        Self::Undecodable(undecodable)
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Which of the two travels on the receiving side of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Request,
    Response,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before the head; of a response, also between interim heads.
    Head,
    Body,
    Trailers,
}

/// One message as it comes in.
#[derive(Debug)]
pub(crate) struct Message {
    kind: MessageKind,
    stage: Stage,
    /// `Content-Length` of a request, if it is there and counts.
    length: Option<u64>,
    /// Bytes of DATA announced so far.
    body: u64,
}

impl Message {
    pub(crate) fn new(kind: MessageKind) -> Self {
        Self { kind, stage: Stage::Head, length: None, body: 0 }
    }

    pub(crate) fn kind(&self) -> MessageKind {
        self.kind
    }

    /// The payload of a HEADERS frame.
    pub(crate) fn section(&mut self, data: &[u8]) -> Result<(), Fault> {
        let mut fields = Fields::default();
        let mut section = Section::new(data)?;
        while let Some((name, value)) = section.next()? {
            fields.take(name, value, if self.stage == Stage::Head { Some(self.kind) } else { None })?;
        }
        match (self.stage, self.kind) {
            (Stage::Head, MessageKind::Request) => {
                self.length = fields.request()?;
                self.stage = Stage::Body;
            }
            (Stage::Head, MessageKind::Response) => {
                if fields.is_final()? {
                    self.stage = Stage::Body;
                }
            }
            (Stage::Body, _) => {
                self.complete()?;
                self.stage = Stage::Trailers;
            }
            // One section too many, which is the affair of whoever follows the frames.
            (Stage::Trailers, _) => {}
        }
        Ok(())
    }

    /// A DATA frame of `size` bytes begins.
    pub(crate) fn data(&mut self, size: u64) -> Result<(), Malformed> {
        self.body = self.body.saturating_add(size);
        match self.length {
            Some(length) if self.body > length => Err(Malformed::TooLong { body: self.body, length }),
            _ => Ok(()),
        }
    }

    /// The stream ends after a whole frame.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.stage == Stage::Body { self.complete() } else { Ok(()) }
    }

    fn complete(&self) -> Result<(), Malformed> {
        match self.length {
            Some(length) if self.body < length => Err(Malformed::TooShort { body: self.body, length }),
            _ => Ok(()),
        }
    }
}

/// Fields that mean something to one connection only (section 4.2). `TE` is one too, but has an exception.
const CONNECTION_SPECIFIC: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Pseudo-header fields of requests: section 4.3.1, and `:protocol` of RFC 9220.
const REQUEST: [&str; 5] = [":method", ":scheme", ":authority", ":path", ":protocol"];
const METHOD: usize = 0;
const SCHEME: usize = 1;
const AUTHORITY: usize = 2;
const PATH: usize = 3;
const PROTOCOL: usize = 4;

/// What of a field section decides.
#[derive(Debug, Default)]
struct Fields {
    /// In the order of [`REQUEST`].
    pseudo: [Option<Vec<u8>>; REQUEST.len()],
    status: Option<u16>,
    host: Option<Vec<u8>>,
    length: Option<u64>,
    /// A field that is not a pseudo-header field came.
    regular: bool,
}

impl Fields {
    /// Takes the next field; `head` is the kind of the message, or `None` in trailers.
    fn take(&mut self, name: &[u8], value: &[u8], head: Option<MessageKind>) -> Result<(), Malformed> {
        // RFC 9110 section 5.5, and no other control character either: `h3` does not take them.
        if value.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f) {
            return Err(Malformed::Value);
        }
        if name.first() == Some(&b':') {
            let kind = head.ok_or(Malformed::PseudoInTrailers)?;
            return if self.regular { Err(Malformed::LatePseudo) } else { self.pseudo(kind, name, value) };
        }
        self.regular = true;
        if name.is_empty() || !name.iter().all(|byte| is_lower_token(*byte)) {
            return Err(Malformed::Name);
        }
        if let Some(field) = CONNECTION_SPECIFIC.iter().find(|field| field.as_bytes() == name) {
            return Err(Malformed::ConnectionSpecific(field));
        }
        match name {
            b"te" if !value.trim_ascii().eq_ignore_ascii_case(b"trailers") => {
                Err(Malformed::ConnectionSpecific("te with a value other than 'trailers'"))
            }
            b"host" if head == Some(MessageKind::Request) && self.host.replace(value.to_vec()).is_some() => {
                Err(Malformed::Repeated("the host field"))
            }
            b"content-length" if head.is_some() => {
                // One field with a list is as good as several fields (RFC 9110 section 5.3), and equal values are one.
                for member in value.split(|byte| *byte == b',') {
                    let length = number(trimmed(member)).ok_or(Malformed::Invalid("Content-Length"))?;
                    if self.length.replace(length).is_some_and(|before| before != length) {
                        return Err(Malformed::LengthsDiffer);
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn pseudo(&mut self, kind: MessageKind, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        match kind {
            MessageKind::Request => {
                let index = REQUEST.iter().position(|known| known.as_bytes() == name);
                let index = index.ok_or(Malformed::UnknownPseudo)?;
                match self.pseudo[index].replace(value.to_vec()) {
                    Some(_) => Err(Malformed::Repeated(REQUEST[index])),
                    None => Ok(()),
                }
            }
            MessageKind::Response if name != b":status" => Err(Malformed::UnknownPseudo),
            MessageKind::Response => match self.status.replace(status(value).ok_or(Malformed::Invalid(":status"))?) {
                Some(_) => Err(Malformed::Repeated(":status")),
                None => Ok(()),
            },
        }
    }

    fn value(&self, index: usize) -> Option<&[u8]> {
        self.pseudo[index].as_deref()
    }

    fn required(&self, index: usize) -> Result<&[u8], Malformed> {
        match self.value(index) {
            None => Err(Malformed::Missing(REQUEST[index])),
            Some([]) => Err(Malformed::Invalid(REQUEST[index])),
            Some(value) => Ok(value),
        }
    }

    /// Judges the head of a request; the length of its body where it is promised.
    fn request(&self) -> Result<Option<u64>, Malformed> {
        let method = self.required(METHOD)?;
        let connect = method == b"CONNECT";
        if !connect && self.value(PROTOCOL).is_some() {
            return Err(Malformed::Misplaced(":protocol"));
        }
        if connect && self.value(PROTOCOL).is_none() {
            // Section 4.4: a host and a port, and nothing else.
            for index in [SCHEME, PATH] {
                if self.value(index).is_some() {
                    return Err(Malformed::Misplaced(REQUEST[index]));
                }
            }
            let authority = self.required(AUTHORITY)?;
            self.same_authority()?;
            let port = authority.iter().rposition(|byte| *byte == b':').map(|colon| &authority[colon + 1..]);
            let valid = port.is_some_and(|port| !port.is_empty() && port.iter().all(u8::is_ascii_digit));
            return if valid { Ok(None) } else { Err(Malformed::Invalid(":authority")) };
        }
        let scheme = self.required(SCHEME)?;
        let path = self.required(PATH)?;
        self.same_authority()?;
        if scheme.eq_ignore_ascii_case(b"https") || scheme.eq_ignore_ascii_case(b"http") {
            match self.value(AUTHORITY).or(self.host.as_deref()) {
                None => return Err(Malformed::Missing(":authority and a host field")),
                Some([]) => return Err(Malformed::Invalid(REQUEST[AUTHORITY])),
                Some(_) => {}
            }
            // A query without a path is not allowed either, but `h3`'s client sends it for "https://host?query", and it
            // is clear.
            let asterisk = path == b"*" && method == b"OPTIONS";
            if !asterisk && !matches!(path[0], b'/' | b'?') {
                return Err(Malformed::Invalid(REQUEST[PATH]));
            }
        }
        // What follows CONNECT is not the request's body.
        Ok(self.length.filter(|_| !connect))
    }

    fn same_authority(&self) -> Result<(), Malformed> {
        match (self.value(AUTHORITY), &self.host) {
            (Some(authority), Some(host)) if authority != host => Err(Malformed::AuthoritiesDiffer),
            _ => Ok(()),
        }
    }

    /// Judges the head of a response; false for an interim one.
    fn is_final(&self) -> Result<bool, Malformed> {
        match self.status {
            None => Err(Malformed::Missing(":status")),
            // Section 4.5: there is nothing to switch to.
            Some(101) => Err(Malformed::Invalid(":status")),
            Some(status) => Ok(status >= 200),
        }
    }
}

/// A character of a token (RFC 9110 section 5.6.2) that is not an uppercase letter.
fn is_lower_token(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Without the optional whitespace around a member of a list (RFC 9110 section 5.6.1).
fn trimmed(mut member: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = member {
        member = rest;
    }
    member
}

/// Digits and nothing else (RFC 9110 section 8.6).
fn number(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |length, byte| {
        byte.is_ascii_digit().then(|| length.checked_mul(10)?.checked_add(u64::from(byte - b'0')))?
    })
}

/// Three digits (RFC 9110 section 15).
fn status(value: &[u8]) -> Option<u16> {
    match value {
        [b'1'..=b'9', _, _] => number(value).and_then(|status| u16::try_from(status).ok()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qpack::tests::{Way, encode};

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")];

    fn head(kind: MessageKind, fields: &[(&str, &str)]) -> Result<Message, Fault> {
        let verdicts = [Way::Plain, Way::Huffman, Way::Table].map(|way| {
            let mut message = Message::new(kind);
            message.section(&encode(fields, way)).map(|()| message)
        });
        let text = format!("{:?}", verdicts[0]);
        assert!(verdicts.iter().all(|verdict| format!("{verdict:?}") == text), "{verdicts:?}");
        verdicts.into_iter().next().unwrap()
    }

    fn request(fields: &[(&str, &str)]) -> Result<Message, Fault> {
        head(MessageKind::Request, fields)
    }

    fn get_with(more: &[(&str, &str)]) -> Result<Message, Fault> {
        request(&[&GET[..], more].concat())
    }

    fn get_but(name: &str, value: &str) -> Result<Message, Fault> {
        let mut fields = GET;
        for field in &mut fields {
            if field.0 == name {
                field.1 = value;
            }
        }
        request(&fields)
    }

    fn get_without(name: &str, more: &[(&str, &str)]) -> Result<Message, Fault> {
        let kept: Vec<_> = GET.into_iter().filter(|field| field.0 != name).collect();
        request(&[&kept[..], more].concat())
    }

    #[track_caller]
    fn malformed(verdict: Result<Message, Fault>, why: Malformed) {
        assert_eq!(verdict.unwrap_err(), Fault::Malformed(why));
    }

    #[test]
    fn ordinary_requests_are_well_formed() {
        get_with(&[]).unwrap();
        get_with(&[("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2")]).unwrap();
        get_with(&[("host", "a.example"), ("te", "trailers"), ("te", " Trailers\t")]).unwrap();
        get_with(&[("content-length", "0")]).unwrap();
        get_with(&[("x", "tab\tand \u{fc}"), ("y", "")]).unwrap();
        get_without(":authority", &[("host", "a.example")]).unwrap();
        get_but(":path", "?x").unwrap();
        request(&[(":path", "*"), (":method", "OPTIONS"), (":scheme", "https"), (":authority", "a.example")]).unwrap();
        request(&[(":path", "urn"), (":method", "GET"), (":scheme", "other")]).unwrap();
    }

    #[test]
    fn pseudo_header_fields_come_once_and_first_and_are_known() {
        for (name, value) in GET {
            malformed(get_with(&[("a", "b"), (name, value)]), Malformed::LatePseudo);
            let known = REQUEST.into_iter().find(|known| *known == name).unwrap();
            malformed(get_with(&[(name, value)]), Malformed::Repeated(known));
            malformed(get_but(name, ""), Malformed::Invalid(known));
        }
        for name in [":status", ":unknown", ":", ":Method"] {
            malformed(get_with(&[(name, "200")]), Malformed::UnknownPseudo);
        }
        malformed(get_with(&[(":protocol", "websocket")]), Malformed::Misplaced(":protocol"));
        for name in [":method", ":scheme", ":path"] {
            let known = REQUEST.into_iter().find(|known| *known == name).unwrap();
            malformed(get_without(name, &[]), Malformed::Missing(known));
        }
        malformed(get_without(":authority", &[]), Malformed::Missing(":authority and a host field"));
        malformed(get_without(":authority", &[("host", "")]), Malformed::Invalid(":authority"));
        malformed(get_with(&[("host", "b.example")]), Malformed::AuthoritiesDiffer);
        malformed(get_with(&[("host", "a.example"), ("host", "a.example")]), Malformed::Repeated("the host field"));
        for path in ["x", "*", "https://a.example/", "#x"] {
            malformed(get_but(":path", path), Malformed::Invalid(":path"));
        }
    }

    #[test]
    fn names_and_values_are_checked() {
        for name in CONNECTION_SPECIFIC {
            malformed(get_with(&[(name, "close")]), Malformed::ConnectionSpecific(name));
        }
        for value in ["", "gzip", "trailers, gzip", "trailers;q=1"] {
            assert!(get_with(&[("te", value)]).is_err(), "te: {value}");
        }
        for name in ["", "Accept", "a b", "a:", "\u{fc}", "a\n"] {
            malformed(get_with(&[(name, "x")]), Malformed::Name);
        }
        for value in ["\0", "a\rb", "a\nb", "\u{7f}"] {
            malformed(get_with(&[("a", value)]), Malformed::Value);
            malformed(get_but(":path", &format!("/{value}")), Malformed::Value);
        }
    }

    #[test]
    fn connect_has_an_authority_with_a_port_and_nothing_else() {
        let connect = |fields: &[(&str, &str)]| request(&[&[(":method", "CONNECT")], fields].concat());
        connect(&[(":authority", "a.example:443")]).unwrap();
        connect(&[(":authority", "[::1]:443")]).unwrap();
        malformed(connect(&[]), Malformed::Missing(":authority"));
        for authority in ["a.example", "[::1]", "a.example:", "a.example:x"] {
            malformed(connect(&[(":authority", authority)]), Malformed::Invalid(":authority"));
        }
        malformed(connect(&[(":authority", "a:1"), (":path", "/")]), Malformed::Misplaced(":path"));
        malformed(connect(&[(":authority", "a:1"), (":scheme", "https")]), Malformed::Misplaced(":scheme"));
        // Extended CONNECT (RFC 9220) has all of them.
        let protocol = (":protocol", "websocket");
        connect(&[protocol, (":scheme", "https"), (":authority", "a"), (":path", "/")]).unwrap();
        malformed(connect(&[protocol, (":authority", "a")]), Malformed::Missing(":scheme"));
        // The bytes of a tunnel are no body.
        connect(&[(":authority", "a:1"), ("content-length", "1")]).unwrap().data(5).unwrap();
    }

    #[test]
    fn content_length_is_a_number_that_the_body_has() {
        let with = |length: &str| get_with(&[("content-length", length)]);
        for length in ["", "x", "-1", "+1", "1 1", "5,", ",5", "5, ,5", "0x5", "18446744073709551616"] {
            malformed(with(length), Malformed::Invalid("Content-Length"));
        }
        malformed(get_with(&[("content-length", "5"), ("content-length", "6")]), Malformed::LengthsDiffer);
        get_with(&[("content-length", "5"), ("content-length", "05")]).unwrap();
        assert!(with("5, 5,\t5").unwrap().data(6).is_err());
        malformed(with("5, 6"), Malformed::LengthsDiffer);
        malformed(get_with(&[("content-length", "5, 5"), ("content-length", "6")]), Malformed::LengthsDiffer);
        with("0").unwrap().end().unwrap();
        assert_eq!(with("5").unwrap().end(), Err(Malformed::TooShort { body: 0, length: 5 }));
        let mut message = with("5").unwrap();
        message.data(2).unwrap();
        assert_eq!(message.end(), Err(Malformed::TooShort { body: 2, length: 5 }));
        let trailers = encode(&[("a", "b")], Way::Plain);
        assert!(message.section(&trailers).is_err());
        message.data(3).unwrap();
        message.section(&trailers).unwrap();
        message.end().unwrap();
        assert_eq!(with("5").unwrap().data(6), Err(Malformed::TooLong { body: 6, length: 5 }));
        assert!(with("0").unwrap().data(u64::MAX).is_err());
    }

    #[test]
    fn trailers_have_no_pseudo_header_fields_and_none_of_the_connection() {
        for (name, value, why) in [
            (":path", "/", Malformed::PseudoInTrailers),
            (":status", "200", Malformed::PseudoInTrailers),
            ("upgrade", "x", Malformed::ConnectionSpecific("upgrade")),
            ("A", "x", Malformed::Name),
        ] {
            let mut message = get_with(&[]).unwrap();
            assert_eq!(message.section(&encode(&[(name, value)], Way::Plain)), Err(Fault::Malformed(why)));
        }
    }

    #[test]
    fn responses_have_one_status_and_may_be_preceded_by_interim_ones() {
        let response = |fields: &[(&str, &str)]| head(MessageKind::Response, fields);
        let mut message = response(&[(":status", "200"), ("content-length", "5")]).unwrap();
        message.end().unwrap();
        message.data(6).unwrap();
        message.end().unwrap();
        malformed(response(&[]), Malformed::Missing(":status"));
        malformed(response(&[(":status", "200"), (":status", "200")]), Malformed::Repeated(":status"));
        malformed(response(&[("a", "b"), (":status", "200")]), Malformed::LatePseudo);
        malformed(response(&[(":status", "200"), (":path", "/")]), Malformed::UnknownPseudo);
        malformed(
            response(&[(":status", "200"), ("connection", "close")]),
            Malformed::ConnectionSpecific("connection"),
        );
        for status in ["", "20", "2000", "2x0", "099", "101"] {
            malformed(response(&[(":status", status)]), Malformed::Invalid(":status"));
        }
        let mut message = response(&[(":status", "103"), ("link", "x")]).unwrap();
        for status in ["100", "103", "200"] {
            message.section(&encode(&[(":status", status)], Way::Table)).unwrap();
        }
        assert!(message.section(&encode(&[(":status", "200")], Way::Table)).is_err(), "trailers with a status");
    }
}
