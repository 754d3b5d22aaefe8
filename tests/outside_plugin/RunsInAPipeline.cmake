# A training run in which every image passes the stage, in the moved install tree.
if(NOT EXISTS ${PREFIX}/bin/pipeline-data)
  message("skipped: pipeline-data is not built here")
  return()
endif()
set(ENV{MILLRACE_PLUGIN_PATH} ${PLUGINS})
execute_process(COMMAND ${PREFIX}/bin/pipeline-inspect devices OUTPUT_VARIABLE devices)
if(NOT devices MATCHES "cpu:0")
  message("skipped: there is no device to train on")
  return()
endif()

file(REMOVE_RECURSE ${WORK}/images)
execute_process(COMMAND ${PREFIX}/bin/pipeline-data shapes ${WORK}/images --size 16 --count 40 --validation 10
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PREFIX}/bin/pipeline-run ${SOURCE}/sepia.toml --json --set data.path=${WORK}/images
  OUTPUT_VARIABLE events COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\"event\": *\"step\"" steps "${events}")
list(LENGTH steps count)
if(NOT count EQUAL 4)
  message(FATAL_ERROR "expected 4 steps of 10 images, found ${count}:\n${events}")
endif()

# A wrong parameter of an external stage gives the same error as others.
execute_process(COMMAND ${PREFIX}/bin/pipeline-run ${SOURCE}/sepia.toml --json --set data.path=${WORK}/images
  --set train.sepia.chance=2 RESULT_VARIABLE code ERROR_VARIABLE said)
if(NOT code EQUAL 2 OR NOT said MATCHES "'chance' must be")
  message(FATAL_ERROR "a wrong parameter of the stage ended with code ${code}:\n${said}")
endif()
