# millrace_check_version(OUT WHAT VERSION OLDEST UNKNOWN): supported versions of a library or compiler are OLDEST and later,
# below UNKNOWN. Sets OUT to a sentence if VERSION is too old, else to "". A newer, unknown version is accepted with a message.
function(millrace_check_version out what version oldest unknown)
  set(${out} "" PARENT_SCOPE)
  if(version VERSION_LESS oldest)
    set(${out} "${what} ${version} is too old: Millrace needs ${oldest} or newer" PARENT_SCOPE)
  elseif(NOT version VERSION_LESS unknown)
    message(NOTICE "${what} ${version} is newer than what Millrace is known to build with (${oldest} or newer, before ${unknown}).")
  endif()
endfunction()

# millrace_require_version(WHAT VERSION OLDEST UNKNOWN): likewise for a mandatory dependency.
function(millrace_require_version what version oldest unknown)
  millrace_check_version(problem "${what}" "${version}" ${oldest} ${unknown})
  if(problem)
    message(FATAL_ERROR "${problem}.")
  endif()
endfunction()

# millrace_version_in(OUT HEADER MACRO...): the version from these macros of a header.
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
