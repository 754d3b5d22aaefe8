# cmake -DGIT=... -DSOURCE=... -DFILE=... -P MillraceCommit.cmake: writes the sources' commit into FILE, which programs read to
# print their version. Writes nothing if the sources are not a git repository of their own.
execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-prefix OUTPUT_VARIABLE below OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result ERROR_QUIET)
set(commit "")
if(result EQUAL 0 AND below STREQUAL "")
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(commit STREQUAL "")
  file(REMOVE ${FILE})
else()
  file(WRITE ${FILE} "${commit}\n")
endif()
