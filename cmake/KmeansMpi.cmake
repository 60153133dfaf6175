# SPDX-License-Identifier: Apache-2.0
# MPI::MPI_CXX, if an MPI is installed (Open MPI or MPICH). Only its C interface is used. KMEANS_MPI=OFF
# leaves it out.
option(KMEANS_MPI "Use MPI where it is installed" ON)
set(kmeans_mpi_missing "MPI was switched off when the suite was configured (KMEANS_MPI=OFF)")
if(KMEANS_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  set(kmeans_mpi_missing
      "MPI was not found when the suite was configured (packages libopenmpi-dev and openmpi-bin)")
endif()
if(TARGET MPI::MPI_CXX)
  set(kmeans_has_mpi ON)
else()
  set(kmeans_has_mpi OFF)
endif()
