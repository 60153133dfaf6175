// SPDX-License-Identifier: Apache-2.0
//
// Libraries whose whole fits are measured: files implementations/python/fit_<name>.py, or anybody's, by path.
#pragma once

#include <string>
#include <vector>

namespace kmeans {

/// The names of those of the suite.
std::vector<std::string> known_estimators();

/// Is this the path of a file, not a name?
bool is_estimator_file(const std::string& name);

/// The name, or the path, of one that there is. Throws InputError naming the closest.
std::string require_estimator(const std::string& name);

/// Its file.
std::string estimator_file(const std::string& name);

/// What results call it: the name, or the file's stem.
std::string estimator_name(const std::string& name);

}  // namespace kmeans
