// SPDX-License-Identifier: Apache-2.0
//
// A comparison as people read it: in a terminal, and as Markdown.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "harness/compare/compare.h"
#include "harness/support/formatted.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Other bits of variants that round are news of little worth: so many are named, the rest counted.
constexpr std::size_t kNewsShown = 10;
constexpr std::size_t kCellsListed = 20;

/// The code point that begins at `i`, and its length; the text is valid UTF-8.
std::pair<std::uint32_t, std::size_t> code_point(std::string_view text, std::size_t i) {
  const auto byte = static_cast<unsigned char>(text[i]);
  const std::size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  static constexpr std::array<std::uint32_t, 5> kMask{0, 0x7F, 0x1F, 0x0F, 0x07};
  std::uint32_t code = byte & kMask[length];
  for (std::size_t j = 1; j < length; ++j) {
    code = (code << 6) | (static_cast<unsigned char>(text[i + j]) & 0x3F);
  }
  return {code, length};
}

/// Moves the cursor, colours the screen, or turns the direction of writing.
bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) ||
         code == 0xFEFF || code == 0x061C;
}

/// Valid UTF-8 on one line, that a terminal takes for text alone.
std::string plain(std::string_view text) {
  const std::string valid = valid_utf8(text);
  std::string result;
  for (std::size_t i = 0; i < valid.size();) {
    const auto [code, length] = code_point(valid, i);
    if (code == '\n' || code == '\t' || code == '\r') {
      result += ' ';
    } else if (is_control(code)) {
      result += '?';
    } else {
      result.append(valid, i, length);
    }
    i += length;
  }
  return result;
}

std::string side_line(const json& side) {
  const auto text = [&](const json& value) {
    return value.is_string() ? value.get<std::string>() : std::string("unknown");
  };
  std::string line =
      text(side.at("label")) + ": " + text(side.at("machine")) + ", " + text(side.at("cpu"));
  if (side.at("gpu").is_string()) line += ", " + text(side.at("gpu"));
  std::vector<std::string> builds;
  for (const auto& file : side.at("files")) {
    const std::string build = text(file.at("git_commit")).substr(0, 12) +
                              (file.at("git_dirty") == true ? " with local changes" : "");
    if (std::find(builds.begin(), builds.end(), build) == builds.end()) builds.push_back(build);
  }
  for (const auto& build : builds) line += ", " + build;
  return line + ", " + std::to_string(side.at("files").size()) +
         (side.at("files").size() == 1 ? " experiment of " : " experiments, the first of ") +
         text(side.at("files").at(0).at("started"));
}

std::string rule_line(const CompareSettings& settings) {
  return formatted(
      "slower and faster: by more than %.3g %%, and no chance finding at a false discovery rate of "
      "%.3g %%, or by at least %.3g times in every sample; interval: %.3g %%",
      100 * settings.effect, 100 * settings.false_discovery_rate, kClearGap,
      100 * settings.confidence);
}

std::string counts_line(const Comparison& comparison) {
  std::string line = std::to_string(comparison.timed) +
                     (comparison.timed == 1 ? " cell" : " cells") + " timed on both sides:";
  for (const auto verdict :
       {CellVerdict::slower, CellVerdict::faster, CellVerdict::unclear, CellVerdict::same}) {
    line += (verdict == CellVerdict::slower ? " " : ", ") +
            std::to_string(comparison.count(verdict)) + " " + to_string(verdict);
  }
  return line;
}

std::string gate_line(const GateResult& gate) {
  std::string line = std::string("Gate: ") + to_string(gate.outcome);
  const auto list = [&](const char* before, const std::vector<std::string>& sentences) {
    for (const auto& sentence : sentences) {
      line += (&sentence == &sentences.front() ? before : "; ") + sentence;
    }
  };
  list(": ", gate.reasons);
  list(gate.reasons.empty() ? ": " : "; undecided besides: ", gate.undecided);
  return line;
}

std::string share_text(double share) { return formatted("%.2g %%", 100 * share); }

/// "5 %", or "5 to 22 %"; the shares are not empty.
std::string share_range(const std::vector<double>& shares) {
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
  const std::string from = share_text(*least);
  const std::string to = share_text(*most);
  return from == to ? from : from.substr(0, from.find(' ')) + " to " + to;
}

std::string group_line(const GroupVerdict& group) {
  std::string line =
      formatted("%-7s %s  %.3f", to_string(group.verdict), group.doubtful ? "?" : " ", group.ratio);
  line += group.low ? formatted("  %.3f .. %.3f", *group.low, *group.high) : "  -";
  line += formatted("  p corr. %.2g", group.p_adjusted);
  if (group.sees) line += ", sees " + share_text(*group.sees);
  return line + "  " + (group.variant.empty() ? "all" : group.variant) + " (" +
         counted(group.cells, "cell", "cells") + ")";
}

struct Row {
  std::string verdict, ratio, interval, base, changed, p, samples, key, why, doubt, mark;
};

std::string cell_name(const ComparedCell& cell, bool with_experiment) {
  const std::string key = cell.key.text();
  const std::string new_key = cell.new_key.text();
  std::string name = with_experiment ? cell.experiment + ": " + key : key;
  if (new_key == key) return name;
  // The part that differs: the threads on other hardware, the name of a data file elsewhere.
  std::size_t first = 0;
  for (std::size_t i = 0; key.compare(0, i, new_key, 0, i) == 0; ++i) {
    if (key[i] == '/') first = i + 1;
  }
  return name + " (new: " + new_key.substr(first, new_key.find('/', first) - first) + ")";
}

Row row_of(const ComparedCell& cell, bool with_experiment) {
  Row row;
  row.verdict = to_string(cell.verdict);
  row.key = cell_name(cell, with_experiment);
  row.why = cell.why;
  row.base = cell.base.seconds ? format_seconds(*cell.base.seconds) : cell.base.status;
  row.changed = cell.changed.seconds ? format_seconds(*cell.changed.seconds) : cell.changed.status;
  row.samples = formatted("%zu/%zu, %zu/%zu", cell.base.processes, cell.base.samples,
                          cell.changed.processes, cell.changed.samples);
  row.ratio = row.interval = row.p = "-";
  if (cell.times) {
    row.ratio = formatted("%.3f", cell.times->ratio);
    if (cell.times->low) {
      row.interval = formatted("%.3f .. %.3f", *cell.times->low, *cell.times->high);
    }
    row.p = cell.times->p_adjusted ? formatted("%.2g", *cell.times->p_adjusted) : "-";
  }
  const auto doubt = [&](const char* side, const std::vector<std::string>& sentences) {
    if (sentences.empty()) return;
    row.doubt += (row.doubt.empty() ? "" : "; ") + std::string(side) + ": ";
    for (const auto& sentence : sentences) {
      row.doubt += (&sentence == &sentences.front() ? "" : "; ") + sentence;
    }
  };
  for (const auto* side : {&cell.base, &cell.changed}) {
    const char* name = side == &cell.base ? "base" : "new";
    doubt(name, side->unsteady);
    doubt(name, side->noted);
  }
  if (cell.unsteady()) {
    row.mark = "unsteady";
  } else if (cell.noted()) {
    row.mark = "noted";
  }
  if (!cell.outcome_why.empty() && cell.outcome) {
    row.why += (row.why.empty() ? "" : "; ") + std::string(to_string(*cell.outcome)) + ": " +
               cell.outcome_why;
  }
  return row;
}

constexpr std::array<const char*, 8> kHeadings{"verdict", "new/base", "interval",          "base",
                                               "new",     "p corr.",  "processes/samples", "cell"};
constexpr std::size_t kRightAligned = 7;  // all but the last, and but the verdict

std::array<std::string, 8> columns(const Row& row) {
  return {row.verdict + (row.mark.empty()         ? ""
                         : row.mark == "unsteady" ? " ?"
                                                  : " *"),
          row.ratio,
          row.interval,
          row.base,
          row.changed,
          row.p,
          row.samples,
          row.key};
}

/// What a reader need not see: equal cells, those without times, and those too little measured
/// whose medians are equal.
bool is_quiet(const ComparedCell& cell, const CompareSettings& settings) {
  if (cell.verdict == CellVerdict::unclear) {
    return std::abs(std::log(cell.times->ratio)) < std::log1p(settings.effect);
  }
  return cell.verdict == CellVerdict::same || cell.verdict == CellVerdict::untimed;
}

std::vector<Row> time_rows(const Comparison& comparison, bool all) {
  bool several = false;
  for (const auto& cell : comparison.cells) {
    several = several || cell.experiment != comparison.cells.front().experiment;
  }
  std::vector<Row> rows;
  for (const auto& cell : comparison.cells) {
    if (all || !is_quiet(cell, comparison.settings)) rows.push_back(row_of(cell, several));
  }
  return rows;
}

std::string silence(const Comparison& comparison, bool all) {
  if (all) return "";
  std::string line;
  const auto add = [&](std::size_t count, const std::string& what) {
    if (count > 0) line += (line.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  const auto quiet = std::count_if(
      comparison.cells.begin(), comparison.cells.end(), [&](const ComparedCell& cell) {
        return cell.verdict == CellVerdict::unclear && is_quiet(cell, comparison.settings);
      });
  add(comparison.count(CellVerdict::same), "the same");
  add(static_cast<std::size_t>(quiet),
      formatted("unclear whose medians differ by less than %.3g %%",
                100 * comparison.settings.effect));
  add(comparison.count(CellVerdict::untimed), "untimed");
  return line.empty() ? "" : "Not shown: " + line + " (--all shows them)";
}

/// The worst first.
enum class Kind { regression, lost, news };

struct Change {
  Kind kind;
  std::string what;
  std::string sentence;
};

/// Every change of an answer, the worst first.
std::vector<Change> changes(const Comparison& comparison) {
  std::vector<Change> list;
  const auto add = [&](const auto& one, bool lost, const std::string& what) {
    const Kind kind = one.correctness_regression ? Kind::regression
                      : lost                     ? Kind::lost
                                                 : Kind::news;
    for (const auto& sentence : one.correctness) list.push_back({kind, what, sentence});
  };
  for (const auto& cell : comparison.cells) add(cell, cell.lost, cell_name(cell, true));
  for (const auto& record : comparison.records) {
    add(record, record.lost, record.experiment + ": " + record.kind + " " + record.name);
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Change& a, const Change& b) { return a.kind < b.kind; });
  return list;
}

std::size_t shown_changes(const std::vector<Change>& list, bool all) {
  if (all) return list.size();
  const auto worse = static_cast<std::size_t>(std::count_if(
      list.begin(), list.end(), [](const Change& one) { return one.kind != Kind::news; }));
  return std::min(list.size(), worse + kNewsShown);
}

std::string bits_line(const Comparison& comparison) {
  if (comparison.bits_vary == 0) return "";
  return "Bits differ from process to process in " +
         counted(comparison.bits_vary, "cell", "cells") + " of " +
         std::to_string(comparison.cells.size()) + ": there the inertia alone is compared";
}

/// Cells without a right answer on either side: what is wrong, or why they failed, in new.
std::vector<std::pair<std::string, std::string>> still_broken(const Comparison& comparison) {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& cell : comparison.cells) {
    if (!cell.still_broken) continue;
    list.emplace_back(cell_name(cell, true), cell.changed.status + ": " + cell.changed.reason);
  }
  return list;
}

std::string added_line(const Comparison& comparison) {
  const std::size_t count = comparison.added.size();
  return "\nOnly in new: " + std::to_string(count) + (count == 1 ? " cell\n" : " cells\n");
}

std::string geometric_mean_line(const Comparison& comparison) {
  if (!comparison.geometric_mean_ratio) return "";
  return formatted("Geometric mean of the %zu ratios new/base: %.4f", comparison.timed,
                   *comparison.geometric_mean_ratio);
}

/// Text in pieces, none of which is cut: what does not fit is counted.
class LimitedText {
 public:
  LimitedText(std::size_t limit, std::size_t reserve)
      : limit_(limit > reserve ? limit - reserve : 0) {}

  /// A heading or the like; belongs to the rows that follow.
  void heading(const std::string& text) { pending_ += text; }
  void row(const std::string& text) {
    if (left_out_ > 0 || text_.size() + pending_.size() + text.size() > limit_) {
      ++left_out_;
      return;
    }
    text_ += pending_ + text;
    pending_.clear();
  }
  [[nodiscard]] std::size_t left_out() const { return left_out_; }
  std::string take() { return std::move(text_); }

 private:
  std::size_t limit_;
  std::string text_;
  std::string pending_;
  std::size_t left_out_ = 0;
};

}  // namespace

std::string markdown_escaped(std::string_view text) {
  const std::string clean = plain(text);
  std::string result;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    const char c = clean[i];
    // Entities are text in every position; a backslash is not, in a table's code or at a link.
    const bool markup = std::string_view("|`<>&@*[]#~!\\$^{}").find(c) != std::string_view::npos;
    const bool formula = i == 0 && (c == '=' || c == '+' || c == '-');
    const bool link = (c == ':' && clean.compare(i, 3, "://") == 0) ||
                      (c == '.' && i >= 3 && clean.compare(i - 3, 3, "www") == 0);
    if (markup || formula || link) {
      result += "&#" + std::to_string(static_cast<unsigned>(static_cast<unsigned char>(c))) + ";";
    } else if (c == '_') {
      result += "\\_";
    } else {
      result += c;
    }
  }
  return result;
}

std::string sees_line(const Comparison& comparison) {
  std::vector<double> cells;
  std::size_t blind = 0;
  for (const auto& cell : comparison.cells) {
    if (!cell.times) continue;
    if (cell.times->sees) {
      cells.push_back(*cell.times->sees);
    } else {
      ++blind;
    }
  }
  if (cells.empty() && blind == 0) return "";
  std::vector<double> variants;
  std::optional<double> whole;
  for (const auto& group : comparison.groups) {
    if (!group.sees) continue;
    if (group.variant.empty()) {
      whole = group.sees;
    } else {
      variants.push_back(*group.sees);
    }
  }
  std::string line;
  const auto add = [&](const std::string& what) { line += (line.empty() ? "" : ", ") + what; };
  if (!cells.empty()) {
    std::sort(cells.begin(), cells.end());
    const double middle = cells[(cells.size() - 1) / 2];
    add("from " + share_text(middle) + " on in one cell alone" +
        (cells.size() > 1 ? " (half of them; " + share_range(cells) + ")" : ""));
  }
  if (blind > 0) add("never in " + counted(blind, "cell", "cells") + " with too few processes");
  if (!variants.empty()) add("from " + share_range(variants) + " on in all cells of a variant");
  if (whole) add("from " + share_text(*whole) + " on in all cells");
  return "This pair sees a slowdown " + line;
}

std::string to_text(const Comparison& comparison, bool all) {
  std::string text = "base  " + plain(side_line(comparison.base)) + "\nnew   " +
                     plain(side_line(comparison.changed)) + "\n";
  if (!comparison.differences.empty()) {
    text += "\nEnvironment differences\n";
    for (const auto& sentence : comparison.differences) text += "  " + plain(sentence) + "\n";
  }

  const auto list = changes(comparison);
  if (!list.empty()) {
    text += "\nAnswers that changed\n";
    const std::size_t shown = shown_changes(list, all);
    for (std::size_t i = 0; i < shown; ++i) {
      text += std::string(list[i].kind == Kind::regression ? "  REGRESSION  "
                          : list[i].kind == Kind::lost     ? "  LOST        "
                                                           : "  news        ") +
              plain(list[i].what) + ": " + plain(list[i].sentence) + "\n";
    }
    if (shown < list.size()) {
      text += "  and " + std::to_string(list.size() - shown) + " more news (--all shows them)\n";
    }
  }
  if (const auto line = bits_line(comparison); !line.empty()) text += "\n" + line + "\n";
  const auto list_cells = [&](const char* heading, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    text += std::string("\n") + heading + "\n";
    const std::size_t shown = all ? lines.size() : std::min(lines.size(), kCellsListed);
    for (std::size_t i = 0; i < shown; ++i) text += "  " + plain(lines[i]) + "\n";
    if (shown < lines.size()) {
      text += "  and " + std::to_string(lines.size() - shown) + " more (--all shows them)\n";
    }
  };
  std::vector<std::string> broken;
  for (const auto& [cell, what] : still_broken(comparison)) broken.push_back(cell + ": " + what);
  list_cells("Wrong or failed on both sides", broken);
  std::vector<std::string> missing;
  for (const auto& cell : comparison.missing) {
    missing.push_back(cell.experiment + ": " + cell.key + ": " + cell.reason);
  }
  list_cells("Missing in new, or not comparable", missing);
  if (!comparison.added.empty()) {
    text += added_line(comparison);
    for (std::size_t i = 0; all && i < comparison.added.size(); ++i) {
      const auto& cell = comparison.added[i];
      text += "  " + plain(cell.experiment + ": " + cell.key) + "\n";
    }
  }

  text += "\n" + counts_line(comparison) + "\n" + rule_line(comparison.settings) + "\n";
  const auto rows = time_rows(comparison, all);
  if (!rows.empty()) {
    std::array<std::size_t, kHeadings.size()> widths{};
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::string_view(kHeadings[i]).size();
      for (const auto& row : rows) widths[i] = std::max(widths[i], columns(row)[i].size());
    }
    const auto line = [&](const std::array<std::string, kHeadings.size()>& cells) {
      std::string result;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::string space(widths[i] - std::min(widths[i], cells[i].size()), ' ');
        const bool right = i > 0 && i < kRightAligned;
        result += "  ";
        result += right ? space + cells[i] : cells[i] + (i == 0 ? space : "");
      }
      return result + "\n";
    };
    std::array<std::string, kHeadings.size()> headings;
    std::copy(kHeadings.begin(), kHeadings.end(), headings.begin());
    text += "\n" + line(headings);
    bool unsteady = false;
    bool noted = false;
    for (const auto& row : rows) {
      auto cells = columns(row);
      cells.back() = plain(cells.back());
      text += line(cells);
      if (row.verdict == "unclear" && all) text += "           " + plain(row.why) + "\n";
      if (!row.doubt.empty() && all) text += "           " + plain(row.doubt) + "\n";
      unsteady = unsteady || row.mark == "unsteady";
      noted = noted || row.mark == "noted";
    }
    if (unsteady) text += "  ?  unsteady: the processes of base or new disagree\n";
    if (noted) text += "  *  noted: measured under conditions that --all and the JSON name\n";
  }
  for (const auto& line : {silence(comparison, all), geometric_mean_line(comparison)}) {
    if (!line.empty()) text += line + "\n";
  }
  if (!comparison.groups.empty()) {
    text += "\nCells together, new/base\n";
    for (const auto& group : comparison.groups) text += "  " + plain(group_line(group)) + "\n";
  }
  if (const auto line = sees_line(comparison); !line.empty()) text += "\n" + plain(line) + "\n";
  text += "\n";
  for (const auto& note : comparison.gate.notes) text += plain(note) + "\n";
  return text + plain(gate_line(comparison.gate)) + "\n";
}

std::string to_markdown(const Comparison& comparison, bool all, std::size_t limit,
                        const std::string& whole) {
  const auto safe = markdown_escaped;
  const std::string tail_where = safe(whole);
  LimitedText out(limit, tail_where.size() + 200);
  out.row(std::string("## k-means comparison: gate ") + to_string(comparison.gate.outcome) +
          "\n\n");
  for (const auto& reason : comparison.gate.reasons) out.row("- **" + safe(reason) + "**\n");
  for (const auto& reason : comparison.gate.undecided) {
    out.row("- **undecided:** " + safe(reason) + "\n");
  }
  for (const auto& note : comparison.gate.notes) out.row("- " + safe(note) + "\n");
  out.row("- " + safe(counts_line(comparison)) + "\n");
  if (const auto sees = sees_line(comparison); !sees.empty()) out.row("- " + safe(sees) + "\n");
  if (const auto mean = geometric_mean_line(comparison); !mean.empty()) {
    out.row("- " + safe(mean) + "\n");
  }
  out.row("- base: " + safe(side_line(comparison.base)) + "\n");
  out.row("- new: " + safe(side_line(comparison.changed)) + "\n");

  const auto list = changes(comparison);
  if (!list.empty()) {
    out.heading("\n### Answers that changed\n\n| | cell | change |\n|---|---|---|\n");
    const std::size_t shown = shown_changes(list, all);
    for (std::size_t i = 0; i < shown; ++i) {
      out.row(std::string("| ") +
              (list[i].kind == Kind::regression ? "**regression**"
               : list[i].kind == Kind::lost     ? "**LOST**"
                                                : "news") +
              " | " + safe(list[i].what) + " | " + safe(list[i].sentence) + " |\n");
    }
    if (shown < list.size()) {
      out.row("\nand " + std::to_string(list.size() - shown) + " more news\n");
    }
  }
  if (const auto line = bits_line(comparison); !line.empty()) out.row("\n" + line + ".\n");
  if (const auto broken = still_broken(comparison); !broken.empty()) {
    out.heading("\n### Wrong or failed on both sides\n\n| cell | new |\n|---|---|\n");
    for (const auto& [cell, what] : broken) {
      out.row("| " + safe(cell) + " | " + safe(what) + " |\n");
    }
  }
  if (!comparison.missing.empty()) {
    out.heading("\n### Missing in new, or not comparable\n\n| cell | why |\n|---|---|\n");
    for (const auto& cell : comparison.missing) {
      out.row("| " + safe(cell.experiment + ": " + cell.key) + " | " + safe(cell.reason) + " |\n");
    }
  }
  const auto rows = time_rows(comparison, all);
  if (!rows.empty()) {
    out.heading(
        "\n### Times\n\nSeconds per iteration, medians; new/base above 1 is slower. " +
        safe(rule_line(comparison.settings)) +
        ".\n\n| verdict | new/base | interval | base | new | p, corrected | processes/samples | "
        "cell | why |\n|---|---:|---:|---:|---:|---:|---:|---|---|\n");
    for (const auto& row : rows) {
      out.row("| " + row.verdict + " | " + row.ratio + " | " + row.interval + " | " + row.base +
              " | " + row.changed + " | " + row.p + " | " + row.samples + " | " + safe(row.key) +
              " | " + safe(row.why) +
              (row.doubt.empty() ? "" : "; " + row.mark + ": " + safe(row.doubt)) + " |\n");
    }
  }
  if (const auto line = silence(comparison, all); !line.empty()) {
    out.row("\n" + safe(line) + "\n");
  }
  if (!comparison.added.empty()) {
    out.row(added_line(comparison));
  }
  if (!comparison.differences.empty()) {
    out.heading("\n### Environment differences\n\n");
    for (const auto& sentence : comparison.differences) out.row("- " + safe(sentence) + "\n");
  }
  const std::size_t left_out = out.left_out();
  std::string text = out.take();
  if (left_out > 0) {
    text += "\n**Cut for size: " + std::to_string(left_out) + " rows are left out; " + tail_where +
            " has all of them.**\n";
  }
  return text;
}

}  // namespace kmeans
