//! The tables of algorithms: the values of a policy field, each with how it is made for a path.

/// Declares the algorithms of one kind of congestion control: `choices!` with how each is made from a
/// [`PathContext`](crate::PathContext).
macro_rules! algorithms {
    (
        #[doc = $field_doc:literal]
        $kind:ident: $algorithm:ident, $field_name:literal {
            $( $( #[$attribute:meta] )* $variant:ident $name:literal, $doc:literal, $when:literal, $make:expr; )*
        } $( default $default:ident )? $( reserved $reserved:tt )?
    ) => {
        $crate::choice::choices! {
            #[doc = $field_doc]
            $kind, $field_name {
                $( $( #[$attribute] )* $variant $name, $doc, $when; )*
            } $( default $default )? $( reserved $reserved )?
        }

        impl $kind {
            /// Makes the algorithm for a new path.
            pub(crate) fn build(self, context: &$crate::PathContext) -> Box<dyn $algorithm> {
                let _ = context;
                match self {
                    $(
                        $( #[$attribute] )*
                        $kind::$variant => {
                            let make: fn(&$crate::PathContext) -> Box<dyn $algorithm> = $make;
                            make(context)
                        }
                    )*
                }
            }
        }
    };
}

pub(crate) use algorithms;
