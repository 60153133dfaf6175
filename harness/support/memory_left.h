// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kmeans {

/// Bytes of addresses that `ulimit -v` leaves to this process, or to another of this program; absent: no
/// limit.
std::optional<std::int64_t> address_space_left();

/// For a message on too little memory: "440 MiB (ulimit -v)", or "3 GiB", which the system has free.
std::string memory_left();

}  // namespace kmeans
