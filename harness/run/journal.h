// SPDX-License-Identifier: Apache-2.0
//
// The journal of a run: JSON lines, appended as processes finish, from which the result file is
// assembled and a broken run is resumed.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/job.h"
#include "harness/run/unit.h"

namespace kmeans {

/// A line of a journal (a JSON object) with the checksum that it carries: its last member, the
/// beginning of the SHA-256 of the line without it.
std::string sealed_line(const std::string& line);

/// What came of one worker process of a cell.
struct ProcessRecord {
  std::string cell;  ///< Its key.
  int process = 0;
  JobResult result;
  double wall_seconds = 0;  ///< From start to end of the process.
  double load_before = 0;   ///< One-minute load average of the machine.
  double load_after = 0;
  nlohmann::json activity{};  ///< Meanwhile (harness/machine/machine_check.h); null: unknown.
  int retries = 0;            ///< Attempts at it beyond the first.
};

/// Its line of a journal, without the checksum.
nlohmann::json to_json(const ProcessRecord& record);

/// What a run found out so far. A later entry for the same process, trace or study replaces an
/// earlier one.
struct JournalContent {
  nlohmann::json header;  ///< Identity of the run; null when empty.
  std::map<std::pair<std::string, int>, ProcessRecord> processes;
  std::vector<std::string> run_order;                  ///< Cells by their first process.
  std::map<std::string, nlohmann::json> traces;        ///< By name.
  std::map<std::string, nlohmann::json> studies;       ///< By name.
  std::map<std::string, nlohmann::json> fits;          ///< By name.
  nlohmann::json datasets = nlohmann::json::object();  ///< As in `context.datasets`.

  void add(const ProcessRecord& record);
  /// Traces, studies or fits.
  [[nodiscard]] const std::map<std::string, nlohmann::json>& of(Part part) const {
    return part == Part::trace ? traces : part == Part::study ? studies : fits;
  }
};

/// An open journal, locked against a second run for as long as it lives.
class Journal {
 public:
  /// Opens and locks the file. `resume`: keeps its entries, a torn last line dropped; otherwise an
  /// earlier journal that holds entries is renamed, never lost. Throws OutputError when it cannot
  /// be written or another run holds it, InputError when a line before the last is damaged: its
  /// checksum shows.
  Journal(std::filesystem::path file, bool resume);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  [[nodiscard]] const JournalContent& content() const { return content_; }

  /// What to say of a last line that was dropped because it is damaged; empty for one that was being
  /// written when the run was killed: the beginning of a line.
  [[nodiscard]] const std::string& damage() const { return damage_; }

  /// Each call returns when its line is on the disk. Throws OutputError; the file then ends with
  /// the last whole line.
  void write_header(const std::string& started, const nlohmann::json& identity);
  void append(const ProcessRecord& record);
  void append_dataset(const std::string& label, const nlohmann::json& dataset);
  /// The result of a trace, a study or a fit.
  void append(Part part, const std::string& name, const nlohmann::json& result);

 private:
  void open_locked();
  void move_aside();
  void load();
  void append_line(const nlohmann::json& line);

  std::filesystem::path file_;
  int descriptor_ = -1;
  JournalContent content_;
  std::string damage_;
};

/// Differences between the identities of two runs, one sentence each: "git_commit was 1, is 2".
std::vector<std::string> identity_differences(const nlohmann::json& before,
                                              const nlohmann::json& now);

}  // namespace kmeans
