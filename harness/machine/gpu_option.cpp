// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/gpu_option.h"

#include <string>

#include "harness/machine/gpu.h"
#include "harness/machine/ranks.h"
#include "harness/support/errors.h"
#include "harness/support/option_checks.h"

namespace kmeans {

void add_device_option(CLI::App& command) {
  command.add_option_function<std::string>(
      "--device", [](const std::string& which) { use_gpu(which); },
      "GPU to use: its number or (the beginning of) its UUID, as `kmeans-bench list` shows them; "
      "default: the first");
}

void add_gpus_option(CLI::App& command) {
  command
      .add_option_function<int>(
          "--gpus",
          [](int count) {
            if (count > 1 && launched().size > 1) {
              throw InputError("--gpus " + std::to_string(count) +
                               ": those of one process; of several ranks each has one");
            }
            use_gpus(count);
          },
          "GPUs that share the points (variants nccl_exact, python_cuvs_mg); default: 1")
      ->transform(whole_number(1, 4096));
}

}  // namespace kmeans
