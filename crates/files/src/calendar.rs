//! Calendar dates in UTC for listings and logs.

use std::time::SystemTime;

use crate::site::conditional::unix_seconds;

/// A moment in UTC, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub year: u64,
    pub month: u64,
    pub day: u64,
    pub hour: u64,
    pub minute: u64,
    pub second: u64,
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Civil {
    /// Times before 1970 count as 1970.
    pub(crate) fn from_system(time: SystemTime) -> Self {
        Self::from_unix(unix_seconds(time))
    }

    /// The proleptic Gregorian calendar counted in eras of 400 years that begin on 1 March.
    fn from_unix(seconds: u64) -> Self {
        let days = seconds / 86_400 + 719_468; // from 1 March of the year 0
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12 + 1;
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day,
            hour: seconds / 3600 % 24,
            minute: seconds / 60 % 60,
            second: seconds % 60,
        }
    }

    /// `2026-11-20 18:57`
    pub(crate) fn short(&self) -> String {
        let Self { year, month, day, hour, minute, .. } = self;
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
    }

    /// `20/Nov/2026:18:57:00 +0000`
    pub(crate) fn log(&self) -> String {
        let Self { year, month, day, hour, minute, second } = self;
        let month = MONTHS[(*month as usize - 1) % 12];
        format!("{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_come_out_right() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (951_868_800, "2000-03-01 00:00"),
            (1_700_000_000, "2023-11-14 22:13"),
            (4_102_444_800, "2100-01-01 00:00"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(Civil::from_unix(seconds).short(), text);
        }
        assert_eq!(Civil::from_unix(784_111_777).log(), "06/Nov/1994:08:49:37 +0000");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut last = Civil::from_unix(0);
        for day in 1..150_000 {
            let next = Civil::from_unix(day * 86_400);
            let same_month = (next.year, next.month) == (last.year, last.month);
            assert!(if same_month { next.day == last.day + 1 } else { next.day == 1 && last.day >= 28 });
            last = next;
        }
    }
}
