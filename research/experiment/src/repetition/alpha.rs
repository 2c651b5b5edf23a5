//! DCTCP's α: the shadow's, the guest's own, and that of a sender that knows every mark.

use super::Repetition;
use crate::measure::Alpha;
use crate::measure_error::MeasureError;

impl Repetition<'_> {
    pub(super) fn alpha(&self, case: &str, of: &str, which: Alpha) -> Result<f64, MeasureError> {
        self.mean(case, of, |series| {
            let mean = series.mean_alpha(which);
            mean.ok_or_else(|| lacks(which))
        })
    }

    pub(super) fn alpha_error(
        &self,
        case: &str,
        of: &str,
        against: Alpha,
    ) -> Result<f64, MeasureError> {
        let flows = self.group(case, of, &self.part(None))?;
        let count = flows.len() as f64;
        let mut sum = 0.0;
        for (flow, series) in flows {
            let Some((distance, mean)) = series.alpha_distance(against) else {
                let which = series
                    .mean_alpha(Alpha::Shadow)
                    .map_or(Alpha::Shadow, |_| against);
                return Err(self.lacks(case, flow, lacks(which)));
            };
            let what = || {
                let index = flow.index;
                format!("the α that flow {index} of group `{of}` is held against")
            };
            sum += self.divide(case, distance, mean, what)?;
        }
        Ok(sum / count)
    }
}

/// Describes what is missing in a flow without this α.
fn lacks(which: Alpha) -> &'static str {
    match which {
        Alpha::Shadow => "no α of a shadow in its samples",
        Alpha::Exact => "no exact α in its samples; run it --on sim",
        Alpha::Guest => "no α of a guest in its samples",
    }
}
