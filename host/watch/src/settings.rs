//! The operator's settings of watched ports.

use uc_law::Data;

use crate::layout::{UC_DATA_FROM_CLIENT, UC_DATA_FROM_SERVER};

/// Returns the ends that send the data, as the programs read them: `UC_DATA_FROM_*`.
pub(crate) fn bits(data: Data) -> u8 {
    let bits = match data {
        Data::Nobodys => 0,
        Data::FromClient => UC_DATA_FROM_CLIENT,
        Data::FromServer => UC_DATA_FROM_SERVER,
        Data::FromBoth => UC_DATA_FROM_CLIENT | UC_DATA_FROM_SERVER,
    };
    bits as u8
}
