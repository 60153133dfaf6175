// SPDX-License-Identifier: Apache-2.0
//
// The build without MPI.
#include "harness/machine/ranks.h"
#include "harness/support/errors.h"

namespace kmeans {

Communicator& begin_ranks(const Launched& launched) {
  throw EnvironmentError("a launcher started this program as " + std::to_string(launched.size) +
                         " ranks, but it was built without MPI, so each would do all of the work: "
                         "install libopenmpi-dev "
                         "and openmpi-bin and build again, or start it once");
}

void end_ranks_library() {}

std::string ranks_library() { return ""; }

}  // namespace kmeans
