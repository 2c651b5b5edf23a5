//! Measures of the send window over time, and of the shadow's window against the guest's.

use super::Repetition;
use crate::measure_error::MeasureError;
use crate::sawtooth::Sawtooth;

impl Repetition<'_> {
    pub(super) fn send_window(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        self.mean(case, of, |series| {
            let mean = series.mean_window_segments();
            mean.ok_or("no segment size in its samples")
        })
    }

    pub(super) fn window_above(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        self.mean(case, of, |series| {
            series.window_above().ok_or("no sample with a full window")
        })
    }

    pub(super) fn sawtooth_period(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        self.sawtooth(case, of, |saw| saw.period_s().ok_or("fewer than two cuts"))
    }

    pub(super) fn sawtooth_peak(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        self.sawtooth(case, of, |saw| saw.peak_segments().ok_or("no cut"))
    }

    pub(super) fn sawtooth_trough(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        self.sawtooth(case, of, |saw| {
            saw.trough_segments().ok_or("no finished cut")
        })
    }

    fn sawtooth(
        &self,
        case: &str,
        of: &str,
        value: impl Fn(Sawtooth) -> Result<f64, &'static str>,
    ) -> Result<f64, MeasureError> {
        self.mean(case, of, |series| {
            value(Sawtooth::of(&series.send_window()))
        })
    }

    pub(super) fn window_error(
        &self,
        case: &str,
        of: &str,
        signed: bool,
    ) -> Result<f64, MeasureError> {
        self.mean(case, of, |series| {
            let error = series.window_error(signed);
            error.ok_or("no sample with a congestion window and a shadow's")
        })
    }
}
