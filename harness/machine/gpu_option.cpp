// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/gpu_option.h"

#include <string>

#include "harness/machine/gpu.h"

namespace kmeans {

void add_device_option(CLI::App& command) {
  command.add_option_function<std::string>(
      "--device", [](const std::string& which) { use_gpu(which); },
      "GPU to use: its number or (the beginning of) its UUID, as `kmeans-bench list` shows them; "
      "default: the first");
}

}  // namespace kmeans
