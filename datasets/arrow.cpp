// SPDX-License-Identifier: Apache-2.0
#include "datasets/arrow.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "datasets/python_script.h"
#include "harness/support/errors.h"
#include "harness/support/mapped_file.h"

namespace kmeans {
namespace {

/// A name in the folder for temporary files, which is removed in the end.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::string name = (std::filesystem::temp_directory_path() / "kmeans-arrow-XXXXXX").string();
    const int descriptor = mkstemp(name.data());
    if (descriptor < 0) throw EnvironmentError(name + ": cannot be created for a converted file");
    close(descriptor);
    file_ = name;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return file_; }

 private:
  std::filesystem::path file_;
};

}  // namespace

bool is_arrow(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
  });
  return ending == ".parquet" || ending == ".feather" || ending == ".arrow";
}

FileBytes arrow_as_npy(const std::filesystem::path& file) {
  const MappedFile given(file);  // what cannot be opened is refused as every other file is
  const TemporaryFile npy;
  const ScriptOutcome outcome =
      run_python_script("read_arrow.py", {file.string(), "--out", npy.path().string()});
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
  const MappedFile mapped(npy.path());  // stays, though its name goes
  return {file.string(), mapped.bytes(), mapped.memory()};
}

}  // namespace kmeans
