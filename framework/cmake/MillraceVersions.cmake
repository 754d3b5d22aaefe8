# millrace_check_version(OUT WHAT VERSION OLDEST UNKNOWN)
# Which versions of a library or compiler this source is known to build with: OLDEST and later, below UNKNOWN. Sets OUT to a sentence
# when VERSION is too old, else to nothing. A version that is too new to be known is taken, and said.
function(millrace_check_version out what version oldest unknown)
  set(${out} "" PARENT_SCOPE)
  if(version VERSION_LESS oldest)
    set(${out} "${what} ${version} is too old: Millrace needs ${oldest} or newer" PARENT_SCOPE)
  elseif(NOT version VERSION_LESS unknown)
    message(NOTICE "${what} ${version} is newer than what Millrace is known to build with (${oldest} or newer, before ${unknown}).")
  endif()
endfunction()

# millrace_require_version(WHAT VERSION OLDEST UNKNOWN): the same for what nothing can be built without.
function(millrace_require_version what version oldest unknown)
  millrace_check_version(problem "${what}" "${version}" ${oldest} ${unknown})
  if(problem)
    message(FATAL_ERROR "${problem}.")
  endif()
endfunction()

# millrace_version_in(OUT HEADER MACRO...): the version whose numbers these macros of a header are.
function(millrace_version_in out header)
  set(numbers "")
  foreach(macro IN LISTS ARGN)
    file(STRINGS ${header} line REGEX "^#[ \t]*define[ \t]+${macro}[ \t]+[0-9]+")
    string(REGEX MATCH "[0-9]+$" number "${line}")
    list(APPEND numbers "${number}")
  endforeach()
  list(JOIN numbers "." version)
  set(${out} "${version}" PARENT_SCOPE)
endfunction()
