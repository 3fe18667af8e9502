# cmake -DTREE=FOLDER -DFILE=FILE -P commit.cmake: writes FILE, a C++ string with the commit that is
# checked out in TREE, if it has another text. "with changes" follows if a file that git knows is not
# as in the commit. The string is empty if TREE is not the root of a git repository: as in an archive
# of the sources, also one that was unpacked within another repository.
function(ask_git variable)
  execute_process(COMMAND git -C ${TREE} ${ARGN} OUTPUT_VARIABLE answer ERROR_QUIET RESULT_VARIABLE status
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(answer "")
  endif()
  set(${variable} "${answer}" PARENT_SCOPE)
endfunction()

set(commit "")
ask_git(root rev-parse --show-toplevel)
file(REAL_PATH ${TREE} tree)
if(root STREQUAL tree)
  ask_git(commit rev-parse --short=12 HEAD)
  ask_git(changes status --porcelain --untracked-files=no)
  if(commit AND changes)
    string(APPEND commit " with changes")
  endif()
endif()
set(text "\"${commit}\"\n")
if(EXISTS ${FILE})
  file(READ ${FILE} former)
endif()
if(NOT text STREQUAL "${former}")
  file(WRITE ${FILE} "${text}")
endif()
