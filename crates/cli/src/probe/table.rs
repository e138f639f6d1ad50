//! The datagrams of a measurement as a table for other programs (CSV), written to a file of no name while measuring.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write};
use std::path::Path;

use thalweg_probe::{Findings, Way};

/// Rows so far.
pub(super) struct Table {
    rows: BufWriter<File>,
}

impl Table {
    /// A table with only its heads.
    ///
    /// # Errors
    /// When there is no room for temporary files.
    pub(super) fn new() -> io::Result<Table> {
        let mut rows = BufWriter::new(tempfile::tempfile()?);
        rows.write_all(b"way,sent_ms,received_ms,delay_ms,sent_late_ms\n")?;
        Ok(Table { rows })
    }

    /// Adds the datagrams of a part of the measurement, way by way. Times count from the first datagram, by the clock
    /// of this end.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(super) fn add(&mut self, findings: &Findings) -> io::Result<()> {
        let ms = |nanos: i64| nanos as f64 / 1e6;
        for way in Way::BOTH {
            let name = way.name();
            for passage in &findings.way(way).passages {
                let (sent, late) = (ms(passage.sent), ms(passage.late));
                match (passage.received, passage.delay()) {
                    (Some(received), Some(delay)) => {
                        writeln!(self.rows, "{name},{sent:.4},{:.4},{:.4},{late:.3}", ms(received), ms(delay))?;
                    }
                    _ => writeln!(self.rows, "{name},{sent:.4},,,{late:.3}")?,
                }
            }
        }
        Ok(())
    }

    /// Writes it into the file that the user named.
    ///
    /// # Errors
    /// What the system says of either file.
    pub(super) fn write(self, path: &Path) -> io::Result<()> {
        let mut rows = self.rows.into_inner().map_err(io::IntoInnerError::into_error)?;
        rows.rewind()?;
        thalweg_output::write_with(path, |file| io::copy(&mut rows, file).map(|_| ()))
    }
}
