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

/// The window over time.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The first that was logged, bytes.
    pub(crate) first: Option<f64>,
    last: Option<f64>,
    ratios: Vec<f64>,
}

impl Window {
    pub(super) fn metrics(&mut self, data: Data<'_>) {
        // aioquic has another name for it.
        let window = data.get("congestion_window").or_else(|| data.get("cwnd"));
        let Some(window) = window.and_then(Data::as_f64) else { return };
        self.first.get_or_insert(window);
        if let Some(last) = self.last.replace(window).filter(|last| *last > 0.0) {
            let ratio = window / last;
            if REDUCED.contains(&ratio) && window > LEAST && self.ratios.len() < KEPT {
                self.ratios.push(ratio);
            }
        }
    }

    /// Whether losses mostly halve it.
    pub(crate) fn is_halved(&self) -> bool {
        let halved = self.ratios.iter().filter(|ratio| **ratio < BETWEEN).count();
        halved * 2 > self.ratios.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::read::Tree;

    fn is_halved(windows: &[u64]) -> bool {
        let mut window = Window::default();
        windows
            .iter()
            .for_each(|bytes| window.metrics(Tree::of(json!({ "congestion_window": bytes })).unwrap().root()));
        window.is_halved()
    }

    #[test]
    fn aioquic_writes_cwnd() {
        let mut window = Window::default();
        window.metrics(Tree::of(json!({ "cwnd": 12_000 })).unwrap().root());
        assert_eq!(window.first, Some(12_000.0));
    }

    #[test]
    fn the_controller_is_known_by_its_reductions() {
        assert!(is_halved(&[20_000, 40_000, 20_000, 21_000, 10_500]));
        assert!(!is_halved(&[20_000, 40_000, 28_000, 29_000, 20_300]));
        assert!(!is_halved(&[20_000, 40_000]));
    }
}
