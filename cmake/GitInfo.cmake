# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT with the commit of SOURCE_DIR, and whether tracked files differ from it.
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse HEAD
                OUTPUT_VARIABLE commit RESULT_VARIABLE status ERROR_QUIET
                OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0)
  set(commit "unknown")
  set(dirty "true")
else()
  # Result files that a run has just written do not make its build dirty.
  execute_process(COMMAND git -C ${SOURCE_DIR} status --porcelain --untracked-files=no -- .
                          ":(exclude)results"
                  OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes STREQUAL "")
    set(dirty "false")
  else()
    set(dirty "true")
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
