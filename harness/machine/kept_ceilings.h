// SPDX-License-Identifier: Apache-2.0
//
// The file of measured ceilings in the cache: {fingerprint, ceilings, gpus: {key: ceilings},
// sha256}. What stands there goes into every result file, so it is not taken on trust.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace kmeans {

/// The kept measurements of this machine, of which only `fingerprint` is sure to be there; those of
/// another machine are forgotten. A file that is damaged, edited or beyond reason is too, with a
/// sentence on standard error.
nlohmann::json read_kept_ceilings(const std::filesystem::path& file,
                                  const std::string& fingerprint);

/// Writes them with their hash. Failure is not an error: without a cache the next run measures again.
void keep_ceilings(const std::filesystem::path& file, const nlohmann::json& measurements);

namespace detail {
/// With the hash of what it says under `sha256`.
nlohmann::json sealed(nlohmann::json measurements);

/// Why these cannot be the measured ceilings of a processor or a GPU, or "".
std::string unreasonable_ceilings(const nlohmann::json& ceilings);
}  // namespace detail

}  // namespace kmeans
