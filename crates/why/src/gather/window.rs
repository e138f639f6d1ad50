//! The congestion window, as metrics tell it: by how much losses reduce it says which controller it is.

use crate::read::Data;

/// Ratios of reductions that are kept.
const KEPT: usize = 256;
/// NewReno halves a window, CUBIC leaves 0.7 of it.
const BETWEEN: f64 = 0.6;
/// What falls further has collapsed, and what falls less was no reduction.
const REDUCED: core::ops::Range<f64> = 0.45..0.85;
/// A window that falls to as few bytes may be the least that there is.
const LEAST: f64 = 5_000.0;

/// A window grows by less at a time: more of it was restored.
const RESTORED: f64 = 1.15;

/// The window over time.
#[derive(Debug, Default)]
pub(crate) struct Window {
    last: Option<f64>,
    ratios: Vec<f64>,
    /// What it was before the last reduction, bytes, until it is as large again.
    before: Option<f64>,
    /// Reductions after which it was at once as large again.
    restored: usize,
}

impl Window {
    pub(super) fn metrics(&mut self, data: Data<'_>) {
        let Some(window) = data.get("congestion_window").and_then(Data::as_f64) else { return };
        if let Some(last) = self.last.replace(window).filter(|last| *last > 0.0) {
            let ratio = window / last;
            if REDUCED.contains(&ratio) && window > LEAST && self.ratios.len() < KEPT {
                self.ratios.push(ratio);
                self.before = Some(last);
            }
            if self.before.is_some_and(|before| window >= before) {
                self.before = None;
                self.restored += usize::from(ratio > RESTORED);
            }
        }
    }

    /// Whether losses mostly halve it.
    pub(crate) fn is_halved(&self) -> bool {
        let halved = self.ratios.iter().filter(|ratio| **ratio < BETWEEN).count();
        halved * 2 > self.ratios.len()
    }

    /// Whether most reductions are undone.
    pub(crate) fn is_restored(&self) -> bool {
        self.restored * 2 > self.ratios.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::read::Tree;

    fn window(windows: &[u64]) -> Window {
        let mut window = Window::default();
        windows
            .iter()
            .for_each(|bytes| window.metrics(Tree::of(json!({ "congestion_window": bytes })).unwrap().root()));
        window
    }

    fn is_halved(windows: &[u64]) -> bool {
        window(windows).is_halved()
    }

    #[test]
    fn a_window_that_is_at_once_as_large_again_was_restored() {
        assert!(window(&[20_000, 40_000, 28_000, 28_500, 40_000, 41_000]).is_restored());
        assert!(!window(&[20_000, 40_000, 28_000, 30_000, 34_000, 38_000, 41_000]).is_restored(), "it grew");
        assert!(!window(&[40_000, 28_000, 40_000, 28_000, 20_000, 14_000]).is_restored(), "once of three times");
        assert!(!window(&[20_000, 40_000]).is_restored());
    }

    #[test]
    fn the_controller_is_known_by_its_reductions() {
        assert!(is_halved(&[20_000, 40_000, 20_000, 21_000, 10_500]));
        assert!(!is_halved(&[20_000, 40_000, 28_000, 29_000, 20_300]));
        assert!(!is_halved(&[20_000, 40_000]));
    }
}
