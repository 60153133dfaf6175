// SPDX-License-Identifier: Apache-2.0
#include "datasets/arrow.h"

#include <algorithm>
#include <string>

#include "datasets/python_script.h"
#include "harness/support/errors.h"
#include "harness/support/mapped_file.h"
#include "harness/support/temporary_folder.h"

namespace kmeans {
bool is_arrow(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
  });
  return ending == ".parquet" || ending == ".feather" || ending == ".arrow";
}

FileBytes arrow_as_npy(const std::filesystem::path& file) {
  const MappedFile given(file);  // what cannot be opened is refused as every other file is
  const TemporaryFolder folder("arrow");
  const auto npy = folder / "points.npy";
  const ScriptOutcome outcome =
      run_python_script("read_arrow.py", {file.string(), "--out", npy.string()});
  constexpr const char* kRefused = "refused: ";
  if (outcome.failure.rfind(kRefused, 0) == 0) {
    throw InputError(file.string() + ": " + outcome.failure.substr(std::string(kRefused).size()));
  }
  if (!outcome.failure.empty()) {
    throw EnvironmentError(
        file.string() + ": Parquet and Arrow files are read by pyarrow, and " + outcome.python +
        " could not: " + outcome.failure +
        ". `.venv/bin/python -m pip install pyarrow` provides it; or save the points by "
        "numpy.save and give the .npy");
  }
  const MappedFile mapped(npy);  // stays, though its name goes
  return {file.string(), mapped.bytes(), mapped.memory()};
}

}  // namespace kmeans
