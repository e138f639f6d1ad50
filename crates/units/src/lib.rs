//! Time, rates and byte counts of Thalweg, and the only transcendental functions it uses.
