// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace kmeans {

/// Adds --device to a command: the GPU that is used by this process and those it starts.
void add_device_option(CLI::App& command);

/// Adds --gpus to a command, after --device: how many GPUs of this process share the points.
void add_gpus_option(CLI::App& command);

}  // namespace kmeans
