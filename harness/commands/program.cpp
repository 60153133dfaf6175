// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/program.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "harness/commands/commands.h"
#include "harness/machine/environment.h"
#include "harness/machine/machine.h"
#include "harness/machine/ranks.h"
#include "harness/run/fit_job.h"
#include "harness/run/job.h"
#include "harness/run/study_job.h"
#include "harness/run/trace_job.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/memory_left.h"
#include "harness/support/stack_size.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"
#include "harness/variants/python_backend.h"
#include "harness/variants/shared_library.h"
#include "harness/verify/ranked_variant.h"

namespace kmeans {
namespace {

// The coordinator's side of `run`: not for people, so not in --help.
void add_worker_commands(CLI::App& app, Action& action) {
  struct Files {
    std::string job;
    std::string result;
  };
  const auto add = [&](const char* name, int (*run)(const std::string&, const std::string&)) {
    auto files = std::make_shared<Files>();
    auto* worker = app.add_subcommand(name, "")->group("");
    worker->add_option("job", files->job)->required();
    worker->add_option("result", files->result)->required();
    worker->callback([files, run, &action] {
      action = [files, run] { return run(files->job, files->result); };
    });
  };
  add("worker", run_worker);
  add("trace-worker", run_trace_worker);
  add("study-worker", run_study_worker);
  add("fit-worker", run_fit_worker);
  auto file = std::make_shared<std::string>();
  auto* probe = app.add_subcommand("plugin-probe", "")->group("");
  probe->add_option("file", *file)->required();
  probe->callback([file, &action] { action = [file] { return probe_shared_library(*file); }; });
}

std::string version_text() {
  const BuildInfo& build = build_info();
  return "kmeans-bench " + build.version + " (" + build.git_commit.substr(0, 12) +
         (build.git_dirty ? ", with local changes" : "") + ", " + build.build_type + ", " +
         build.compiler + ")";
}

/// What was printed must have arrived. A reader that had enough (`| head`) is not a failure. Throws
/// OutputError.
void finish_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  const int error = errno;  // 0 where an earlier write failed
  pollfd reader{STDOUT_FILENO, POLLOUT, 0};
  const bool gone = ::poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0;
  if (error == EPIPE || gone) return;
  throw OutputError(std::string("standard output could not be written") +
                    (error != 0 ? std::string(": ") + std::strerror(error) : ""));
}

/// What was meant by the first word that the parser could not place; empty if all were.
std::string what_was_meant(const CLI::App& app) {
  const auto unplaced = app.remaining(true);
  if (unplaced.empty()) return "";
  const std::string& word = unplaced.front();
  std::vector<std::string> known;
  const auto chosen = app.get_subcommands();
  if (word.rfind("--", 0) == 0) {
    for (const CLI::App* command : chosen) {
      for (const CLI::Option* option : command->get_options()) {
        if (option->get_group().empty()) continue;  // not for people
        for (const auto& name : option->get_lnames()) known.push_back("--" + name);
      }
    }
  } else if (chosen.empty()) {
    for (const CLI::App* command : app.get_subcommands({})) {
      if (!command->get_group().empty()) known.push_back(command->get_name());
    }
  }
  if (known.empty()) return "";
  return "unknown '" + printable(word.substr(0, word.find('='))) + "'; " +
         closest_names(word.substr(0, word.find('=')), known);
}

/// The arguments, where `help` and `help COMMAND` mean --help.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  words.resize(std::min<std::size_t>(words.size(), 1));
  words.emplace_back("--help");
  return words;
}

/// What was most likely meant comes first; the parser's own words only where that is not known.
int refuse_words(const CLI::App& app, const CLI::ParseError& error) {
  const auto meant = what_was_meant(app);
  if (meant.empty() || !app.get_subcommands().empty()) {
    std::ostringstream out;
    std::ostringstream text;
    app.exit(error, out, text);
    std::fputs(printable(text.str()).c_str(), stderr);
  }
  if (!meant.empty()) std::fprintf(stderr, "%s\n", meant.c_str());
  return kExitBadInput;
}

/// Commands that share no work would do all of it on rank 0.
void refuse_on_ranks(const CLI::App& app) {
  for (const char* name :
       {"best", "machine", "check", "check-bundle", "study-worker", "fit-worker"}) {
    if (!app.got_subcommand(name)) continue;
    throw InputError(std::string("`") + name + "` was started as " +
                     std::to_string(process_ranks().size()) +
                     " ranks, but is one program: start it once, without the launcher; only `fit`, "
                     "`verify`, `run` and `reproduce` have work for ranks (docs/scaling.md)");
  }
}

int run(int argc, char** argv) {
  CLI::App app{"Benchmark and experiment suite for k-means (Lloyd's algorithm)", "kmeans-bench"};
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(
      "Exit codes: 0 ok, 1 gate failed, 2 bad input, 3 unusable environment, 4 some cells failed,\n"
      "5 output failed, 130 interrupted.\n\n"
      "Start with: kmeans-bench best points.npy -k 40; kmeans-bench run goldsborough2017");
  std::function<int()> action;
  add_list_command(app, action);
  add_best_command(app, action);
  add_advise_command(app, action);
  add_run_command(app, action);
  add_fit_command(app, action);
  add_verify_command(app, action);
  add_check_command(app, action);
  add_data_command(app, action);
  add_machine_command(app, action);
  add_compare_command(app, action);
  add_export_command(app, action);
  add_merge_command(app, action);
  add_reproduce_command(app, action);
  add_bundle_command(app, action);
  add_check_bundle_command(app, action);
  add_worker_commands(app, action);
  try {
    // CLI11 takes them from the back.
    const auto words = words_of(argc, argv);
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return refuse_words(app, error);
  }
  if (app.got_subcommand("list") || app.got_subcommand("run") || app.got_subcommand("fit") ||
      app.got_subcommand("verify") || app.got_subcommand("reproduce") ||
      app.got_subcommand("best") || app.got_subcommand("advise") ||
      app.got_subcommand("check-bundle") || app.got_subcommand("study-worker")) {
    discover_python_variants();
    discover_plugins();
  }
  // `run` and `reproduce` hand work to processes whose environment they set.
  if (app.got_subcommand("fit") || app.got_subcommand("verify")) refuse_small_stacks();
  if (process_ranks().size() > 1) refuse_on_ranks(app);
  const int code = action();
  // A worker's answer is a file; a variant may have closed or redirected its standard output.
  const bool is_worker = app.got_subcommand("worker") || app.got_subcommand("trace-worker") ||
                         app.got_subcommand("study-worker") || app.got_subcommand("fit-worker");
  if (!is_worker) finish_output();
  return code;
}

}  // namespace
}  // namespace kmeans

namespace {

/// Says on standard error what ended `work`, unless another rank does. Returns the exit code.
template <class Work>
int exit_code_of(const Work& work) {
  const auto say = [](const std::string& text) {
    if (kmeans::launched().rank == 0) std::fprintf(stderr, "kmeans-bench: %s\n", text.c_str());
  };
  try {
    return work();
  } catch (const kmeans::UserError& error) {
    say(kmeans::printable(error.what()));
    return error.code();
  } catch (const std::bad_alloc&) {
    say("out of memory: needs more than the " + kmeans::memory_left() + " that are left");
    return kmeans::kExitUnusableEnvironment;
  } catch (const std::exception& error) {
    say("unexpected: " + kmeans::printable(error.what()));
    return kmeans::kExitUnusableEnvironment;
  }
}

/// Is the command one of these?
bool is_command(int argc, char** argv, std::initializer_list<std::string_view> names) {
  return argc > 1 && std::find(names.begin(), names.end(), argv[1]) != names.end();
}

/// Commands that measure in processes of their own start the ranks of a cell themselves, as many as it says.
int run_once(kmeans::Communicator& ranks, char** argv) {
  if (ranks.rank() == 0) {
    std::fprintf(stderr,
                 "kmeans-bench: note: `%s` starts the ranks of each cell by itself, as many as its "
                 "experiment says; of these %d, which say on which hosts, it goes on as one\n",
                 argv[1], ranks.size());
  }
  kmeans::go_on_alone(ranks, argv);
  return kmeans::kExitOk;
}

/// Where a launcher started several ranks, rank 0 is the program, and the others do what it asks for.
int run_on_ranks(int argc, char** argv) {
  const bool once = is_command(argc, argv, {"run", "reproduce"});
  if (once && kmeans::launched_by_srun() && std::getenv("KMEANS_BENCH_LAUNCHER") == nullptr) {
    throw kmeans::InputError(
        std::string("`") + argv[1] +
        "` starts the ranks of each cell by itself, and a step of Slurm cannot start others on the "
        "processors that it holds: start it once in the allocation, without srun, with "
        "KMEANS_BENCH_LAUNCHER='srun --mpi=pmix -n {ranks}' (docs/scaling.md)");
  }
  kmeans::Communicator& ranks = kmeans::process_ranks();
  if (ranks.size() == 1) return kmeans::run(argc, argv);
  std::string words = kmeans::version_text();
  for (int i = 1; i < argc; ++i) words += std::string(" ") + argv[i];
  kmeans::expect_same_start(ranks, words);
  if (once) return run_once(ranks, argv);
  if (ranks.rank() > 0) return kmeans::serve_rank_0(ranks);
  const int code = exit_code_of([&] { return kmeans::run(argc, argv); });
  kmeans::dismiss_ranks(ranks, code);
  return code;
}

/// Ranks that cannot talk to each other any more would wait for each other for ever.
int run_or_abort(int argc, char** argv) {
  try {
    return run_on_ranks(argc, argv);
  } catch (const kmeans::CommunicationError& error) {
    kmeans::process_ranks().abort(error.what(), kmeans::kExitUnusableEnvironment);
    return kmeans::kExitUnusableEnvironment;  // g++ does not see that abort() never returns
  }
}

/// Whoever started the program may have closed its standard streams. The next file opened would get
/// their numbers, and what is printed would land in it.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) == -1 && errno == EBADF) {
      // The lowest free number is given out, which is this one.
      [[maybe_unused]] const int opened = ::open("/dev/null", O_RDWR);
    }
  }
}

/// A mapped file that somebody cuts short while it is read has no bytes where they are looked for, which
/// is this signal. Only what is safe in a handler.
void say_that_a_file_was_cut(int /*signal*/) {
  static constexpr char kText[] =
      "kmeans-bench: a mapped file has lost bytes while it was read: it was cut short, or its disk "
      "failed\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(kmeans::kExitUnusableEnvironment);
}

}  // namespace

int kmeans::run_program(int argc, char** argv) {
  // Between two steps they have work of their own for the cores that waiting threads would keep.
  if (is_command(argc, argv, {"fit", "verify"})) wait_briefly(argv);
  open_standard_streams();
  // A limit on the size of files is then an error of writing, which can be reported.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGBUS, say_that_a_file_was_cut);
  honour_denormals_from_the_start();
  const int code = exit_code_of([&] { return run_or_abort(argc, argv); });
  finish_ranks();
  return code;
}
