//! Measures of the send window over time, and of the shadow's window against the guest's.

use super::Repetition;
use crate::measure_error::MeasureError;
use crate::sawtooth::Sawtooth;

impl Repetition<'_> {
    pub(super) fn send_window(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        self.mean(case, of, |series| {
            let mean = series.mean_window_segments();
            mean.ok_or("no sample with a segment size; measure longer")
        })
    }

    pub(super) fn window_above(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        self.mean(case, of, |series| {
            series.window_above().ok_or(
                "no sample in which its flight filled the window; measure longer, or a flow that \
                 the window limits",
            )
        })
    }

    pub(super) fn sawtooth_period(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        self.sawtooth(case, of, |saw| {
            saw.period_s()
                .ok_or("fewer than two window reductions, which a period needs; measure longer")
        })
    }

    pub(super) fn sawtooth_peak(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        self.sawtooth(case, of, |saw| {
            saw.peak_segments()
                .ok_or("no window reduction in its samples; measure longer")
        })
    }

    pub(super) fn sawtooth_trough(&self, case: &str, of: &str) -> Result<f64, MeasureError> {
        self.sawtooth(case, of, |saw| {
            saw.trough_segments()
                .ok_or("no window reduction after which the window grew again; measure longer")
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
            error.ok_or(
                "no sample with both a congestion window and the window of a shadow; give the \
                 flow's port a law",
            )
        })
    }
}
