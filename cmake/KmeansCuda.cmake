# SPDX-License-Identifier: Apache-2.0
# Looks for a CUDA compiler. Sets kmeans_has_cuda, and for it CMAKE_CUDA_ARCHITECTURES.
#
#   KMEANS_CUDA                 AUTO, ON (fail without one) or OFF. AUTO leaves CUDA out where there is
#                               no GPU, since it is half of the time to build, unless the build is of
#                               the library's package, which may be for another machine, or quick
#   KMEANS_CUDA_ARCHITECTURES   auto: those of this machine's GPUs; where there is none, one: 7.5 with
#                               PTX, the oldest that the suite supports. Compiling for six takes six
#                               times as long for a machine that can run none of them, and of one
#                               architecture only the oldest's PTX runs on every supported GPU: its
#                               driver translates it. What is measured should be compiled where the
#                               GPU is: tools/build.sh configures again when it sees one
#                               default: 7.5 to 9.0, and 10.0 with PTX where the compiler knows it
#                               native, or a list as CMake writes it: 90 or "80-real;90"
#   KMEANS_CUDA_QUICK           ON: where there is no GPU, kernels are optimised little, and for one
#                               architecture each, since nothing runs them

set(KMEANS_CUDA "AUTO" CACHE STRING "AUTO, ON or OFF: build the CUDA backend")
set(KMEANS_CUDA_ARCHITECTURES "auto" CACHE STRING
    "auto, default (all), native, or a list of compute capabilities without the point")
option(KMEANS_CUDA_QUICK "Where there is no GPU, optimise kernels little" OFF)

set(kmeans_has_cuda OFF)
set(kmeans_cuda_quick OFF)  # KMEANS_CUDA_QUICK, no GPU, and nobody named an architecture
set(kmeans_cuda_quick_flags "")
set(kmeans_cuda_note "")
set(kmeans_cuda_missing "CUDA was switched off when this was configured")
if(KMEANS_CUDA STREQUAL "OFF")
  return()
endif()

# The toolkit's usual place, which installers often leave out of PATH.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(KMEANS_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda
               PATH_SUFFIXES bin)
  if(KMEANS_NVCC)
    set(ENV{CUDACXX} ${KMEANS_NVCC})  # which the next compiles with
  endif()
endif()
include(CheckLanguage)
check_language(CUDA)
set(kmeans_cuda_missing "")
if(NOT CMAKE_CUDA_COMPILER)
  set(kmeans_cuda_missing "no CUDA compiler that works was found when this was configured")
else()
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(version MATCHES "release ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_LESS 12)
    set(kmeans_cuda_missing "CUDA ${CMAKE_MATCH_1} was found; 12 or newer is needed")
  endif()
endif()
if(kmeans_cuda_missing)
  if(KMEANS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "KMEANS_CUDA=ON, but ${kmeans_cuda_missing} (set CUDACXX)")
  endif()
  return()
endif()

execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known
                ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(known "compute_75;compute_80;compute_86;compute_90")
endif()
set(kmeans_default_architectures "")
foreach(architecture 75 80 86 89 90)
  if(known MATCHES "compute_${architecture}")
    list(APPEND kmeans_default_architectures ${architecture}-real)
  endif()
endforeach()
if(known MATCHES "compute_100")
  list(APPEND kmeans_default_architectures 100)
else()
  list(APPEND kmeans_default_architectures 90-virtual)
endif()

set(architectures ${KMEANS_CUDA_ARCHITECTURES})
if(architectures MATCHES "^(auto|native)$")
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE status TIMEOUT 20)
  set(own "")
  if(status EQUAL 0)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")
    foreach(capability IN LISTS capabilities)
      string(REPLACE "." "" capability ${capability})
      list(APPEND own ${capability})
    endforeach()
    list(REMOVE_DUPLICATES own)
  endif()
  if(own)
    set(architectures ${own})
  elseif(architectures STREQUAL "native")
    message(FATAL_ERROR "KMEANS_CUDA_ARCHITECTURES=native, but nvidia-smi names no GPU here")
  elseif(KMEANS_CUDA STREQUAL "AUTO" AND NOT KMEANS_CUDA_QUICK AND NOT KMEANS_LIBRARY_ONLY)
    string(CONCAT kmeans_cuda_note
           "CUDA: no GPU here, so its variants are not compiled "
           "(CMAKE_ARGS=-DKMEANS_CUDA=ON compiles them all the same)")
    set(kmeans_cuda_missing "there was no GPU when this was configured")
    return()
  else()
    set(architectures 75)
    set(kmeans_cuda_quick ${KMEANS_CUDA_QUICK})
    string(CONCAT kmeans_cuda_note
           "CUDA: no GPU here, so kernels are compiled for compute capability 7.5 alone, with PTX "
           "that drivers of newer GPUs translate (KMEANS_CUDA_ARCHITECTURES names others)")
  endif()
elseif(architectures STREQUAL "default")
  set(architectures ${kmeans_default_architectures})
endif()

if(kmeans_cuda_quick)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --help OUTPUT_VARIABLE options ERROR_QUIET)
  if(options MATCHES "--Ofast-compile")
    set(kmeans_cuda_quick_flags --Ofast-compile=max)
  endif()
endif()

set(CMAKE_CUDA_ARCHITECTURES ${architectures})
enable_language(CUDA)
find_package(CUDAToolkit QUIET)  # of that compiler
if(NOT CUDAToolkit_FOUND)
  set(kmeans_cuda_missing "of the CUDA toolkit only the compiler was found, ${CMAKE_CUDA_COMPILER}")
  if(KMEANS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "KMEANS_CUDA=ON, but ${kmeans_cuda_missing}")
  endif()
  return()
endif()
set(kmeans_has_cuda ON)

# What the program says of itself: capabilities with machine code, and the newest PTX.
set(kmeans_cuda_real "")
set(kmeans_cuda_ptx 0)
foreach(architecture IN LISTS architectures)
  string(REGEX MATCH "^[0-9]+" capability ${architecture})
  if(NOT architecture MATCHES "-virtual$")
    list(APPEND kmeans_cuda_real ${capability})
  endif()
  if(NOT architecture MATCHES "-real$" AND capability GREATER kmeans_cuda_ptx)
    set(kmeans_cuda_ptx ${capability})
  endif()
endforeach()
list(JOIN kmeans_cuda_real "," kmeans_cuda_real)
