# Clang's analysis of mutex guards (framework/util/mutex.h), in the folders with threads. SOURCE, WORK, COMPILER, INCLUDES
cmake_minimum_required(VERSION 3.25)
if(NOT COMPILER)
  message("skipped: clang++ is not installed")
  return()
endif()
# Their classes still hold mutexes of the standard library.
set(unsaid checkpoint/checkpointer.h checkpoint/checkpoint_writer.h run/explain.cpp)

set(flags -std=c++20 -fsyntax-only -Wno-everything -Wthread-safety -Werror=thread-safety -DMILLRACE_VERSION="0"
  -I${SOURCE}/framework/include -I${SOURCE}/framework)
foreach(folder IN LISTS INCLUDES)
  if(NOT folder STREQUAL "/usr/include")  # clang searches it anyway, after the standard library
    list(APPEND flags -isystem ${folder})
  endif()
endforeach()

# The sources of classes with a mutex, and all sources near the graph's, which are templates or in headers. Others are left out:
# clang 14 cannot read the views of libstdc++ 12.
set(sources "")
foreach(folder checkpoint graph prepare ranks report run)
  list(APPEND patterns ${SOURCE}/framework/${folder}/*.h ${SOURCE}/framework/${folder}/*.cpp)
endforeach()
file(GLOB files RELATIVE ${SOURCE}/framework ${patterns})
list(FILTER files EXCLUDE REGEX "_test\\.cpp$|_fixture\\.")
foreach(file IN LISTS files)
  file(READ ${SOURCE}/framework/${file} text)
  string(REGEX MATCH "std::[a-z_]*mutex [a-z_]*_;" member "${text}")
  if(member AND NOT file IN_LIST unsaid)
    message(FATAL_ERROR "framework/${file}: '${member}' says nothing to clang: hold a Mutex of util/mutex.h, and say what it guards")
  endif()
  string(REGEX REPLACE "\\.h$" ".cpp" source ${file})
  if((text MATCHES "util/mutex\\.h" OR file MATCHES "^graph/") AND EXISTS ${SOURCE}/framework/${source})
    list(APPEND sources ${SOURCE}/framework/${source})
  endif()
endforeach()
list(REMOVE_DUPLICATES sources)
list(LENGTH sources count)
message("${count} sources")
if(count LESS 10)
  message(FATAL_ERROR "these are fewer than there were: ${sources}")
endif()
execute_process(COMMAND ${COMPILER} ${flags} ${sources} COMMAND_ERROR_IS_FATAL ANY)

# A violation that it must find.
set(class "#include \"util/mutex.h\"
struct Planted {
  int read() { @lock@ return count_; }
  millrace::Mutex mutex_;
  int count_ MILLRACE_GUARDED_BY(mutex_) = 0;
};
")
string(REPLACE "@lock@" "" without "${class}")
string(REPLACE "@lock@" "const millrace::Lock lock(mutex_);" with "${class}")
file(WRITE ${WORK}/without_a_lock.cpp "${without}")
file(WRITE ${WORK}/with_a_lock.cpp "${with}")
execute_process(COMMAND ${COMPILER} ${flags} ${WORK}/with_a_lock.cpp COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${COMPILER} ${flags} ${WORK}/without_a_lock.cpp ERROR_VARIABLE said)
if(NOT said MATCHES "reading variable 'count_' requires holding mutex 'mutex_'")
  message(FATAL_ERROR "clang does not find what was planted:\n${said}")
endif()
