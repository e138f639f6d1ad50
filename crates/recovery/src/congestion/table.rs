//! The tables of algorithms: the values of a policy field, each with how it is made for a path.

/// Declares the algorithms of one kind of congestion control: `choices!` with how each is made from a
/// [`PathContext`](crate::PathContext), and from its parameters if it has some.
macro_rules! algorithms {
    (
        #[doc = $field_doc:literal]
        $kind:ident: $algorithm:ident, $field_name:literal { $( $main:tt )* }
        $( default $default:ident $( ( $default_parameters:ident ) )? )?
        $( study {
            $(
                $study:ident $( ( $study_parameters:ident ) )? $study_name:literal, $study_doc:literal,
                $study_when:literal, $study_make:expr;
            )*
        } )?
        $( reserved $reserved:tt )?
    ) => {
        $crate::congestion::table::algorithms! {
            @table
            #[doc = $field_doc]
            $kind: $algorithm, $field_name {
                $( $main )*
                $( $(
                    #[cfg(feature = "study")]
                    $study $( ( $study_parameters ) )? $study_name, $study_doc, $study_when, $study_make;
                )* )?
            } $( default $default $( ( $default_parameters ) )? )? [ $( $( $study_name )* )? ] $( reserved $reserved )?
        }
    };
    (
        @table
        #[doc = $field_doc:literal]
        $kind:ident: $algorithm:ident, $field_name:literal {
            $(
                $( #[$attribute:meta] )*
                $variant:ident $( ( $parameters:ident ) )? $name:literal, $doc:literal, $when:literal, $make:expr;
            )*
        } $( default $default:ident $( ( $default_parameters:ident ) )? )? [ $( $study:literal )* ] $( reserved $reserved:tt )?
    ) => {
        $crate::choice::choices! {
            @table
            #[doc = $field_doc]
            $kind, $field_name {
                $( $( #[$attribute] )* $variant $( ( $parameters ) )? $name, $doc, $when; )*
            } $( default $default $( ( $default_parameters ) )? )? [ $( $study )* ] $( reserved $reserved )?
        }

        impl $kind {
            /// Makes the algorithm for a new path.
            pub(crate) fn build(self, context: &$crate::PathContext) -> Box<dyn $algorithm> {
                match self {
                    $(
                        $( #[$attribute] )*
                        $kind::$variant $( ( parameters @ $parameters { .. } ) )? => {
                            let make: fn(&$crate::PathContext $(, $parameters )?) -> Box<dyn $algorithm> = $make;
                            make(context $(, $parameters::clone(&parameters) )?)
                        }
                    )*
                }
            }
        }
    };
}

pub(crate) use algorithms;
