# SPDX-License-Identifier: Apache-2.0
# OpenBLAS::OpenBLAS: the headers of its CBLAS interface, if it is installed. The library is loaded by
# the variants that use it (harness/machine/openblas_library.h); nothing links with it. It is known by
# a header of its own: cblas.h may be that of Netlib or of another library. tools/setup.sh looks in
# the same places.
if(OPENBLAS_INCLUDE_DIR AND NOT EXISTS ${OPENBLAS_INCLUDE_DIR}/openblas_config.h)
  unset(OPENBLAS_INCLUDE_DIR CACHE)  # found by cblas.h, by an older state of this file
endif()
find_path(OPENBLAS_INCLUDE_DIR openblas_config.h
          PATH_SUFFIXES openblas openblas-pthread openblas-openmp openblas-serial)
find_library(OPENBLAS_LIBRARY openblas
             PATH_SUFFIXES openblas openblas-pthread openblas-openmp openblas-serial)
set(cblas "")
if(OPENBLAS_INCLUDE_DIR AND EXISTS ${OPENBLAS_INCLUDE_DIR}/cblas.h)
  # Where alternatives are links in one folder, the two may be of different libraries.
  file(STRINGS ${OPENBLAS_INCLUDE_DIR}/cblas.h cblas LIMIT_COUNT 1 REGEX "openblas")
endif()
set(kmeans_blas_missing "")
if(NOT OPENBLAS_INCLUDE_DIR)
  set(missing "OpenBLAS (openblas_config.h)")
elseif(NOT cblas)
  set(missing "OpenBLAS's own cblas.h, next to openblas_config.h,")
elseif(NOT OPENBLAS_LIBRARY)
  set(missing "OpenBLAS's library (libopenblas)")
else()
  set(missing "")
  add_library(OpenBLAS::OpenBLAS INTERFACE IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES ${OPENBLAS_INCLUDE_DIR})
endif()
if(missing)
  set(kmeans_blas_missing
      "${missing} was not found when the suite was configured (package libopenblas-dev)")
endif()
