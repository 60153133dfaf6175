# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT with the commit of SOURCE_DIR, and whether tracked files differ from it. A copy of the
# tree without its .git may carry a file .source-manifest instead (tools/source_manifest.sh): the
# commit, then a SHA-256 sum and path of every tracked file. The sums are checked here, so that a
# copy that was changed since does not pass for the commit.
set(commit "unknown")
set(dirty "true")
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse HEAD
                OUTPUT_VARIABLE head RESULT_VARIABLE status ERROR_QUIET
                OUTPUT_STRIP_TRAILING_WHITESPACE)
if(status EQUAL 0)
  set(commit "${head}")
  # Result files that a run has just written do not make its build dirty.
  execute_process(COMMAND git -C ${SOURCE_DIR} status --porcelain --untracked-files=no -- .
                          ":(exclude)results"
                  OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes STREQUAL "")
    set(dirty "false")
  endif()
elseif(EXISTS ${SOURCE_DIR}/.source-manifest)
  file(STRINGS ${SOURCE_DIR}/.source-manifest lines)
  list(POP_FRONT lines first)
  if(first MATCHES "^commit ([0-9a-f]+)$")
    set(commit "${CMAKE_MATCH_1}")
    set(dirty "false")
    foreach(line IN LISTS lines)
      if(NOT line MATCHES "^([0-9a-f]+)  (.+)$")
        set(dirty "true")
        break()
      endif()
      set(expected "${CMAKE_MATCH_1}")
      set(file "${SOURCE_DIR}/${CMAKE_MATCH_2}")
      set(found "")
      if(EXISTS "${file}")
        file(SHA256 "${file}" found)
      endif()
      if(NOT found STREQUAL expected)
        message(STATUS "${CMAKE_MATCH_2} differs from commit ${commit}")
        set(dirty "true")
        break()
      endif()
    endforeach()
  endif()
endif()
set(text "#define KMEANS_GIT_COMMIT \"${commit}\"\n#define KMEANS_GIT_DIRTY ${dirty}\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUTPUT} "${text}")
endif()
