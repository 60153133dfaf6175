// SPDX-License-Identifier: Apache-2.0
#include "harness/run/out_folder.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <exception>
#include <string_view>

#include "harness/support/atomic_file.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"

namespace kmeans {
namespace {

constexpr std::string_view kProbe = ".writable-";

}  // namespace

void check_writable(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw OutputError("cannot create the folder " + folder.string() + ": " + error.message());
  }
  const auto probe = folder / (std::string(kProbe) + std::to_string(static_cast<long>(::getpid())));
  write_file_atomically(probe, "x");
  std::filesystem::remove(probe, error);
}

void remove_abandoned_files(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const auto mark = name.rfind(".tmp-");
    const std::string number = name.rfind(kProbe, 0) == 0  ? name.substr(kProbe.size())
                               : mark != std::string::npos ? name.substr(mark + 5)
                                                           : "";
    long pid = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), pid);
    struct stat status {};
    const char* const last = number.data() + number.size();
    if (number.empty() || error != std::errc{} || (end != last && *end != '-') ||
        ::lstat(entry.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != ::geteuid()) {
      continue;
    }
    if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) ::unlink(entry.path().c_str());
  }
}

void note_last_measured(const std::filesystem::path& cache, const std::filesystem::path& folder) {
  try {
    std::filesystem::create_directories(cache);
    write_file_atomically(cache / "last-measured",
                          std::filesystem::canonical(folder).string() + "\n");
  } catch (const std::exception&) {  // a cache that cannot be written
    return;
  }
}

bool is_experiment(const std::filesystem::path& file) {
  try {
    const nlohmann::json value = read_json_file(file);
    return value.is_object() && value.contains("scales") && !value.contains("schema_version");
  } catch (const InputError&) {
    return false;
  }
}

std::filesystem::path keep_as_earlier(const std::filesystem::path& file, std::string stamp) {
  std::error_code error;
  stamp.erase(
      std::remove_if(stamp.begin(), stamp.end(), [](char c) { return c == '-' || c == ':'; }),
      stamp.end());
  std::filesystem::path kept;
  for (int attempt = 0; attempt == 0 || std::filesystem::exists(kept, error); ++attempt) {
    kept = file.string() + ".before-" + stamp + (attempt == 0 ? "" : "-" + std::to_string(attempt));
  }
  std::filesystem::rename(file, kept, error);
  if (error) {
    throw OutputError("cannot keep the earlier " + file.string() + " as " + kept.string() + ": " +
                      error.message());
  }
  return kept;
}

}  // namespace kmeans
