# SPDX-License-Identifier: Apache-2.0
# The compile options that every target of the suite shares.

add_library(kmeans_options INTERFACE)
# -std is passed as a plain option: CMake 3.25 knows no C++20 flag for nvcc and would silently drop
# a request through CMAKE_CUDA_STANDARD, and a global CMAKE_CXX_STANDARD leaks into CUDA.
target_compile_options(kmeans_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-std=c++20>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wnon-virtual-dtor -Wcast-align -Wunused>
  # Where sources are compiled together, a name in one does not matter to the next.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>>:-Wshadow>
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -Xcompiler=-Wall,-Wextra,-Wshadow>
  # Kernels that have them load more slowly.
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${KMEANS_LINE_NUMBERS}>>:-lineinfo>
  # Not for one GPU's own instructions: the compiler's notes on them come of optimising.
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<NOT:$<BOOL:$<TARGET_PROPERTY:KMEANS_OPTIMISED>>>>:${kmeans_cuda_quick_flags}>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlapping or overlong copies inside std::string where there are none (GCC bugs 105329,
  # 105651).
  target_compile_options(kmeans_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds>)
endif()
if(KMEANS_WERROR)
  target_compile_options(kmeans_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
target_include_directories(kmeans_options INTERFACE ${PROJECT_SOURCE_DIR})
if(KMEANS_COMPILER_HEAP_KIB AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(kmeans_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=${KMEANS_COMPILER_HEAP_KIB}>)
endif()

if(KMEANS_SANITIZE)
  target_compile_options(kmeans_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${KMEANS_SANITIZE} -fno-omit-frame-pointer
                              -fno-sanitize-recover=all>)
  target_link_options(kmeans_options INTERFACE -fsanitize=${KMEANS_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Under the address sanitizer GCC 12 to 14 see a use of uninitialised memory in <regex>, where
    # there is none (GCC bug 105616).
    target_compile_options(kmeans_options INTERFACE
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
endif()
if(KMEANS_SANITIZE MATCHES "thread")
  # ThreadSanitizer sees no barrier inside libgomp and takes every parallel region for a race. LLVM's
  # runtime informs its tool Archer where threads meet, and Archer informs the sanitizer; linked into
  # every program, it works however they are started.
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "KMEANS_SANITIZE=thread needs clang, whose OpenMP runtime the sanitizer "
                        "understands: configure with -DCMAKE_CXX_COMPILER=clang++")
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-resource-dir
                  OUTPUT_VARIABLE resources OUTPUT_STRIP_TRAILING_WHITESPACE)
  find_library(KMEANS_ARCHER archer HINTS ${resources}/../..)
  if(NOT KMEANS_ARCHER)
    message(FATAL_ERROR "KMEANS_SANITIZE=thread needs libarcher.so of LLVM's OpenMP runtime (package "
                        "libomp-dev), or set KMEANS_ARCHER to its path")
  endif()
  get_filename_component(archer_folder ${KMEANS_ARCHER} DIRECTORY)
  target_link_options(kmeans_options INTERFACE
    LINKER:--no-as-needed ${KMEANS_ARCHER} LINKER:-rpath,${archer_folder})
endif()

# Variants are compiled for the machine at hand; the rest of the suite stays portable, and checks at
# start that the processor has what the variants were compiled for (harness/machine/isa_check.cpp).
set(kmeans_march_flags "")
if(KMEANS_MARCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(kmeans_march_flags -march=${KMEANS_MARCH})
  if(KMEANS_MARCH STREQUAL "native")
    list(APPEND kmeans_march_flags -mtune=native)
  endif()
endif()

execute_process(
  COMMAND ${CMAKE_CXX_COMPILER} ${kmeans_march_flags} -dM -E -x c++ /dev/null
  OUTPUT_VARIABLE macros RESULT_VARIABLE status ERROR_VARIABLE message)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "The compiler refuses -march=${KMEANS_MARCH} (set KMEANS_MARCH): ${message}")
endif()
# The features that __builtin_cpu_supports can ask for.
set(kmeans_required_isa "")
set(kmeans_isa_features
  sse3 ssse3 sse4.1 sse4.2 popcnt avx avx2 fma bmi bmi2 avx512f avx512vl avx512bw avx512dq avx512cd
  avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512bitalg avx512vpopcntdq avx512bf16
  avx512vp2intersect gfni vpclmulqdq)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # clang 14 does not know these
  list(APPEND kmeans_isa_features f16c lzcnt movbe vaes avxvnni avx512fp16)
endif()
foreach(feature ${kmeans_isa_features})
  string(TOUPPER ${feature} macro)
  string(REPLACE "." "_" macro ${macro})
  if(macros MATCHES "#define __${macro}__ 1")
    string(APPEND kmeans_required_isa "KMEANS_REQUIRE(\"${feature}\")\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/required_isa.inc
     CONTENT "${kmeans_required_isa}")

# What reads, writes and compares files need not be optimised fully. (A precompiled JSON library does not
# help: at -O1 it takes longer to load than to parse.)
#
#   kmeans_optimise_little(<target>)
function(kmeans_optimise_little target)
  target_compile_options(${target} PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
endfunction()

# Most of the compiler's time goes into headers: sources of the target are compiled together, so many at a
# time (KMEANS_SOURCES_AT_ONCE if it is not said). Those with options of their own stay alone.
#
#   kmeans_join_sources(<target> [<at once>])
function(kmeans_join_sources target)
  set(at_once ${KMEANS_SOURCES_AT_ONCE} ${ARGN})
  list(SORT at_once COMPARE NATURAL)
  list(GET at_once 0 at_once)
  if(at_once GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${at_once})
    # GCC takes what a source includes for a header, whose classes others see.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()
